"""`extproc conformance model`, and `python -m extproc.model_checks`.

Exit status: 0, judged; 1, something is wrong that no model is to blame for; 2, nothing could be judged.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PURPOSE = "judge how well a model calls tools at an OpenAI-compatible server, and what the server makes of it"
EXPLAINED = """\
  extproc conformance model http://127.0.0.1:10000/v1 --model qwen-coder
  extproc conformance model http://127.0.0.1:8000/v1 --model qwen --limit 50 --concurrency 16 --results run.jsonl
  pip download --no-deps bfcl-eval==2026.3.23
  extproc conformance model http://127.0.0.1:8000/v1 --model qwen --bfcl bfcl_eval-2026.3.23-py3-none-any.whl

If the server wants a key, put it into the environment variable OPENAI_API_KEY or into --key-file.
Exit status: 0, judged; 1, judged, but the server is at fault somewhere (an error, a wrong finish_reason, a broken
form); 2, nothing could be judged. `python -m extproc.model_checks` is the same.
"""
_KEY = "OPENAI_API_KEY"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="the base URL to judge, up to /v1")
    parser.add_argument("--model", required=True, help="the model to ask for")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help=f"holds the API key (default: ${_KEY})")
    parser.add_argument(
        "--bfcl", type=Path, metavar="WHEEL", help="also ask BFCL's questions, from this wheel or folder"
    )
    parser.add_argument("--only", choices=("cases", "bfcl"), help="only our cases, or only BFCL's questions")
    parser.add_argument(
        "--limit", type=_positive, metavar="N", help="take a sample: N cases, and N questions of each category"
    )
    parser.add_argument("--seed", type=int, default=0, help="selects the sample (default: %(default)s)")
    parser.add_argument(
        "--concurrency", type=_at_once, default=4, metavar="N", help="number of requests at once (default: 4)"
    )
    parser.add_argument(
        "--max-tokens", type=_positive, default=200, metavar="N", help="most tokens in an answer (default: 200)"
    )
    parser.add_argument("--timeout", type=seconds, default=120.0, help="seconds for one answer (default: %(default)g)")
    parser.add_argument(
        "--results", type=Path, metavar="FILE", help="keep the answers here; a run that was stopped resumes from them"
    )
    parser.add_argument("--json", action="store_true", help="print the scores, and everything that is wrong, as JSON")
    parser.add_argument("--markdown", action="store_true", help="print only the tables")
    parser.add_argument(
        "--allow-remote", action="store_true", help="ask a server that isn't on this machine's loopback interface"
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {number}")
    return number


def seconds(text: str) -> float:
    """Of an option: more than none, and an end."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected more than 0 seconds, got {text}")
    return number


def _at_once(text: str) -> int:
    from extproc.model_checks.asking import MOST_AT_ONCE

    number = _positive(text)
    if number > MOST_AT_ONCE:
        raise argparse.ArgumentTypeError(f"expected at most {MOST_AT_ONCE}, got {number}")
    return number


def run(options: argparse.Namespace) -> int:
    """Returns the exit status."""
    from extproc.model_checks.asking import Results, ResultsError, Server, ServerError, ask_all, key_of, require_allowed
    from extproc.model_checks.bfcl import BfclError

    try:
        require_allowed(options.url, remote=options.allow_remote)
        sets = _sets(options)
        server = Server(
            options.url,
            options.model,
            key_of(options.key_file),
            options.timeout,
            options.concurrency,
            options.max_tokens,
        )
        results = Results(options.results, _described(options))
        ask_all(server, [case for cases in sets.values() for case in cases], results, _progress())
    except (ServerError, ResultsError, BfclError, OSError) as error:
        print(f"extproc: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = f"; the same command goes on from {options.results}" if options.results else ""
        print(f"extproc: stopped{kept}", file=sys.stderr)
        return 2
    return _say(options, sets, results.answers)


def _sets(options: argparse.Namespace) -> dict[str, list[Any]]:
    from extproc.model_checks import bfcl, cases

    sets = {}
    if options.only != "bfcl":
        sets["cases"] = cases.sample(cases.load(), options.limit, options.seed)
    if options.bfcl is not None and options.only != "cases":
        most = bfcl.PER_CATEGORY if options.limit is None else min(options.limit, bfcl.PER_CATEGORY)
        sets["bfcl"] = bfcl.load(options.bfcl, per_category=most, seed=options.seed)
        if not bfcl.is_pinned(options.bfcl):
            print(f"extproc: {options.bfcl} isn't the wheel {bfcl.WHEEL}", file=sys.stderr)
    if not sets:
        raise bfcl.BfclError("--only bfcl needs --bfcl WHEEL")
    return sets


def _described(options: argparse.Namespace) -> dict[str, Any]:
    """What has to be the same for a run to go on. Not the sample: a larger one holds the smaller one."""
    from extproc.model_checks import cases

    return {
        "model": options.model,
        "max_tokens": options.max_tokens,
        "seed": options.seed,
        "set": cases.digest(cases.raw_cases())[:12],
    }


def _progress() -> Any:
    """Tells on a terminal how far it is."""

    def told(done: int, of: int) -> None:
        if sys.stderr.isatty() or done % 25 == 0 or done == of:
            end = "\r" if sys.stderr.isatty() and done < of else "\n"
            print(f"{done} of {of} cases", end=end, file=sys.stderr, flush=True)

    return told


def _say(options: argparse.Namespace, sets: Mapping[str, Sequence[Any]], answers: Mapping[Any, Any]) -> int:
    from extproc.model_checks.judging import judge
    from extproc.model_checks.reports import Report

    judgements = {
        name: [judge(case, answers[case.id, "whole"], answers[case.id, "streamed"]) for case in cases]
        for name, cases in sets.items()
    }
    report = Report(_described(options), judgements)
    if options.json:
        print(json.dumps(report.as_json(), ensure_ascii=False, indent=2))
    else:
        print(report.as_markdown() if options.markdown else report.as_text(), end="")
    return 0 if report.keeps_form else 1


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m extproc.model_checks",
        description=f"{PURPOSE[0].upper() + PURPOSE[1:]}.",
        epilog=EXPLAINED,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    return run(parser.parse_args(words))
