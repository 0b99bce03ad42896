"""Runs the model checks against a real model, in every mode and against vLLM alone.

    python -m tests.real_vllm.model_checks 0.5B --only prompt --only template --limit 100
    python -m tests.real_vllm.model_checks --page

Answers are kept in the cache directory as they come, so a run that was stopped goes on; its scores are put into
`results/`, and docs/model-checks.md is made of those. `--limit` is a sample of our cases, `--bfcl` one of each category
of BFCL's questions, whose wheel is downloaded from PyPI into the cache, by its hash.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from extproc.model_checks import bfcl, cases
from extproc.model_checks.asking import Results, Server, ask_all
from extproc.model_checks.judging import judge
from extproc.model_checks.reports import Report
from tests.real_vllm import model_checks_page
from tests.real_vllm.cache import SetupError, root
from tests.real_vllm.conftest import NAME, NATIVE, TEMPLATE, running_gateway
from tests.real_vllm.environment import Environment
from tests.real_vllm.model import LARGER, LARGER_INT8, Model
from tests.real_vllm.server import MODEL, number_type, running_vllm

PARSER = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
MODELS = {"0.5B": Model(), "1.5B": LARGER, "1.5B-int8": LARGER_INT8}
MAX_TOKENS = 96


@dataclass(frozen=True, slots=True)
class Way:
    """A way to ask the model: the name of the model at the gateway, None for vLLM without it."""

    name: str
    model: str | None
    flags: tuple[str, ...] = ()


WAYS = (
    Way("prompt", NAME),
    Way("alone-hermes", None, PARSER),
    Way("native", NATIVE, PARSER),
    Way("template", TEMPLATE),
    Way("alone", None),
)


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.real_vllm.model_checks")
    parser.add_argument("model", nargs="?", choices=MODELS)
    parser.add_argument("--only", action="append", choices=[way.name for way in WAYS])
    parser.add_argument("--limit", type=int, help="so many of our cases; 0 for none (default: all)")
    parser.add_argument("--bfcl", type=int, default=bfcl.PER_CATEGORY, help="so many of each category; 0 for none")
    parser.add_argument("--concurrency", type=int, default=12)
    parser.add_argument("--cache", type=int, default=1, help="vLLM's cache of prompts, in GB")
    parser.add_argument("--page", action="store_true", help="only write the page from the results that are there")
    options = parser.parse_args(words)
    for number in (signal.SIGINT, signal.SIGTERM):  # A shell that runs it in the background has it ignore the first.
        signal.signal(number, signal.default_int_handler)
    if options.model and not options.page:
        run(options)
    model_checks_page.write()
    return 0


def run(options: argparse.Namespace) -> None:
    """Ask in each chosen way; those that share a server share a start of it."""
    environment, model = Environment(), MODELS[options.model]
    sets: dict[str, Sequence[cases.Case]] = {}
    if options.limit != 0:
        sets["cases"] = cases.sample(cases.load(), options.limit, 0)
    if options.bfcl:
        sets["bfcl"] = bfcl.load(wheel(), per_category=options.bfcl)
    chosen = [way for way in WAYS if options.only is None or way.name in options.only]
    with_parser = any(way.flags for way in chosen)
    # In prompt mode vLLM sees no tools, and in template mode it is told `tool_choice: none`, so a server with a parser
    # will do too where there is one: the prompts of three ways are the same, and cached.
    flags_of = {way: PARSER if with_parser and way.name != "alone" else way.flags for way in chosen}
    for flags in sorted(set(flags_of.values()), reverse=True):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            with (
                running_vllm(
                    environment,
                    model,
                    place / "vllm.log",
                    *flags,
                    "--enable-prefix-caching",
                    cache_gigabytes=options.cache,
                ) as vllm,
                running_gateway(vllm, place) as gateway,
            ):
                for way in (way for way in chosen if flags_of[way] == flags):
                    url = vllm.url if way.model is None else gateway.url
                    server = Server(f"{url}/v1", way.model or MODEL, None, 600, options.concurrency, MAX_TOKENS)
                    _asked(options.model, way, server, sets)


def _asked(size: str, way: Way, server: Server, sets: dict[str, Sequence[cases.Case]]) -> None:
    described = {"model": size, "way": way.name, "max_tokens": MAX_TOKENS, "set": cases.digest(cases.raw_cases())[:12]}
    results = Results(root() / "model-checks" / f"{size}-{way.name}.jsonl", described)
    began = time.monotonic()
    there = len(results.answers)

    def told(done: int, of: int) -> None:
        if done % 20 == 0 or done == of:
            seconds = time.monotonic() - began
            print(f"{size} {way.name}: {done} of {of} in {seconds:.0f} s", flush=True)

    ask_all(server, [case for those in sets.values() for case in those], results, told)
    seconds = time.monotonic() - began
    judgements = {
        name: [judge(case, results.answers[case.id, "whole"], results.answers[case.id, "streamed"]) for case in those]
        for name, those in sets.items()
    }
    asked = len(results.answers) - there
    facts = {
        **described,
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "asked": asked,
        "computed_in": number_type(),
    }
    report = Report(facts | {"seconds": round(seconds)}, judgements)
    model_checks_page.save(f"{size}-{way.name}", report.as_json())


def wheel() -> Path:
    """BFCL's wheel in the cache. SetupError where it can't be had, or is another."""
    place = root() / "bfcl"
    found = place / (bfcl.WHEEL.replace("==", "-").replace("bfcl-eval", "bfcl_eval") + "-py3-none-any.whl")
    if not found.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(place), bfcl.WHEEL]
        subprocess.run(command, check=True)
    if hashlib.sha256(found.read_bytes()).hexdigest() != bfcl.WHEEL_SHA256:
        raise SetupError(f"{found} is another wheel than the one that is meant; remove it and try again")
    return found


if __name__ == "__main__":
    sys.exit(main())
