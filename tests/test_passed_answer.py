"""Answers without tools that are read for what they cost: what leaves is what came."""

from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.config import parse
from extproc.contract.json_body import MOST_NODES
from extproc.exchange.machine import Exchange
from extproc.exchange.phases import Phase
from extproc.observability.telemetry import Telemetry
from extproc.surfaces import prepare, rewrite_completion, streamed_answer
from extproc.turn import passed_answer
from extproc.turn.passed_answer import LONGEST_READ, PassedStream
from extproc.turn.upstream import UpstreamRequest
from tests.test_exchange import EVENTS, JSON, asked, carried, metadata, only, response_body, response_headers

CONFIG = parse(
    "{models: [{name: m, backend: b, tools: native}], backends: [{name: b, address: 'h:1'}], count_every_answer: true}"
)
MESSAGES: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello!"}]}
COUNT = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
LARGE = LONGEST_READ + 1000


def upstream(**fields: Any) -> UpstreamRequest:
    prepared = prepare(orjson.dumps({**MESSAGES, **fields}), CONFIG)
    assert isinstance(prepared, UpstreamRequest)
    return prepared


def begun(*, told: bool) -> PassedStream:
    """`told`: the client wants the usage chunk."""
    request = upstream(stream=True, stream_options={"include_usage": told})
    assert request.answer is not None
    answer = streamed_answer(request.answer, request.sent)
    assert isinstance(answer, PassedStream)
    return answer


def chunk(**fields: Any) -> bytes:
    return orjson.dumps({"choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": None}], **fields})


USAGE_CHUNK = chunk(choices=[], usage=COUNT)
DATA = [
    chunk(),
    chunk(usage=None),
    chunk(usage=COUNT),
    chunk(choices=[{"index": n, "delta": {"content": "x"}} for n in range(2)]),
    chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "function_call"}]),
    chunk(choices=[]),
    chunk(choices=[], usage=None),
    chunk(choices=["x", {"delta": 1, "index": "a"}, {"index": -1, "delta": {"content": [1]}, "finish_reason": 3}]),
    b'{"object":"chat.completion.chunk"}',
    b'{"error":{"message":"It is broken.","code":500}}',
    b"[DONE]",
    b"[]",
    b"{",
    b"\xff\x00",
    b"",
    b'{"x":"' + b"y" * 300 + b'"}',
]
LINES = [b": a comment", b"event: message", b"id: 7", b"retry: 3", b"nonsense", b"data"]


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[bytes], list[bool], list[int]]:
    """Events, which of them is the usage chunk, and where the stream is cut."""
    end = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    events, counts = [], []
    for data in draw(st.lists(st.sampled_from([*DATA, USAGE_CHUNK]), max_size=8)):
        lines = [
            *draw(st.lists(st.sampled_from(LINES), max_size=2)),
            draw(st.sampled_from([b"data: ", b"data:"])) + data,
        ]
        blanks = draw(st.integers(1, 2))
        event = b"".join(line + end for line in lines) + end
        events += [event, *[end] * (blanks - 1)]
        counts += [data == USAGE_CHUNK, *[False] * (blanks - 1)]
    breaks_off: bool = draw(st.booleans())
    if events and breaks_off:
        events[-1] = events[-1][: draw(st.integers(0, len(events[-1])))] if not counts[-1] else events[-1]
    length = sum(map(len, events))
    return events, counts, sorted(draw(st.lists(st.integers(0, length), max_size=12)))


@given(streams(), st.booleans(), st.sampled_from([20, LONGEST_READ]))
def test_a_stream_leaves_byte_for_byte_but_for_the_usage_chunk_that_nobody_asked_for(
    made: tuple[list[bytes], list[bool], list[int]], told: bool, longest: int
) -> None:
    events, counts, cuts = made
    data = b"".join(events)
    answer = begun(told=told)
    bounds = [0, *cuts, len(data)]
    with pytest.MonkeyPatch.context() as patch:
        if told:  # what is held for long leaves unread, a usage chunk too
            patch.setattr(passed_answer, "LONGEST_READ", longest)
        out = b"".join(answer.feed(data[a:b]) for a, b in itertools.pairwise(bounds)) + answer.close()
    left = b"".join(event for event, count in zip(events, counts, strict=True) if told or not count)
    assert out == left


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_behind_an_event_that_passes_unread_others_are_read(
    end: bytes, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passed_answer, "LONGEST_READ", 200)
    long, count = (b"id: 1" + end + b"data: " + data + end + end for data in (chunk(x="y" * 400), USAGE_CHUNK))
    answer, data = begun(told=False), long + count + long
    out = b"".join(answer.feed(data[at : at + size]) for at in range(0, len(data), size)) + answer.close()
    assert out == long + long
    assert (answer.usage, answer.begun, answer.error) == (COUNT, True, None)


def test_what_a_stream_cost_is_its_backends_count_or_an_estimate() -> None:
    answer = begun(told=False)
    assert answer.cost is None
    answer.feed(b"data: " + chunk() + b"\n\n")
    cost = answer.cost
    assert cost is not None
    assert cost["estimated"]
    assert cost["completion_tokens"] == 2
    answer.feed(b"data: " + USAGE_CHUNK + b"\n\n")
    assert answer.cost == COUNT
    assert not answer.over
    answer.feed(b"data: [DO")
    assert not answer.over
    answer.feed(b"NE]\n\n")
    assert answer.over
    assert not answer.ended  # whatever the backend still says passes


@pytest.mark.parametrize(
    "behind", [USAGE_CHUNK, chunk(), b'{"error": {"message": "Late.", "code": 500}}', b"nonsense", b"x" * LARGE]
)
@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("said", [True, False])
def test_nothing_behind_the_last_event_counts_however_it_is_cut(behind: bytes, *, cut: bool, said: bool) -> None:
    answer = begun(told=True)
    if said:
        answer.feed(b"data: " + chunk() + b"\n\n")
    before = (answer.cost, answer.chunks, answer.error)
    done, late = b"data: [DONE]\n\n", b"data: " + behind + b"\n\n"
    pieces = [done, late[:-5], late[-5:]] if cut else [done + late]
    out = b"".join(map(answer.feed, pieces))
    assert out == done + late
    assert (answer.cost, answer.chunks, answer.error) == before


def test_what_passes_unread_costs_its_prompt() -> None:
    half, nonsense, end = b"data: " + chunk()[:40], b"data: nonsense\n\n", b"data: [DONE]"
    for piece, counts in ((half, True), (nonsense, True), (end, False), (b": nothing yet", False), (b"", False)):
        answer = begun(told=False)
        left = answer.feed(piece) + answer.close()
        assert left == piece
        assert (answer.cost is not None) is counts


def test_running_counts_that_a_client_wouldnt_get_arent_asked_for() -> None:
    for told, expected in ((False, {"include_usage": True}), (True, None)):
        options = {"include_usage": told, "continuous_usage_stats": True}
        request = upstream(stream=True, stream_options=options)
        body = request.body or orjson.dumps({"stream_options": options})
        assert orjson.loads(body)["stream_options"] == (expected or options)


COMPLETION = {"choices": [{"index": 0, "message": {"content": "Hello"}, "finish_reason": "function_call"}]}


@pytest.mark.parametrize(
    ("body", "cost"),
    [
        (orjson.dumps({**COMPLETION, "usage": COUNT}), 12),
        (orjson.dumps(COMPLETION), "estimated"),
        (b'{"usage":' + orjson.dumps(COUNT) + b',"choices":[' + b"0," * MOST_NODES + b"0]}", 12),
        (b'{"choices":["\\"usage\\": {}",' + b"0," * MOST_NODES + b'0], "usage": {"total_tokens": 3}}', "estimated"),
        (b'{"choices":[' + b"0," * MOST_NODES + b'0], "usage":' + b'{"a":' * 2000, "estimated"),
        (b'{"error":{"message":"It is broken."}}', None),
        (orjson.dumps(COMPLETION)[:-20], "estimated"),
        (orjson.dumps({**COMPLETION, "usage": COUNT})[:-1], 12),
        (b"[]", "estimated"),
        (b" \n", None),
        (b"nonsense", "estimated"),
        (b"", None),
    ],
)
def test_a_whole_answer_leaves_as_it_came(body: bytes, cost: Any) -> None:
    request = upstream()
    assert request.answer is not None
    passed = rewrite_completion(body, request.answer, request.sent)
    assert (passed.body, passed.estimated) == (body, False)
    if cost == "estimated":
        assert passed.usage is None
        assert passed.cost is not None
        assert passed.cost["estimated"]
    else:
        assert (passed.cost or {}).get("total_tokens") == cost


# In an exchange


def exchange(**fields: Any) -> Exchange:
    return asked({**MESSAGES, **fields}, Telemetry(CONFIG), CONFIG)


def test_an_event_that_is_larger_than_others_may_be_is_no_error() -> None:
    waiting = exchange(stream=True)
    waiting.receive(response_headers(EVENTS))
    first = b"data: " + chunk(prompt_token_ids=[1] * (LARGE // 2)) + b"\n\n"
    replies = carried(waiting, response_body(first + b"data: " + USAGE_CHUNK + b"\n\n"))
    pieces = [reply.response_body.response.body_mutation.streamed_response.body for reply in replies]
    assert b"".join(pieces) == first
    assert metadata(replies[-1])["total_tokens"] == 12
    assert "error" not in metadata(replies[-1])


def test_silence_is_nobodys_fault_in_a_stream_that_is_the_backends() -> None:
    waiting = exchange(stream=True)
    waiting.receive(response_headers(EVENTS))
    assert waiting.phase is Phase.RESPONSE_STREAM
    assert waiting.idle_timeout is None
    waiting.receive(response_body(b"data: " + chunk() + b"\n\n", end_of_stream=False))
    assert waiting.idle_timeout is None


def test_how_long_it_took_is_left_to_envoys_access_log_which_counts_it() -> None:
    for close in (True, False):
        telemetry = Telemetry(CONFIG)
        waiting = asked({**MESSAGES, "stream": True}, telemetry, CONFIG)
        waiting.receive(response_headers(EVENTS))
        waiting.receive(response_body(b"data: " + chunk() + b"\n\n", end_of_stream=close))
        waiting.close()
        assert b"gen_ai_client_operation_duration_seconds_count" not in telemetry.page()
    telemetry = Telemetry(CONFIG)
    waiting = asked(MESSAGES, telemetry, CONFIG)
    waiting.receive(response_headers(JSON, status=500))
    waiting.receive(response_body(b"{}"))
    assert b"gen_ai_client_operation_duration_seconds_count" in telemetry.page()


def test_an_error_in_it_is_no_share_of_those_with_tools() -> None:
    """`extproc_stream_errors_total` is compared with `extproc_requests_with_tools_total`."""
    telemetry = Telemetry(CONFIG)
    waiting = asked({**MESSAGES, "stream": True}, telemetry, CONFIG)
    waiting.receive(response_headers(EVENTS))
    error = b'data: {"error":{"message":"It is broken.","code":500}}\n\n'
    reply = only(waiting.receive(response_body(error)))
    assert reply.response_body.response.body_mutation.streamed_response.body == error
    assert "error" in metadata(reply)
    page = telemetry.page().decode()
    for name in ("extproc_stream_errors_total{", "extproc_requests_with_tools_total{"):
        assert not any(line.startswith(name) and not line.endswith(" 0.0") for line in page.splitlines()), name


@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ({"content-type": "text/html"}, False),
        ({**JSON, "x-empty": "yes"}, False),
        ({**JSON, "content-encoding": "br"}, True),
        ({**EVENTS, "content-encoding": "zstd"}, True),
        ({**JSON, "content-length": "99999999999"}, True),
    ],
)
def test_an_answer_whose_head_tells_that_it_cant_be_read_passes_by(fields: dict[str, str], counted: bool) -> None:
    waiting = exchange()
    reply = only(waiting.receive(response_headers(fields, end_of_stream="x-empty" in fields)))
    assert reply.WhichOneof("response") == "response_headers"
    assert not reply.HasField("mode_override")
    assert not reply.response_headers.response.header_mutation.remove_headers
    assert waiting.phase is Phase.PASSED_BY
    told = metadata(reply) or {}
    assert (told.get("total_tokens", 0) > 0) is counted
