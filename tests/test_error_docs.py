"""docs/errors.md has every code that the gateway can give an error, and no other, with Envoy's statuses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import extproc
from extproc.config import parse
from extproc.envoy.local_replies import _replies
from extproc.observability.telemetry import CODES
from extproc.runner.run import TIMED_OUT, TOO_LARGE, TOO_MANY_ROUNDS
from tests.generate_error_docs import PAGE, SECTIONS, page

JUDGES = ("conformance", "corpus", "model_checks", "probe")
"""Packages whose errors are no answers of the gateway's."""
MAKERS = {"ApiError", "invalid_call", "invalid_request"}
TOLD = {code for codes in SECTIONS.values() for code in codes}
SERVED = """
limits: {tokens_per_day: 1000}
rate_limit_service: {address: "limits:8081"}
models: [{name: m, backend: b, tools: prompt}]
backends: [{name: b, address: "b:8000"}]
"""
KEYS = "api_keys: /keys\n"
TOKENS = "jwt: {issuer: https://i.example, audiences: [a], jwks: {url: https://i.example/keys}}\n"
REPLIES = [reply for asked in (KEYS, TOKENS) for reply in _replies(parse(asked + SERVED), "1", "1")]


def written() -> Iterator[str]:
    """The codes that stand as words where an error is made."""
    package = Path(extproc.__file__).parent
    for path in package.rglob("*.py"):
        if path.relative_to(package).parts[0] in JUDGES:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS:
                named = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                third = node.args[2:3] if node.func.id == "invalid_request" else node.args[4:5]
                first = node.args[:1] if node.func.id == "invalid_call" else []
                for value in (*named, *third, *first):
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        yield value.value


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.generate_error_docs`"


def test_every_code_is_told_and_no_other() -> None:
    made = {*written(), *CODES, *(reply.code for reply in REPLIES), TOO_MANY_ROUNDS, TOO_LARGE, TIMED_OUT}
    assert made - TOLD == set()
    assert TOLD - made == set()


def test_statuses_are_those_that_envoys_replies_are_given() -> None:
    for reply in REPLIES:
        asked = re.search(r"response\.code == (\d+)", reply.when)
        status = reply.status or (int(asked[1]) if asked else None)
        [told] = [codes[reply.code] for codes in SECTIONS.values() if reply.code in codes]
        assert status is None or told.status == str(status), reply


def test_what_is_said_ends_without_a_stop_and_fits_in_a_cell() -> None:
    for codes in SECTIONS.values():
        for told in codes.values():
            assert not any(part.endswith(".") or "|" in part or "\n" in part for part in told)
