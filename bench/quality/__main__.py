"""How often a real model's calls are right, by the way in which it is asked:

    python -m bench.quality 0.5B [--per-category 200] [--only recommended,alone] [--dev]
    python -m bench.quality --page

Questions of BFCL are asked whole, at temperature 0, through a real vLLM on the CPU, and judged by BFCL's own rules for
what is right, and strictly (`extproc.model_checks`). Answers are kept in the cache as they come, so a run that was
stopped goes on; the counts are put into bench/results, and docs/quality.md is made of those. With `--dev` the questions
are those by which words are chosen (`bench.quality.questions`), whose counts are kept apart and stand on no page. One
question takes about a second for the 0.5B on two cores, three for the 1.5B.
"""

from __future__ import annotations

import argparse
import datetime
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.quality import RULE, mistakes, page
from bench.quality.questions import development
from bench.quality.ways import WAYS, Way, configuration
from extproc.model_checks import bfcl
from extproc.model_checks.asking import Results, Server, ask_all
from extproc.model_checks.calls_as_text import call_as_text
from extproc.model_checks.cases import Case
from extproc.model_checks.judging import checks, is_right
from extproc.model_checks.reading import Answer
from tests.gateway import free_port
from tests.real_vllm.cache import root
from tests.real_vllm.conftest import serving_gateway
from tests.real_vllm.environment import Environment
from tests.real_vllm.model_checks import MODELS, wheel
from tests.real_vllm.server import MODEL, VLLM, number_type, running_vllm
from tests.real_vllm.setup import set_up

SEED = 0
MAX_TOKENS = 300
_TIMEOUT = 1200.0
KINDS = ("words", "a made-up tool as text", "an offered tool as text", "called", "nothing whole")
"""What becomes of a question that needs no call."""


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality")
    parser.add_argument("model", nargs="?", choices=MODELS)
    parser.add_argument("--per-category", type=int, default=200)
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of ways, with commas between them")
    parser.add_argument("--dev", action="store_true", help="the questions by which wordings are chosen")
    parser.add_argument("--concurrency", type=int, default=12)
    parser.add_argument("--page", action="store_true", help="only write the page from the results that are there")
    options = parser.parse_args(words)
    for number in (signal.SIGINT, signal.SIGTERM):  # A shell that runs it in the background has it ignore the first.
        signal.signal(number, signal.default_int_handler)
    if options.model and not options.page:
        run(options)
    if not options.dev:
        page.write()
    return 0


def run(options: argparse.Namespace) -> None:
    """Ask in each way; those that share a server share a start of it."""
    chosen = tuple(way for way in WAYS if options.only is None or way.name in options.only)
    set_up(MODELS[options.model])
    judged = bfcl.load(wheel(), per_category=options.per_category, seed=SEED, chosen=bfcl.JUDGED)
    cases = development(wheel()) if options.dev else judged
    with_parser = any(way.flags for way in chosen)
    # Where vLLM sees no tools, a server with a parser will do too if there is one.
    prompted = [way for way in chosen if not way.offers or (way.settings or {}).get("tools") == "prompt"]
    flags_of = {
        way.name: next(other.flags for other in chosen if other.flags) if with_parser and way in prompted else way.flags
        for way in chosen
    }
    for flags in sorted(set(flags_of.values()), reverse=True):
        ways = tuple(way for way in chosen if flags_of[way.name] == flags)
        with ExitStack() as stack:
            place, port = Path(stack.enter_context(tempfile.TemporaryDirectory())), free_port()
            more = (*flags, "--enable-prefix-caching")
            log = place / "vllm.log"
            vllm = stack.enter_context(running_vllm(Environment(), MODELS[options.model], log, *more))
            if any(way.settings is not None for way in ways):
                settings = json.dumps(configuration(ways, port, vllm.port))
                stack.enter_context(serving_gateway(settings, port, place))
            for way in ways:
                url = vllm.url if way.settings is None else f"http://127.0.0.1:{port}"
                asked(options, way, url, vllm, cases)


def asked(options: argparse.Namespace, way: Way, url: str, vllm: VLLM, of: Sequence[Case]) -> None:
    """All questions in one way, with what came of them printed and kept."""
    cases = way.questions(of)
    described = {"model": options.model, "way": way.name, "max_tokens": MAX_TOKENS, "wording": way.wording}
    kept = Results(root() / "quality" / f"{options.model}-{way.name}-{way.wording}.jsonl", described)
    name = MODEL if way.settings is None else way.name
    is_whole = not kept.answers  # else the server has counted only what was left to ask
    before = spent(vllm)
    ask_all(Server(f"{url}/v1", name, None, _TIMEOUT, options.concurrency, MAX_TOKENS), cases, kept, ways=("whole",))
    found = counted(cases, {case.id: kept.answers[case.id, "whole"] for case in cases})
    found |= counted_by(before, spent(vllm)) if is_whole else {}
    facts = {"date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}", "seed": SEED, "rule": RULE}
    told = {**described, **facts, "computed_in": number_type(), **found}
    rates = (f"{name} {one['right']}/{one['of']}" for name, one in found["categories"].items())
    print(options.model, way.name, *rates, f"calls that fit their schemas {found['valid']}/{found['calls']}")
    page.save(f"{'development/' if options.dev else ''}{options.model}-{way.name}", told)


def spent(vllm: VLLM) -> tuple[int, int]:
    """The tokens of prompts and of answers that the server has counted so far."""
    return vllm.count("vllm:prompt_tokens_total"), vllm.count("vllm:generation_tokens_total")


def counted_by(before: tuple[int, int], after: tuple[int, int]) -> dict[str, Any]:
    """What all of it cost the server. An answer's own `usage` doesn't tell of a first one that was discarded."""
    return {"tokens": [one - other for one, other in zip(after, before, strict=True)], "tokens_by": "server"}


def kind(case: Case, answer: Answer) -> str:
    """What became of a question that needs no call."""
    if answer.calls:
        return "called"
    if not answer.is_answer or answer.is_cut_off or not answer.content.strip():
        return "nothing whole"
    name = call_as_text(answer.content)
    offered = {tool["function"]["name"] for tool in case.tools}
    return "words" if name is None else "an offered tool as text" if name in offered else "a made-up tool as text"


def counted(cases: Sequence[Case], answers: dict[str, Answer]) -> dict[str, Any]:
    """What is right of each category, and what else the page tells."""
    categories: dict[str, dict[str, int]] = {}
    right: dict[str, bool] = {}
    calls = valid = 0
    kinds = dict.fromkeys(KINDS, 0)
    for case in cases:
        answer = answers[case.id]
        found = checks(case, answer)
        of = categories.setdefault(case.feature, {"right": 0, "of": 0, "failed": 0})
        of["of"] += 1
        of["failed"] += not answer.is_answer
        right[case.id] = is_right(case, answer, found)
        of["right"] += right[case.id]
        if not case.call:
            kinds[kind(case, answer)] += 1
        for call in answer.calls[:-1] if answer.is_cut_off else answer.calls:  # those that are whole
            calls += 1
            valid += checks(case, replace(answer, calls=(call,), finish_reason="tool_calls"))["schema"] is None
    there = {name: answer for name, answer in answers.items() if answer.is_answer}
    prompts = {name: answer.prompt_tokens for name, answer in there.items()}
    return {
        "categories": categories,
        "kinds": kinds,
        "mistakes": mistakes.counted(cases, answers, right),
        "answers": len(there),
        "tokens": [sum(prompts.values()), sum(one.completion_tokens for one in there.values())],
        "tokens_by": "answers",
        "prompts": prompts,
        "calls": calls,
        "valid": valid,
    }


if __name__ == "__main__":
    sys.exit(main())
