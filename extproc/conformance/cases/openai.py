"""OAI: tool calling for OpenAI's clients. The suite plays the backend's text, and judges what the client gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from extproc.conformance.cases.case import Case, Session, judged
from extproc.conformance.host.outcome import Ending, Outcome
from extproc.conformance.host.settings import BodyMode, HostSettings, HttpExchange, HttpMessage
from extproc.conformance.invariants import Level
from extproc.conformance.recipe import Openai, exchange
from extproc.conformance.verdicts import Finding, Verdict, passed

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


def _case(
    id_: str,
    title: str,
    settings: HostSettings,
    make: Callable[[Openai], HttpExchange],
    judge: Judge,
    *,
    claimed: bool = False,
) -> Case:
    async def run(session: Session) -> Finding:
        made = make(session.recipe.openai)
        outcome = await session.play(settings, made)
        finding = judged(outcome, session, settings, False, True, claimed)
        if finding.verdict in (Verdict.PASS, Verdict.WARN) and outcome.ending in (
            Ending.COMPLETE,
            Ending.LEFT,
            Ending.IMMEDIATE,
        ):
            wrong = judge(outcome, made)
            if wrong is not None:
                return Finding(Verdict.FAIL, wrong, (), outcome.trace)
            if (outcome.status or 0) >= 400 and finding.verdict is Verdict.PASS:
                return passed(f"the client gets {outcome.status}")
        return finding

    return Case(id_, Level.MUST, title, _SOURCE, run, _PROFILE)


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


def _failing(how: Openai, status: int, body: bytes) -> HttpExchange:
    made = _exchange(how, stream=False, size=4096, answer=body)
    headers = tuple(
        (name, str(status).encode() if name == ":status" else value) for name, value in made.response.headers
    )
    return HttpExchange(made.request, replace(made.response, headers=headers))


def _failure(status: int, body: bytes) -> Case:
    title = f"the backend answers {status}: an error object"
    return _case(f"OAI-15.{status}", title, _PLAYED, lambda how: _failing(how, status, body), _is_error(status))


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
    _failure(400, b'{"error": {"message": "no", "type": "invalid_request_error", "param": null, "code": null}}'),
    _failure(429, b'{"error": {"message": "later", "type": "rate_limit", "param": null, "code": null}}'),
    _failure(500, b"<html>broken</html>"),
    _case(
        "OAI-17",
        "no tools: the answer stays as it is, byte for byte",
        _PLAYED,
        lambda how: _exchange(how, stream=False, size=4096, tools=False),
        _same,
    ),
    _case(
        "OAI-20",
        "`:path` and `:method` are hidden: an error, never raw text",
        replace(_PLAYED, hidden=(":path", ":method")),
        lambda how: _exchange(how, stream=False, size=4096),
        _is_call(False),
    ),
    _case(
        "OAI-21",
        "send_body_without_waiting_for_header_response: an error or the call, never raw text",
        replace(_PLAYED, send_body_without_waiting=True),
        lambda how: _exchange(how, stream=False, size=4096),
        _is_call(False),
    ),
)
