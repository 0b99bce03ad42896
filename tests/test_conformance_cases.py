"""The catalogue against the reference: no case finds anything wrong with it, and a faulty server is found out."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial

import pytest

from extproc.conformance.cases import CASES
from extproc.conformance.cases.case import Case, Session
from extproc.conformance.cases.openai import called
from extproc.conformance.driver import DirectLink
from extproc.conformance.host.settings import BodyMode
from extproc.conformance.recipe import Limits, Mutated, Recipe, Refused, exchange
from extproc.conformance.reference import HEADER, LARGEST, REFUSAL, SUFFIX, Reference
from extproc.conformance.verdicts import Verdict

_MUTATED = exchange(headers=((HEADER, b"mutate"),))
RECIPE = Recipe(
    profiles=("core", "mutating"),
    passes_told=True,
    refused=Refused(exchange(headers=((HEADER, b"refuse"),)), REFUSAL),
    mutated=Mutated(_MUTATED, _MUTATED.request.body + SUFFIX, _MUTATED.response.body + SUFFIX),
    limits=Limits(body_mib=30, too_large_mib=(LARGEST >> 20) + 1),
)
REFUSED = {"LAY-21", "LAY-22", "LAY-23", "LAY-24"}
"""Without protocol_config the reference can't know the modes."""
RAW_TEXT = {f"OAI-{number:02}" for number in (*range(1, 14), *range(20, 25))}
"""What catches a server that hands on the model's text where calls are due."""


def ids(case: Case) -> str:
    return case.id


@pytest.mark.parametrize("case", [case for case in CASES if case.profile != "openai"], ids=ids)
def test_the_reference_passes(case: Case) -> None:
    finding = asyncio.run(case.judge(Session(RECIPE, lambda: DirectLink(Reference()))))
    if finding.verdict is Verdict.SKIP:
        assert finding.reason == "needs a server over gRPC"
    else:
        wanted = Verdict.REFUSES if case.id in REFUSED else Verdict.PASS
        assert finding.verdict is wanted, finding


def told(modes: tuple[BodyMode, BodyMode]) -> DirectLink:
    return DirectLink(Reference(modes))


def test_a_server_that_is_told_the_modes_needs_no_protocol_config() -> None:
    modes = {
        "LAY-21": (BodyMode.BUFFERED, BodyMode.NONE),
        "LAY-22": (BodyMode.BUFFERED, BodyMode.BUFFERED),
        "LAY-23": (BodyMode.STREAMED, BodyMode.STREAMED),
        "LAY-24": (BodyMode.FULL_DUPLEX_STREAMED, BodyMode.FULL_DUPLEX_STREAMED),
    }
    for case in CASES:
        if (assumed := modes.get(case.id)) is not None:
            found = asyncio.run(case.judge(Session(RECIPE, partial(told, assumed))))
            assert found.verdict is Verdict.PASS, (case.id, found)


def test_raw_text_is_no_answer_to_a_request_for_calls() -> None:
    """The reference knows nothing of tools: it passes the model's words on."""
    session = Session(RECIPE, lambda: DirectLink(Reference()))
    found = {case.id: asyncio.run(case.judge(session)) for case in CASES if case.profile == "openai"}
    raw = {id_ for id_, finding in found.items() if "raw text" in finding.reason}
    assert raw == RAW_TEXT
    warned = {id_ for id_ in raw if found[id_].verdict is Verdict.WARN}
    assert warned == {"OAI-22", "OAI-23", "OAI-24"}
    assert {found[id_].verdict for id_ in raw - warned} == {Verdict.FAIL}
    assert found["OAI-23"].reason.endswith("; 6 times, then no end of it")
    assert (found["OAI-17"].verdict, found["OAI-15.500"].verdict) == (Verdict.PASS, Verdict.FAIL)


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        ([{"tool_calls": [{"index": 0, "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}]}], None),
        ([{"tool_calls": [{"index": 0, "function": {"name": "get_weather", "arguments": "{}"}}]}], "other arguments"),
        ([{"tool_calls": [{"index": 0, "function": {"name": "get_time", "arguments": "{}"}}]}], "other calls"),
        ([{"content": "<tool_call>"}], "200 with the model's raw text"),
    ],
)
def test_a_clients_stream_is_read_as_clients_do(events: list[dict[str, object]], wrong: str | None) -> None:
    deltas: list[tuple[dict[str, object], str | None]] = [*((delta, None) for delta in events), ({}, "tool_calls")]
    chunks = [{"choices": [{"delta": delta, "finish_reason": reason}]} for delta, reason in deltas]
    data = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
    whole = data + b"data: [DONE]\n\n"
    for form in (whole, whole.replace(b"data: ", b"data:"), whole.replace(b"\n", b"\r\n")):  # all are legal
        told = called(form, stream=True)
        assert told is None if wrong is None else (told or "").startswith(wrong)
    assert called(data, stream=True) == "the stream has no [DONE]"


def test_ids_are_unique_and_of_the_catalogue() -> None:
    names = [case.id for case in CASES]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"(LAY|END|HDR|MUT|LIV|UNK|OAI)-\d\d(\.\d+)?", name)] == []
