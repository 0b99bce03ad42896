"""Has Cline work with a real model and writes docs/real-models.md's part of it: `python -m tests.real_vllm.cline`.

Cline is far too much for a model of this size: its prompt alone has 3000 tokens. So the tasks are small, and whether
they are done is no matter of pass or fail; that every answer is what the protocol wants is. Takes up to twelve minutes
on two cores. Cline has to be installed: `python -m tests.clients.setup cline`.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tests.clients.cline import ClineRun, run_cline
from tests.clients.installed import CLIENTS
from tests.clients.sandbox import Sandbox
from tests.gateway import Gateway, configured_gateway, wait_until
from tests.real_vllm.environment import Environment
from tests.real_vllm.model import NAME, Model
from tests.real_vllm.results_page import quoted, table, without_folder, write_section
from tests.real_vllm.server import MODEL, VLLM, running_vllm
from tests.real_vllm.turns import Turn, read_turns

TITLE = "Cline with a very small model"
MODES = ("prompt", "template")
_CONTEXT = 8192
"""Tokens: Cline's prompt, and some turns."""
_MOST_TOKENS = 300
"""Of an answer: a small model now and then repeats itself until it is stopped."""
_SECONDS = 100.0
"""Of a task. A model that makes no call is asked again for ever."""
_MOST_FILES = 1000
_FAULTS = ("unknown_tool_call", "malformed_tool_arguments", "invalid_tool_arguments")


@dataclass(frozen=True, slots=True)
class Task:
    """What Cline is told to do, and how it can be seen whether that was done."""

    words: str
    is_done: Callable[[ClineRun, Path], bool]


TASKS = (
    Task(
        "Create hello.txt with a greeting, then count its bytes.",
        lambda run, workspace: (workspace / "hello.txt").exists() and _saw(run, "hello.txt"),
    ),
    Task("Run the command: wc -w notes.txt", lambda run, _: _saw(run, "2 notes.txt")),
    Task("Read the file notes.txt and say what is in it.", lambda run, _: _saw(run, "one two")),
)


def _saw(run: ClineRun, text: str) -> bool:
    """Whether a tool that does something returned this."""
    return any(text in str(result) for name, result in run.results if name != "submit_and_exit")


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a task."""

    run: ClineRun
    turns: list[Turn]
    requests: int
    """By the gateway's own count."""
    faults: dict[str, int]
    """Calls that don't fit the offered tools, by the gateway's own count."""
    broken: int
    """Exchanges that the gateway broke off, by its own count."""
    done: bool

    @property
    def problems(self) -> list[str]:
        """What is wrong with the protocol."""
        found = [problem for turn in self.turns for problem in turn.problems()]
        if self.broken:
            found.append(f"{self.broken} exchanges were broken off by the gateway")
        if self.requests != len(self.turns):
            found.append(f"{self.requests} requests were counted, and {len(self.turns)} recorded")
        return found


def try_task(
    vllm: VLLM,
    folder: Path,
    mode: str,
    task: Task,
    seconds: float = _SECONDS,
    enough: Callable[[], bool] = lambda: False,
) -> Tried:
    """Have Cline do it, for so many seconds at most or until it is `enough`, in an empty `folder`."""
    with _recording_gateway(vllm, folder, mode) as gateway:
        sandbox = Sandbox(folder, enough)
        run = run_cline(sandbox, f"{gateway.url}/v1", "real", task.words, seconds=seconds)
        wait_until(gateway.is_at_rest)
        requests = int(gateway.metric('extproc_requests_total{model="real"}'))
        faults = {fault: _count(gateway, f'invalid_calls_total{{fault="{fault}",model="real"}}') for fault in _FAULTS}
        broken = sum(_count(gateway, f'aborted_exchanges_total{{reason="{why}"}}') for why in ("bug", "protocol_error"))
        done = task.is_done(run, sandbox.workspace)
    return Tried(run, read_turns(folder / "recordings"), requests, faults, broken, done)


@contextmanager
def _recording_gateway(vllm: VLLM, folder: Path, mode: str) -> Iterator[Gateway]:
    configuration = f"""
models:
  - name: real
    backend: vllm
    upstream_model: {MODEL}
    tools: {mode}
    defaults: {{temperature: 0, max_tokens: {_MOST_TOKENS}}}
backends:
  - {{name: vllm, address: "127.0.0.1:{vllm.port}"}}
recording: {{directory: {folder}/recordings, files: {_MOST_FILES}}}
"""
    with configured_gateway(folder, configuration) as gateway:
        yield gateway


def _count(gateway: Gateway, name: str) -> int:
    return int(gateway.metric(f"extproc_{name}"))


def main() -> int:
    if not CLIENTS["cline"].is_ready:
        print(f"Cline can't be tried: {CLIENTS['cline'].why_not}", file=sys.stderr)
        return 1
    tried: dict[tuple[str, Task], Tried] = {}
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        flags = ("--max-model-len", str(_CONTEXT))
        with running_vllm(Environment(), Model(), place / "vllm.log", *flags) as vllm:
            for mode in MODES:
                for number, task in enumerate(TASKS):
                    folder = place / f"{mode}-{number}"
                    folder.mkdir()
                    tried[mode, task] = came = try_task(vllm, folder, mode, task)
                    print(f"{mode}: {task.words} {came.requests} requests, {came.problems or 'no problem'}", flush=True)
    write_section(TITLE, section(tried))
    return int(any(came.problems for came in tried.values()))


def section(tried: dict[tuple[str, Task], Tried]) -> Iterator[str]:
    """Its part of docs/real-models.md."""
    yield f"""\
Written by `python -m tests.real_vllm.cline`: Cline 3.0.65 (`--yolo`), Envoy and the processor, and vLLM 0.32.0 on the
CPU with {NAME} (from a 4-bit file), a context of {_CONTEXT} tokens, temperature 0, at most {_MOST_TOKENS}
tokens for an answer, format hermes. Each task gets {_SECONDS:.0f} seconds; then Cline is killed.
"""
    head = ("mode", "task", "requests:", "calls:", "words alone:", "no end:", "calls that don't fit:")
    yield from table(
        (*head, "objects shown:", "protocol errors:", "Cline says", "done"),
        [_summary(mode, task, came) for (mode, task), came in tried.items()],
    )
    yield ""
    yield from _EXPLAINED.strip().splitlines()
    for (mode, task), came in tried.items():
        yield ""
        yield f"### {mode}: {task.words}"
        yield ""
        rows = [(number, *_shown(turn)) for number, turn in enumerate(came.turns, 1)]
        yield from table(("turn", "the model wrote", "Cline got", "`finish_reason`"), _without_repeats(rows))
        if problems := came.problems:
            yield ""
            yield from (f"- {problem}" for problem in problems)


_EXPLAINED = """
*Calls* and *words alone* count complete answers; *no end*: Cline was killed before it. *Calls that don't fit* is the
gateway's own count of calls that break the tool's schema, or aren't JSON. *Objects shown*: markup, or objects with a
tool's name, in what is shown as words. *Protocol errors*: streams that [openapi.yaml](openapi.yaml) doesn't describe,
that OpenAI's client doesn't read, that become another answer when they come byte by byte, or that show as text what
could have been run; errors other than that the context is full; exchanges that the gateway broke off. *Cline says* what
its last line says; *done* is whether its tools really did the work.
"""


def _summary(mode: str, task: Task, came: Tried) -> tuple[object, ...]:
    ended = Counter("calls" if turn.calls else "words" for turn in came.turns if turn.ended)
    return (
        mode,
        task.words,
        came.requests,
        ended["calls"],
        ended["words"],
        sum(not turn.ended for turn in came.turns),
        sum(came.faults.values()),
        sum(len(turn.shown_objects) for turn in came.turns),
        len(came.problems),
        "completed" if came.run.completed else "not ended",
        "yes" if came.done else "no",
    )


def _shown(turn: Turn) -> tuple[str, str, str]:
    calls = [quoted(without_folder(f"{name}({arguments})")) for name, arguments in turn.calls]
    times = [(call, len(list(same))) for call, same in groupby(calls)]
    got = [call if count == 1 else f"{count} times {call}" for call, count in times]
    if turn.text:
        got.insert(0, f"the words {quoted(without_folder(turn.text))}")
    reason = turn.finish_reason or ("none: killed" if not turn.ended else f"none: status {turn.status}")
    return quoted(without_folder(turn.written)), "; ".join(got), reason


def _without_repeats(rows: Sequence[tuple[object, ...]]) -> Iterator[tuple[object, ...]]:
    """Of rows that differ in their number alone the first, with how often it came."""
    at = 0
    while at < len(rows):
        number, *cells = rows[at]
        same = 1
        while at + same < len(rows) and list(rows[at + same][1:]) == cells:
            same += 1
        yield (number if same == 1 else f"{number} to {at + same}", *cells)
        at += same


if __name__ == "__main__":
    sys.exit(main())
