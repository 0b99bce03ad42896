"""OAI: tool calling for OpenAI's clients. The suite plays the backend's text, and judges what the client gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from extproc.conformance.cases.case import Case, Session, judged, with_header
from extproc.conformance.host.outcome import WELL, Ending, Outcome
from extproc.conformance.host.settings import BodyMode, Header, HeaderMode, HostSettings, HttpExchange, HttpMessage
from extproc.conformance.invariants import Level
from extproc.conformance.recipe import Openai, exchange
from extproc.conformance.verdicts import Finding, Verdict, complaint, passed, worst

NONE, STREAMED, BUFFERED, PARTIAL, FULL = BodyMode
_PROFILE = "openai"
_SOURCE = "OpenAI API: chat completions"
_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_WANTED = {"city": "Oslo"}
_PLAYED = HostSettings(BUFFERED, NONE)


def _asked(how: Openai, *, stream: bool, tools: bool = True) -> bytes:
    body: dict[str, Any] = {"model": how.model, "messages": [{"role": "user", "content": "The weather in Oslo?"}]}
    if tools:
        body["tools"] = [_TOOL]
    if stream:
        body["stream"] = True
    return json.dumps(body).encode()


def _whole(how: Openai) -> bytes:
    message = {"role": "assistant", "content": how.text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    body = {"id": "c-1", "object": "chat.completion", "created": 1, "model": how.model, "choices": [choice]}
    return json.dumps({**body, "usage": usage}).encode()


def _stream(how: Openai, *, done: bool = True) -> bytes:
    """A few characters in each event."""
    head = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": how.model}
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": how.text[at : at + 7]} for at in range(0, len(how.text), 7)]
    events = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if done:
        events.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    return data + b"data: [DONE]\n\n" if done else data


def _exchange(how: Openai, *, stream: bool, size: int, answer: bytes | None = None, tools: bool = True) -> HttpExchange:
    """`size`: of the pieces that the response comes in."""
    body = answer if answer is not None else _stream(how) if stream else _whole(how)
    kind = b"text/event-stream" if stream else b"application/json"
    made = exchange(
        path=how.path,
        headers=how.headers,
        body=_asked(how, stream=stream, tools=tools),
        response_headers=(("content-type", kind),),
        response_body=body,
    )
    headers = made.response.headers
    if stream:
        headers = tuple(pair for pair in headers if pair[0] != "content-length")
    pieces = tuple(body[at : at + size] for at in range(0, len(body), size))
    return HttpExchange(made.request, HttpMessage(headers, pieces))


def called(body: bytes, *, stream: bool) -> str | None:
    """What is wrong with a client's answer that should hold the call."""
    try:
        return _called_in_stream(body) if stream else _called_in_whole(body)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return "what the client gets is no chat completion"


def _called_in_whole(body: bytes) -> str | None:
    [choice] = json.loads(body)["choices"]
    return _complaint(choice["finish_reason"], choice["message"].get("tool_calls") or [])


def _called_in_stream(body: bytes) -> str | None:
    lines = body.replace(b"\r\n", b"\n").split(b"\n")
    events = [line.removeprefix(b"data:").strip() for line in lines if line.startswith(b"data:")]
    if not events or events[-1] != b"[DONE]":
        return "the stream has no [DONE]"
    calls: dict[int, dict[str, Any]] = {}
    reason = None
    for event in events[:-1]:
        for choice in json.loads(event)["choices"]:
            reason = choice.get("finish_reason") or reason
            for delta in choice["delta"].get("tool_calls") or []:
                function = calls.setdefault(delta["index"], {"function": {"name": "", "arguments": ""}})["function"]
                for key, text in (delta.get("function") or {}).items():
                    function[key] = function.get(key, "") + (text or "")
    return _complaint(reason, list(calls.values()))


def _complaint(reason: str | None, calls: list[dict[str, Any]]) -> str | None:
    if not calls:
        return "200 with the model's raw text: the call is not found"
    if len(calls) != 1 or calls[0]["function"]["name"] != "get_weather":
        return "other calls than the model's"
    if json.loads(calls[0]["function"]["arguments"]) != _WANTED:
        return "other arguments than the model's"
    return None if reason == "tool_calls" else f"finish_reason is {reason}"


Judge = Callable[[Outcome, HttpExchange], "str | None"]


def _is_call(stream: bool) -> Judge:
    def judge(outcome: Outcome, _exchange: HttpExchange) -> str | None:
        if outcome.ending is Ending.IMMEDIATE or outcome.client is None:
            return None if (outcome.status or 0) >= 400 else f"ends as {outcome.ending.value}"
        if (outcome.status or 0) >= 400:
            return None  # an error, and no raw text
        return called(outcome.client.body, stream=stream)

    return judge


def _strictly(stream: bool) -> Judge:
    """In our layout an error is no way out."""

    def judge(outcome: Outcome, exchange: HttpExchange) -> str | None:
        if outcome.status != 200:
            return f"the client gets {outcome.status}"
        return _is_call(stream)(outcome, exchange)

    return judge


Make = Callable[[Openai], HttpExchange]


async def _found(
    session: Session, settings: HostSettings, make: Make, judge: Judge, *, level: Level, claimed: bool
) -> Finding:
    made = make(session.recipe.openai)
    outcome = await session.play(settings, made)
    finding = judged(outcome, session, settings, False, True, claimed)
    if finding.verdict in (Verdict.PASS, Verdict.WARN) and outcome.ending in WELL:
        wrong = judge(outcome, made)
        if wrong is not None:
            return complaint(level, wrong, outcome.trace)
        if (outcome.status or 0) >= 400 and finding.verdict is Verdict.PASS:
            return passed(f"the client gets {outcome.status}")
    return finding


def _case(
    id_: str,
    title: str,
    settings: HostSettings,
    make: Make,
    judge: Judge,
    *,
    level: Level = Level.MUST,
    claimed: bool = False,
) -> Case:
    async def run(session: Session) -> Finding:
        return await _found(session, settings, make, judge, level=level, claimed=claimed)

    return Case(id_, level, title, _SOURCE, run, _PROFILE)


def _both(id_: str, title: str, settings: HostSettings, *, level: Level = Level.MUST, prefix: str = "") -> Case:
    """A whole answer and a stream: an error, or the call."""

    async def run(session: Session) -> Finding:
        how = replace(session.recipe.openai, path=prefix + session.recipe.openai.path)
        findings = []
        for label, stream in (("whole", False), ("stream", True)):
            make = partial(_exchange, stream=stream, size=50)
            told = replace(session, recipe=replace(session.recipe, openai=how))
            finding = await _found(told, settings, make, _is_call(stream), level=level, claimed=False)
            findings.append((label, finding))
        return worst(findings)

    return Case(id_, level, title, _SOURCE, run, _PROFILE)


_TRIES = 6
"""Exchanges by which a server may notice what kind of host it has."""


def _unguarded(number: int, what: str, *, stream: bool) -> Case:
    """Such a host hands the model's words on, and shows the server no head whose status could say that they are none to
    go by; nor does anything tell so before. So raw text is a WARN. A server may refuse from the start, or notice."""
    settings = replace(_PLAYED, response_headers=HeaderMode.SKIP, allow_mode_override=False)
    make, level = partial(_exchange, stream=stream, size=50), Level.SHOULD

    async def run(session: Session) -> Finding:
        wrong = []
        for _ in range(_TRIES):
            finding = await _found(session, settings, make, _is_call(stream), level=level, claimed=False)
            if finding.verdict is not Verdict.WARN or finding.broken:  # by the invariants: the text is right
                break
            wrong.append(finding)
        if not wrong or finding.verdict is Verdict.FAIL:
            return finding
        first, then = wrong[0], finding.reason if len(wrong) < _TRIES else "no end of it"
        return replace(first, reason=f"{first.reason}; {len(wrong)} times, then {then}")

    title = f"a call in a {what}, overrides ignored and no response headers shown, {_TRIES} times: never raw text"
    return Case(f"OAI-{number}", level, title, _SOURCE, run, _PROFILE)


def _calls(number: int, settings: HostSettings, title: str, *, strict: bool = False) -> tuple[Case, Case]:
    """The same with a whole answer and with a stream."""
    judge = _strictly if strict else _is_call
    return (
        _case(
            f"OAI-{number:02}",
            f"a call in a whole answer, {title}",
            settings,
            lambda how: _exchange(how, stream=False, size=200),
            judge(False),
            claimed=strict,
        ),
        _case(
            f"OAI-{number + 1:02}",
            f"a call in a stream, {title}",
            settings,
            lambda how: _exchange(how, stream=True, size=50),
            judge(True),
            claimed=strict,
        ),
    )


def _cut_stream(outcome: Outcome, _exchange: HttpExchange) -> str | None:
    if outcome.client is not None and b"[DONE]" in outcome.client.body and b'"error"' not in outcome.client.body:
        return "a stream without its end is given one"
    return None


def _is_error(status: int) -> Judge:
    def judge(outcome: Outcome, _exchange: HttpExchange) -> str | None:
        if outcome.client is None:
            return f"ends as {outcome.ending.value}"
        if (outcome.status or 0) < 400:
            return f"the backend's {status} becomes {outcome.status}"
        try:
            told = json.loads(outcome.client.body)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            return "no error object of OpenAI's"
        return None if isinstance(told, str) else "the error has no message"

    return judge


def _same(outcome: Outcome, exchange: HttpExchange) -> str | None:
    if outcome.client is None or outcome.upstream is None:
        return f"ends as {outcome.ending.value}"
    return None if outcome.client.body == exchange.response.body else "the answer is changed"


def _failing(how: Openai, status: int, body: bytes, *headers: Header) -> HttpExchange:
    made = _exchange(how, stream=False, size=4096, answer=body)
    changed = with_header((":status", str(status).encode()), *headers)
    return HttpExchange(made.request, changed(made.response))


def _failure(status: int, what: str, body: bytes, *headers: Header, level: Level = Level.MUST) -> Case:
    title = f"the backend answers {status}{what}: an error object"
    return _case(
        f"OAI-15.{status}",
        title,
        _PLAYED,
        lambda how: _failing(how, status, body, *headers),
        _is_error(status),
        level=level,
    )


def _is_patient(outcome: Outcome, exchange: HttpExchange) -> str | None:
    told = exchange.response.first("retry-after")
    return None if outcome.client is not None and outcome.client.first("retry-after") == told else "it is lost"


_HTML, _IS_HTML = b"<html>broken</html>", ("content-type", b"text/html")
_LATER = b'{"error": {"message": "later", "type": "rate_limit", "param": null, "code": null}}'

OPENAI = (
    *_calls(1, _PLAYED, "BUFFERED/NONE, overrides followed", strict=True),
    *_calls(3, replace(_PLAYED, allow_mode_override=False), "BUFFERED/NONE, overrides ignored"),
    *_calls(5, HostSettings(BUFFERED, BUFFERED), "BUFFERED/BUFFERED"),
    *_calls(7, HostSettings(FULL, FULL), "full duplex both ways"),
    *_calls(9, HostSettings(BUFFERED, FULL), "BUFFERED/FULL_DUPLEX_STREAMED"),
    *_calls(11, HostSettings(STREAMED, STREAMED), "STREAMED/STREAMED"),
    _case(
        "OAI-13",
        "a stream in pieces of one byte",
        _PLAYED,
        lambda how: _exchange(how, stream=True, size=1),
        _strictly(True),
    ),
    _case(
        "OAI-14",
        "the backend's stream breaks off: no success is made of it",
        _PLAYED,
        lambda how: _exchange(how, stream=True, size=50, answer=_stream(how, done=False)),
        _cut_stream,
    ),
    _failure(200, " with a page of HTML", _HTML, _IS_HTML, level=Level.SHOULD),
    _failure(400, "", b'{"error": {"message": "no", "type": "invalid_request_error", "param": null, "code": null}}'),
    _failure(429, "", _LATER),
    _failure(500, " with HTML that is said to be JSON", _HTML),
    _failure(502, " with a page of HTML", _HTML, _IS_HTML),
    _failure(503, " without a body", b""),
    _case(
        "OAI-17",
        "no tools: the answer stays as it is, byte for byte",
        _PLAYED,
        lambda how: _exchange(how, stream=False, size=4096, tools=False),
        _same,
    ),
    _case(
        "OAI-18",
        "the backend answers 429 with `retry-after`: it is kept",
        _PLAYED,
        lambda how: _failing(how, 429, _LATER, ("retry-after", b"7")),
        _is_patient,
        level=Level.SHOULD,
    ),
    _both(
        "OAI-20",
        "`:path` and `:method` are hidden: an error, never raw text",
        replace(_PLAYED, hidden=(":path", ":method")),
    ),
    _both(
        "OAI-21",
        "send_body_without_waiting_for_header_response: an error or the call, never raw text",
        replace(_PLAYED, send_body_without_waiting=True),
    ),
    _both(
        "OAI-22",
        "the path has a prefix, which the route rewrites behind the server: an error or the call, never raw text",
        _PLAYED,
        level=Level.SHOULD,
        prefix="/prefix",
    ),
    _unguarded(23, "whole answer", stream=False),
    _unguarded(24, "stream", stream=True),
)
