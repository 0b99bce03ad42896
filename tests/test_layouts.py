"""Every layout of a host's filter against the one that we configure ourselves: the same result, or a refusal."""

from __future__ import annotations

import asyncio
import gzip
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from extproc.config import Config, parse
from extproc.conformance.driver import DirectLink, play
from extproc.conformance.host import messages
from extproc.conformance.host.outcome import Ending, Outcome
from extproc.conformance.host.settings import BodyMode, HeaderMode, HostSettings, HttpExchange, HttpMessage
from extproc.conformance.recipe import exchange as http_exchange
from extproc.exchange.context import ExchangeContext
from extproc.exchange.effects import BackendResponse
from extproc.exchange.host import STRIKES, Host
from extproc.exchange.machine import Exchange
from extproc.observability.telemetry import Telemetry
from extproc.turn.turn import Dialect
from tests.exchange_link import ExchangeProcessor
from tests.test_answer import CALL, completion, stream
from tests.test_dialects import of_stream, of_whole
from tests.test_request import WEATHER

NONE, STREAMED, BUFFERED, PARTIAL, FULL = BodyMode
PLAYED = [
    (request, response)
    for request in (BUFFERED, STREAMED, FULL)
    for response in (NONE, BUFFERED, STREAMED, FULL)
    if (request, response) != (FULL, NONE)
]
REFUSED = [
    (request, response)
    for request in BodyMode
    for response in BodyMode
    if (request, response) not in (*PLAYED, (NONE, NONE))
]
MODES = ("prompt", "template", "native")
CONFIG: Config = parse(
    "models:\n"
    + "".join(f"  - {{name: {mode}, backend: qwen, tools: {mode}, format: hermes}}\n" for mode in MODES)
    + "  - {name: demanding, backend: qwen, tools: prompt, format: hermes, retry: true}\n"
    + "backends: [{name: qwen, address: 127.0.0.1:8000, structured_outputs: false}]\nother_paths: [/v1/embeddings]\n"
)
TWO_BACKENDS = parse(
    "models: [{name: prompt, backend: a, tools: prompt}, {name: other, backend: b, tools: prompt}]\n"
    "backends: [{name: a, address: 127.0.0.1:1}, {name: b, address: 127.0.0.1:2}]\n"
)
RENAMED = parse(
    "models: [{name: prompt, backend: qwen, tools: prompt, upstream_model: org/real}]\n"
    "backends: [{name: qwen, address: 127.0.0.1:1}]\nother_paths: [/v1/embeddings]\n"
)
EMBEDDINGS = parse(
    "models: [{name: prompt, backend: qwen, tools: prompt}]\n"
    "backends: [{name: qwen, address: 127.0.0.1:1}]\nother_paths: [/v1/embeddings]\n"
)
TELEMETRY = Telemetry(CONFIG)
PATHS: dict[Dialect, str] = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
SCHEMA = WEATHER["function"]["parameters"]  # type: ignore[index]
TOOLS: dict[Dialect, dict[str, Any]] = {
    "chat": WEATHER,
    "messages": {"name": "get_weather", "input_schema": SCHEMA},
    "responses": {"type": "function", "name": "get_weather", "parameters": SCHEMA},
}
SAID = "I look. " * 40
_MADE_UP = re.compile(rb"(?<=\")(call|toolu|msg|resp|fc|rs)_[0-9A-Za-z-]+|(?<=_at\":)[0-9.]+")


def names(modes: tuple[BodyMode, BodyMode]) -> str:
    return f"{modes[0].name}/{modes[1].name}"


def asked(dialect: Dialect, model: str, *, streamed: bool, tools: bool = True, **more: Any) -> bytes:
    said = (
        {"input": "Weather in Zürich?"}
        if dialect == "responses"
        else {"messages": [{"role": "user", "content": "Weather in Zürich?"}]}
    )
    fields: dict[str, Any] = {"model": model, **said, "stream": streamed, **more}
    if dialect == "messages":
        fields["max_tokens"] = 500
    if tools:
        fields["tools"] = [TOOLS[dialect]]
    return orjson.dumps(fields)


def native(*, streamed: bool) -> bytes:
    """An answer of a backend that reads calls itself."""
    function = {"name": "get_weather", "arguments": '{"city": "Zürich"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    if streamed:
        event = orjson.loads(stream([SAID]).split(b"\n\n")[1].removeprefix(b"data: "))
        event["choices"][0]["delta"] = {"tool_calls": [{"index": 0, **call}]}
        whole = stream([SAID], "tool_calls")
        at = whole.index(b'"finish_reason":"tool_calls"')
        at = whole.rindex(b"data: ", 0, at)
        return whole[:at] + b"data: " + orjson.dumps(event) + b"\n\n" + whole[at:]
    body = orjson.loads(completion(SAID, "tool_calls"))
    body["choices"][0]["message"]["tool_calls"] = [call]
    return orjson.dumps(body)


def answer(mode: str, *, streamed: bool) -> bytes:
    if mode == "native":
        return native(streamed=streamed)
    return stream([SAID, *CALL]) if streamed else completion(SAID + CALL)


def exchange(
    path: str, request: bytes, response: bytes, *, streamed: bool, status: int = 200, size: int = 97
) -> HttpExchange:
    """Both bodies come in pieces of so many bytes."""
    kind = b"text/event-stream" if streamed else b"application/json"
    made = http_exchange(
        path=path, body=request, status=status, response_headers=(("content-type", kind),), response_body=response
    )
    return HttpExchange(cut(made.request, size), cut(made.response, size))


def cut(message: HttpMessage, size: int) -> HttpMessage:
    return replace(message, pieces=tuple(message.body[at : at + size] for at in range(0, len(message.body), size)))


@dataclass
class Played:
    outcome: Outcome
    processor: ExchangeProcessor

    @property
    def client(self) -> bytes:
        assert self.outcome.client is not None, self.outcome
        return self.outcome.client.body

    @property
    def upstream(self) -> HttpMessage:
        assert self.outcome.upstream is not None, self.outcome
        return self.outcome.upstream


def played(
    settings: HostSettings,
    made: HttpExchange,
    *,
    host: Host | None = None,
    config: Config = CONFIG,
    second: BackendResponse | None = None,
    right: bool = True,
) -> Played:
    """`right`: no invariant may be broken."""
    processor = ExchangeProcessor(Exchange(ExchangeContext(config), TELEMETRY, host), second)
    outcome = asyncio.run(play(settings, made, DirectLink(processor)))
    assert not right or outcome.violations == (), outcome.trace
    return Played(outcome, processor)


def own(made: HttpExchange, **more: Any) -> Played:
    """In our own layout, of which the other tests are."""
    return played(HostSettings(BUFFERED, NONE), made, **more)


def stranger() -> Host:
    return Host(lambda: 0.0)


def same_request(found: Played, expected: Played) -> None:
    assert found.upstream.body == expected.upstream.body
    assert found.upstream.first("x-extproc-backend") == b"qwen"
    told = found.upstream.all("content-length")
    assert told in ([], [str(len(found.upstream.body)).encode()])


def unnumbered(body: bytes) -> bytes:
    """Without the ids that an answer is given."""
    return _MADE_UP.sub(b"(id)", body)


@pytest.mark.parametrize("modes", PLAYED, ids=names)
@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("follows", [True, False], ids=["followed", "ignored"])
def test_calls_are_the_same_in_every_layout(
    modes: tuple[BodyMode, BodyMode], dialect: Dialect, streamed: bool, follows: bool
) -> None:
    for mode in MODES:
        made, expected = called(dialect, mode, streamed=streamed)
        found = played(HostSettings(*modes, allow_mode_override=follows), made, host=stranger())
        same_request(found, expected)
        if NONE in modes and not follows:
            assert found.outcome.status == 502, "nobody takes it for an answer"
            continue
        assert (found.outcome.ending, found.outcome.status) == (Ending.COMPLETE, 200)
        assert unnumbered(found.client) == unnumbered(expected.client)


@pytest.mark.parametrize(
    "modes", [(a, b) for a in (BUFFERED, STREAMED, FULL) for b in (NONE, BUFFERED, STREAMED, FULL)], ids=names
)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("follows", [True, False], ids=["followed", "ignored"])
def test_a_host_that_tells_no_modes_gets_the_same_or_an_error(
    modes: tuple[BodyMode, BodyMode], streamed: bool, follows: bool
) -> None:
    made, expected = called("chat", "prompt", streamed=streamed)
    settings = HostSettings(*modes, allow_mode_override=follows, protocol_config=False)
    found = played(settings, made, host=stranger(), right=False)
    if modes == (BUFFERED, BUFFERED) or (follows and FULL not in modes):
        same_request(found, expected)
        assert (found.outcome.violations, found.outcome.status) == ((), 200)
        assert unnumbered(found.client) == unnumbered(expected.client)
    elif modes[0] is BUFFERED and modes[1] is NONE:
        assert found.outcome.status == 502
    else:
        assert found.outcome.client is None
        assert "doesn't tell its modes" in str(found.outcome.closed)


def called(dialect: Dialect, mode: str, *, streamed: bool) -> tuple[HttpExchange, Played]:
    """An exchange with a call, and what comes of it in our own layout."""
    body = asked(dialect, mode, streamed=streamed)
    made = exchange(PATHS[dialect], body, answer(mode, streamed=streamed), streamed=streamed)
    expected = own(made)
    read = of_stream if streamed else of_whole
    assert read(dialect, expected.client).calls == [("get_weather", {"city": "Zürich"})]
    return made, expected


@pytest.mark.parametrize("modes", PLAYED, ids=names)
@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
def test_what_is_not_to_be_changed_is_the_same_byte_for_byte(
    modes: tuple[BodyMode, BodyMode], dialect: Dialect, streamed: bool
) -> None:
    body = asked(dialect, "prompt", streamed=streamed, tools=False)
    made = exchange(PATHS[dialect], body, stream([SAID]) if streamed else completion(SAID), streamed=streamed)
    expected = own(made)
    if dialect == "chat":
        assert expected.client == made.response.body
    found = played(HostSettings(*modes), made, host=stranger())
    same_request(found, expected)
    assert unnumbered(found.client) == unnumbered(expected.client)


@pytest.mark.parametrize("modes", [*PLAYED, (NONE, NONE)], ids=names)
@pytest.mark.parametrize("follows", [True, False], ids=["followed", "ignored"])
def test_other_paths_pass_untouched(modes: tuple[BodyMode, BodyMode], follows: bool) -> None:
    made = exchange("/v1/embeddings", b'{"model": "prompt", "input": "x"}' * 9, b"{}" * 200, streamed=False)
    config = EMBEDDINGS  # of which every model's name is its backend's: nothing is read
    found = played(HostSettings(*modes, allow_mode_override=follows), made, host=stranger(), config=config)
    assert (found.upstream.body, found.client) == (made.request.body, made.response.body)
    assert found.upstream.first("x-extproc-backend") == b"qwen"
    get = http_exchange(method="GET", path="/metrics", body=b"", response_body=b"a 1")
    found = played(HostSettings(*modes, allow_mode_override=follows), get, host=stranger(), config=config)
    assert (found.upstream.first("x-extproc-backend"), found.client) == (None, b"a 1")


@pytest.mark.parametrize("modes", PLAYED, ids=names)
def test_a_request_is_routed_by_the_model_that_it_names(modes: tuple[BodyMode, BodyMode]) -> None:
    body = orjson.dumps({"model": "prompt", "input": "x" * 300})
    made = exchange("/v1/embeddings", body, b"{}" * 200, streamed=False)
    expected, found = own(made, config=RENAMED), played(HostSettings(*modes), made, host=stranger(), config=RENAMED)
    same_request(found, expected)
    assert orjson.loads(found.upstream.body)["model"] == "org/real"
    assert found.client == made.response.body


@pytest.mark.parametrize("modes", REFUSED, ids=names)
def test_what_cannot_be_right_is_refused_in_the_first_reply(modes: tuple[BodyMode, BodyMode]) -> None:
    made, _ = called("chat", "prompt", streamed=False)
    found = played(HostSettings(*modes), made)
    assert found.outcome.ending is Ending.REFUSED
    assert found.outcome.closed is not None
    assert found.outcome.closed.status == "FAILED_PRECONDITION"
    assert "_body_mode" in found.outcome.closed.details


@pytest.mark.parametrize("modes", [(STREAMED, NONE), (STREAMED, FULL)], ids=names)
def test_streamed_requests_need_one_backend(modes: tuple[BodyMode, BodyMode]) -> None:
    made, _ = called("chat", "prompt", streamed=False)
    found = played(HostSettings(*modes), made, config=TWO_BACKENDS)
    assert found.outcome.ending is Ending.REFUSED
    assert "more than one backend" in str(found.outcome.closed)


@pytest.mark.parametrize("modes", PLAYED, ids=names)
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [(b"{", 400, "invalid_json"), (b'{"model": "prompt", "messages": []}', 400, None), (b"", 400, "invalid_json")],
)
def test_a_wrong_request_is_answered_in_every_layout(
    modes: tuple[BodyMode, BodyMode], body: bytes, status: int, code: str | None
) -> None:
    found = played(HostSettings(*modes), exchange(PATHS["chat"], body, b"{}", streamed=False), host=stranger())
    assert (found.outcome.ending, found.outcome.status) == (Ending.IMMEDIATE, status)
    assert found.outcome.upstream is None
    error = orjson.loads(found.client)["error"]
    assert code is None or error["code"] == code


@pytest.mark.parametrize("modes", PLAYED, ids=names)
def test_a_body_beyond_the_limit_is_refused_before_it_is_whole(modes: tuple[BodyMode, BodyMode]) -> None:
    limited = CONFIG.model_copy(update={"limits": CONFIG.limits.model_copy(update={"max_body_bytes": 1000})})
    body = asked("chat", "prompt", streamed=False, metadata={"a": "x" * 2000})
    made = exchange(PATHS["chat"], body, b"{}", streamed=False)
    chunked = HttpExchange(without_length(made.request), made.response)
    for each in (made, chunked):
        found = played(HostSettings(*modes), each, config=limited, host=stranger())
        assert found.outcome.status == 413


def without_length(message: HttpMessage) -> HttpMessage:
    return replace(message, headers=tuple(pair for pair in message.headers if pair[0] != "content-length"))


FAILURES = {
    "garbage": (200, b"<html>", 502),
    "empty": (200, b"", 502),
    "error": (404, b'{"message": "no such model"}', 404),
    "words": (500, b"broken", 500),
}


@pytest.mark.parametrize("modes", PLAYED, ids=names)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_answer_is_an_error_or_is_cut_off(modes: tuple[BodyMode, BodyMode], failure: str) -> None:
    status, body, wanted = FAILURES[failure]
    made = exchange(PATHS["chat"], asked("chat", "prompt", streamed=False), body, streamed=False, status=status)
    found = played(HostSettings(*modes), made, host=stranger())
    expected = own(made)
    assert expected.outcome.status == wanted
    if modes[1] is STREAMED and failure == "garbage":
        assert found.outcome.ending is Ending.CUT, "its status has left"
        assert "the answer's status has left" in str(found.outcome.closed)
    else:
        assert (found.outcome.status, found.client) == (wanted, expected.client)
        assert found.outcome.client is not None
        assert found.outcome.client.all("content-type") == [b"application/json"]


@pytest.mark.parametrize("modes", PLAYED, ids=names)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
def test_a_demanded_call_is_asked_for_once_more(modes: tuple[BodyMode, BodyMode], streamed: bool) -> None:
    body = asked("chat", "demanding", streamed=streamed, tool_choice="required")
    first = stream(["No."]) if streamed else completion("No.")
    second = BackendResponse(200, answer("prompt", streamed=streamed))
    made = exchange(PATHS["chat"], body, first, streamed=streamed)
    expected = own(made, second=second)
    found = played(HostSettings(*modes), made, host=stranger(), second=second)
    assert b"get_weather" in expected.client
    assert (found.outcome.status, unnumbered(found.client)) == (200, unnumbered(expected.client))


@pytest.mark.parametrize("modes", PLAYED, ids=names)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
def test_trailers_follow_on_the_whole_body(modes: tuple[BodyMode, BodyMode], streamed: bool) -> None:
    made, expected = called("chat", "prompt", streamed=streamed)
    trailers = (("x-trailer", b"1"),)
    with_both = HttpExchange(replace(made.request, trailers=trailers), replace(made.response, trailers=trailers))
    found = played(HostSettings(*modes), with_both, host=stranger())
    same_request(found, expected)
    assert found.upstream.trailers == trailers
    assert (found.outcome.status, unnumbered(found.client)) == (200, unnumbered(expected.client))
    assert found.outcome.client is not None
    assert found.outcome.client.trailers == trailers


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
def test_trailers_behind_pieces_of_unknown_length_leave_no_answer(streamed: bool) -> None:
    """Where the last piece has had its reply, what was kept of the others can't go on any more."""
    made, _ = called("chat", "prompt", streamed=streamed)
    body = stream([SAID, *CALL])[: -len(b"data: [DONE]\n\n")] if streamed else made.response.body
    cut_off = cut(without_length(replace(made.response, pieces=(body,), trailers=())), 97)
    found = played(HostSettings(BUFFERED, STREAMED), HttpExchange(made.request, cut_off), host=stranger())
    assert found.outcome.ending is Ending.CUT
    unknown = without_length(replace(made.request, trailers=()))
    found = played(HostSettings(STREAMED, STREAMED), HttpExchange(unknown, made.response), host=stranger())
    assert found.outcome.status == 400, "and no request"


def test_trailers_behind_an_error_that_the_client_has_cut_nothing_off() -> None:
    made, _ = called("chat", "prompt", streamed=True)
    body = b'data: {"error": {"message": "No memory.", "code": 500}}\n\ndata: [DONE]\n\n'
    answer_ = without_length(replace(made.response, pieces=(body,)))
    found = played(HostSettings(BUFFERED, STREAMED), HttpExchange(made.request, answer_), host=stranger())
    assert found.outcome.client is not None
    assert found.outcome.ending is not Ending.CUT
    assert b'"error"' in found.outcome.client.body
    assert found.outcome.client.trailers == answer_.trailers


@pytest.mark.parametrize("modes", PLAYED, ids=names)
@pytest.mark.parametrize("change", [{"double_end": True}, {"empty_end": True}, {"attributes": True}])
def test_ends_that_come_twice_are_one(modes: tuple[BodyMode, BodyMode], change: dict[str, Any]) -> None:
    for streamed in (False, True):
        for tools in (False, True):
            body = asked("chat", "prompt", streamed=streamed, tools=tools)
            made = exchange(PATHS["chat"], body, answer("prompt", streamed=streamed), streamed=streamed)
            found = played(HostSettings(*modes, **change), made, host=stranger())
            assert unnumbered(found.client) == unnumbered(own(made).client)


@pytest.mark.parametrize("modes", PLAYED, ids=names)
def test_heads_that_are_not_shown_are_asked_for_or_the_answer_is_refused(modes: tuple[BodyMode, BodyMode]) -> None:
    made, expected = called("chat", "prompt", streamed=False)
    for follows in (True, False):
        settings = HostSettings(*modes, response_headers=HeaderMode.SKIP, allow_mode_override=follows)
        found = played(settings, made, host=stranger(), right=False)
        if follows and FULL not in modes:
            assert unnumbered(found.client) == unnumbered(expected.client)
        elif NONE in modes:
            assert found.outcome.client == made.response, "nothing of it is shown: exchange.host tells what follows"
        else:
            assert found.outcome.client is None
            assert "response_header_mode SEND" in str(found.outcome.closed)


@pytest.mark.parametrize("modes", PLAYED, ids=names)
def test_large_bodies_go_on_in_pieces_that_a_host_takes(modes: tuple[BodyMode, BodyMode]) -> None:
    body = asked("chat", "prompt", streamed=False, user="x" * 300_000)
    large = completion(SAID * 800 + CALL)
    made = exchange(PATHS["chat"], body, large, streamed=False, size=16_384)
    found, expected = played(HostSettings(*modes), made, host=stranger()), own(made)
    same_request(found, expected)
    assert unnumbered(found.client) == unnumbered(expected.client)


@pytest.mark.parametrize("modes", PLAYED, ids=names)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
def test_a_compressed_answer_is_read_and_leaves_without_its_coding(
    modes: tuple[BodyMode, BodyMode], streamed: bool
) -> None:
    made, expected = called("chat", "prompt", streamed=streamed)
    packed = exchange(PATHS["chat"], made.request.body, gzip.compress(made.response.body), streamed=streamed)
    headers = (*packed.response.headers, ("content-encoding", b"gzip"))
    packed = HttpExchange(packed.request, replace(packed.response, headers=headers))
    found = played(HostSettings(*modes), packed, host=stranger())
    assert found.outcome.client is not None
    assert found.outcome.client.first("content-encoding") is None
    assert unnumbered(found.client) == unnumbered(expected.client)


def test_a_host_in_another_layout_is_not_judged_by_overrides_that_it_never_got() -> None:
    host = stranger()
    made, _ = called("chat", "prompt", streamed=False)
    for _ in range(STRIKES + 1):
        processor = ExchangeProcessor(Exchange(ExchangeContext(CONFIG), TELEMETRY, host))
        first = messages.headers("request", made.request.headers, HostSettings(BUFFERED, BUFFERED), end=False)
        messages.dress(first, HostSettings(BUFFERED, BUFFERED), first=True)
        processor.receive(first)
        processor.receive(messages.body("request", made.request.body, end=True))
        processor.receive(messages.headers("response", made.response.headers, HostSettings(), end=False))
        processor.half_closed()
        assert not processor.exchange.ignored_override
    assert not host.ignores
    assert not host.known


def test_a_stream_in_full_duplex_has_its_limits_of_silence_and_others_have_none() -> None:
    made, _ = called("chat", "prompt", streamed=True)
    found = {}
    for mode in (FULL, STREAMED, BUFFERED):
        settings = HostSettings(BUFFERED, mode)
        processor = ExchangeProcessor(Exchange(ExchangeContext(CONFIG), TELEMETRY, stranger()))
        first = messages.headers("request", made.request.headers, settings, end=False)
        messages.dress(first, settings, first=True)
        processor.receive(first)
        processor.receive(messages.body("request", made.request.body, end=True))
        processor.receive(messages.headers("response", made.response.headers, settings, end=False))
        found[mode] = processor.exchange.idle_timeout
    limits = CONFIG.limits
    assert found == {FULL: limits.first_event_seconds, STREAMED: None, BUFFERED: None}


def test_the_page_says_which_layouts_are_played() -> None:
    page = (Path(__file__).parents[1] / "docs" / "hosts.md").read_text()
    [table] = [part for part in page.split("\n\n") if part.startswith("| request")]
    head, _, *rows = table.splitlines()
    answers = re.findall("`([A-Z_]+)`", head)
    said = {}
    for row in rows:
        request, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        for answer_mode, cell in zip(answers, cells, strict=True):
            said[BodyMode[request.strip("`")], BodyMode[answer_mode]] = cell.strip("*")
    assert {modes for modes, cell in said.items() if cell.startswith("right")} == set(PLAYED)
    assert {modes for modes, cell in said.items() if cell == "refused"} == {
        modes for modes in REFUSED if PARTIAL is not modes[1]
    }
    assert {modes[0] for modes, cell in said.items() if "one backend" in cell} == {STREAMED}
