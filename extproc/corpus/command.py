"""`extproc conformance tools`, and `python -m extproc.corpus`: judges a parser, or a server, by the corpus.

The exit status is 0 if every row passed, 1 if one did not, 2 if nothing could be judged.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from extproc.corpus.endpoint import EndpointError, answers, judge_url
from extproc.corpus.judging import ParserUnderTest, judge
from extproc.corpus.peers.process import PEERS, PeerError, running
from extproc.corpus.reports import Report
from extproc.corpus.rows import KINDS, Row, file_names, load, raw_rows
from extproc.model_checks.asking import KEY, ServerError, key_of, require_allowed
from extproc.model_checks.command import seconds

PURPOSE = "judge a tool-call parser, or an OpenAI-compatible server, by what models write"
_NAMES = ", ".join(name for name in PEERS if name != "extproc-worker")
EXPLAINED = """\
A parser is a function that gets an `extproc.corpus.Given` and yields OpenAI's deltas; `extproc` is ours:
  extproc conformance tools --parser extproc
  PYTHONPATH=. extproc conformance tools --parser my_adapter:parse --format hermes --json
Parsers of vllm, sglang, mlx-lm and transformers are judged where they are installed, in the formats that they claim:
  extproc conformance tools --parser vllm --python ~/vllm/bin/python --format hermes

A server is judged by what it makes of a model whose answers are the rows' texts. For the rows of one format, with a
gateway in front of the scripted vLLM:
  extproc conformance tools --format hermes --answers > answers.jsonl
  python -m scripted_vllm --port 8000 --answers answers.jsonl
  extproc conformance tools http://127.0.0.1:10000/v1 --format hermes --model NAME

Exit status: 0, every row passed; 1, one didn't; 2, nothing could be judged. `python -m extproc.corpus` is the same.
"""


def main(arguments: Sequence[str] | None = None, name: str = "python -m extproc.corpus") -> int:
    """Judge, and say what came of it; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog=name,
        description=f"{PURPOSE[0].upper() + PURPOSE[1:]}.",
        epilog=EXPLAINED,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    return run(parser.parse_args(arguments))


def run(options: argparse.Namespace) -> int:
    """Returns the exit status."""
    url = options.server or options.url
    try:
        rows = _chosen(options)
        if options.answers:
            sys.stdout.writelines(json.dumps(answer) + "\n" for answer in answers(rows))
            return 0
        if options.export:
            kept = {row.id for row in rows}
            exported = (row for name in file_names() for row in raw_rows(name) if row["id"] in kept)
            sys.stdout.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in exported)
            return 0
        if url:
            require_allowed(url, remote=options.allow_remote)
            key = key_of(options.key_file)
            report = judge_url(url, rows, model=options.model, key=key, timeout=options.timeout)
        elif options.parser in PEERS:
            report = _judge_peer(options.parser, options.python, rows)
        else:
            report = judge(_named_parser(options.parser), rows)
    except ModuleNotFoundError as missing:
        if (missing.name or "extproc").partition(".")[0] == "extproc":
            raise
        print(f"corpus: {missing.name} isn't installed; only servers and our own parser need it", file=sys.stderr)
        return 2
    except (EndpointError, ServerError, KeyError, PeerError, ValueError, OSError) as error:
        said = error if isinstance(error, OSError) or not error.args else error.args[0]
        print(f"corpus: {said}", file=sys.stderr)
        return 2
    _say(report, as_json=options.json)
    return 1 if report.failures else 0


def _judge_peer(name: str, python: str, rows: list[Row]) -> Report:
    with running(name, python) as peer:
        claimed = [row for row in rows if row.format in peer.formats]
        if not claimed:
            raise ValueError(f"{name} claims none of these formats, but {', '.join(sorted(peer.formats))}")
        return judge(peer, claimed)


def _named_parser(name: str) -> ParserUnderTest:
    """The parser that `extproc`, or `MODULE:FUNCTION`, names. ValueError when there is none."""
    if name == "extproc":
        from extproc.corpus.adapters import extproc_parser  # not needed to judge others

        return extproc_parser
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise ValueError(f"{name!r} is no MODULE:FUNCTION")
    try:
        found: ParserUnderTest = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"no parser {name}: {error}") from error
    if not callable(found):
        raise ValueError(f"{name} can't be called")
    return found


def _chosen(options: argparse.Namespace) -> list[Row]:
    rows = [row for row in load(options.format or ()) if options.kind in (None, row.kind)]
    if options.row:
        rows = [row for row in rows if row.id in options.row]
    if not rows:
        raise ValueError("no such rows")
    return rows


def _say(report: Report, *, as_json: bool) -> None:
    print(json.dumps(report.as_json(), ensure_ascii=False, indent=2) if as_json else report.as_text())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("server", nargs="?", metavar="URL", help="the base URL to judge, up to /v1")
    what.add_argument(
        "--parser",
        metavar="MODULE:FUNCTION",
        help=f"the parser to judge: a function of yours, or one of `extproc`, {_NAMES}",
    )
    what.add_argument("--url", help="the same as URL")
    what.add_argument("--answers", action="store_true", help="print the answers that the model behind URL has to give")
    what.add_argument("--export", action="store_true", help="print the rows themselves, as JSON Lines")
    parser.add_argument("--python", default=sys.executable, help="where vllm, sglang and so on are installed")
    parser.add_argument("--format", action="append", metavar="F", help="only rows of this format; may be repeated")
    parser.add_argument("--kind", choices=KINDS, help="only rows of this kind")
    parser.add_argument("--row", action="append", metavar="ID", help="only this row; may be repeated")
    parser.add_argument("--json", action="store_true", help="print scores and failures as JSON")
    parser.add_argument("--model", default="model", help="the model to ask for at URL (default: %(default)s)")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help=f"holds the API key for URL (default: ${KEY})")
    parser.add_argument(
        "--allow-remote", action="store_true", help="ask a server that isn't on this machine's loopback interface"
    )
    parser.add_argument("--timeout", type=seconds, default=30.0, help="seconds for one answer (default: %(default)s)")
