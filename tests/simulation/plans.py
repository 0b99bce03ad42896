"""What is drawn before anything happens: the exchanges of a history, and what becomes of each."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson

from extproc.conformance.host.settings import Headers, HttpExchange, HttpMessage
from extproc.exchange.api_keys import hash_line, team_of
from extproc.names import REPLY_HEADER
from extproc.turn.turn import Dialect
from tests.simulation.answers import Said, in_pieces, streamed, whole
from tests.simulation.layouts import OWN, Layout

PATHS: dict[Dialect, str] = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
MODES = ("native", "template", "prompt")
SERVED = "served"
"""The model whose tools run on our side."""
KEYS = ("alice-0123456789abcdef", "bob-0123456789abcdef", "nobody-0123456789abcdef")
"""Of clients; the last is never let in."""
TEAM_KEYS = tuple(f"crew/{name}-0123456789abcdef" for name in ("carol", "dave", "erin"))
"""Of clients of the team, where there is one."""
_WORDS = ("Ähre", "look", "<tool", "{", "`", "at", "the", "line\n", '"quoted"', "</", "end", "\U0001f600")


class Fate(Enum):
    """What becomes of an exchange."""

    WHOLE = "whole"
    """The backend answers to its end."""
    CUT = "cut"
    """Its answer ends early, as if all were well."""
    GONE = "gone"
    """The client leaves, or Envoy does, at any step."""
    STALLED = "stalled"
    """The backend falls silent in the middle of a stream."""
    REFUSED = "refused"
    """The request is wrong."""
    LATE = "deadline"
    """Envoy has set a deadline, which may pass at any step."""
    AGAIN = "asked again"
    """A demanded call doesn't come, or a tool is made up, and the backend is asked once more."""
    RUN = "run"
    """Tools run on our side."""


class Heavy(Enum):
    """Why it is read by a worker, if it is."""

    BRACKETS = "brackets"
    """The request is large."""
    REPAIRS = "repairs"
    """Much in it has to be repaired."""
    CODED = "coded"
    """The answer has a content coding."""


class Second(Enum):
    """What comes of asking once more."""

    CALL = "call"
    """The call."""
    WORDS = "words"
    """Words again."""
    BUSY = "busy"
    """A 503."""
    BROKEN = "broken"
    """Half an answer."""
    NOTHING = "nothing"
    """The connection ends."""
    SILENCE = "silence"
    """Nothing, for ever."""


class Trouble(Enum):
    """What a backend's server answers in the place of an answer."""

    REFUSED = "refused"
    """A 503 of its own."""
    UNREACHABLE = "unreachable"
    """Nothing: Envoy says that it can't be reached,"""
    FULL = "full"
    """or has too much under way."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One exchange."""

    number: int
    dialect: Dialect
    mode: str
    tools: bool
    stream: bool
    fate: Fate
    said: Said
    """What the model means."""
    exchange: HttpExchange
    """As client and backend mean it."""
    layout: Layout = OWN
    heavy: Heavy | None = None
    second: Second | None = None
    made_up: bool = False
    """It is asked once more because of a call of no tool."""
    deadline: float | None = None
    """Seconds."""
    key: str = KEYS[0]
    alias: str | None = None
    """By which its client asks for one of several models."""
    trouble: Trouble | None = None
    """Comes instead of what the model means."""

    @property
    def marker(self) -> bytes:
        """Stands in all that belongs to this exchange, and in nothing else."""
        return marker(self.number)

    @property
    def client(self) -> str:
        """Whose key it has."""
        return owner(self.key)

    @property
    def team(self) -> str | None:
        return team_of(self.client)

    @property
    def rewritten(self) -> bool:
        """Its answer can't go to the client as it comes."""
        calls_before = self.heavy is Heavy.REPAIRS and self.mode != "native"
        return self.tools or self.dialect != "chat" or calls_before

    @property
    def again(self) -> Said:
        """What the model means when it is asked once more."""
        told = self.marker.decode()
        return Said(f"{told} then", (("look", {"q": f"{told} again", "n": 1}),) if self.second is Second.CALL else ())

    @property
    def second_helps(self) -> bool:
        """The client is to get what the model means then."""
        return self.second is Second.CALL or (self.made_up and self.second is Second.WORDS)


def owner(key: str) -> str:
    """The name that a key stands under."""
    return key.partition("-")[0]


def lines_of(keys: Iterable[str]) -> list[str]:
    """Of a file with these keys."""
    return [hash_line(owner(key), key) for key in keys]


def marker(number: int) -> bytes:
    return b"mark%04dmark" % number


_FATES = tuple(Fate)
_WEIGHTS = (120, 18, 18, 8, 8, 8, 8, 6)
_DIALECTS: tuple[Dialect, ...] = ("chat", "chat", "messages", "responses")
_CUMULATIVE = tuple(sum(_WEIGHTS[: place + 1]) for place in range(len(_WEIGHTS)))


def drawn(
    rng: random.Random,
    number: int,
    *,
    foreign: Layout | None = None,
    much: float = 0.02,
    team: bool = False,
    aliases: bool = False,
) -> Plan:
    """An exchange. `foreign`: by which host some of them come; `much`: how many of them are a worker's to read;
    `team`: half of them are clients' of the team; `aliases`: of three ask two for one of several models."""
    layout = foreign if foreign is not None and rng.random() < 0.4 else OWN
    dialect = rng.choice(_DIALECTS)
    fate = rng.choices(_FATES, cum_weights=_CUMULATIVE)[0]
    if not layout.ours and fate in (Fate.STALLED, Fate.RUN):  # there a stream may be held to its end; no runner there
        fate = Fate.WHOLE
    stream = fate is Fate.STALLED or rng.random() < 0.7
    mode = SERVED if fate is Fate.RUN else rng.choice(MODES)
    tools = fate in (Fate.STALLED, Fate.AGAIN) or (fate is not Fate.RUN and rng.random() < 0.8)
    heavy = rng.choice(tuple(Heavy)) if fate in (Fate.WHOLE, Fate.LATE, Fate.GONE) and rng.random() < much else None
    if heavy is Heavy.CODED:
        stream = False
    told = marker(number).decode()
    text = f"{told} {' '.join(rng.choices(_WORDS, k=rng.randrange(6)))} so"
    if stream and rng.random() < 0.02:
        text = text.replace(" so", f" {'so and so ' * 700}so")  # a piece of it is read in steps
    if not tools:
        text = text.replace("<tool", "tool")
    second = rng.choice(tuple(Second)) if fate is Fate.AGAIN else None
    made_up = second is not None and zlib.crc32(text.encode()) % 2 == 0  # not drawn: seeds keep what comes behind it
    if made_up:
        text = orjson.dumps({"name": told, "arguments": {"q": text}}).decode()
    calls = () if second or not tools else (("look", {"q": f"{told} {rng.choice(_WORDS)}", "n": rng.randrange(100)}),)
    key = KEYS[-1] if rng.random() < 0.05 else rng.choice(KEYS[:-1])
    if team and number % 2:  # not drawn: seeds keep what comes behind it
        key = TEAM_KEYS[number // 2 % len(TEAM_KEYS)]
    alias = f"any-{mode}" if aliases and number % 3 and fate is not Fate.RUN else None  # not drawn, as above
    trouble = _trouble(text) if alias is not None and fate in (Fate.WHOLE, Fate.GONE, Fate.LATE) else None
    asked = _asked(told, dialect, alias or mode, fate, tools, stream, heavy, demands=second is not None and not made_up)
    request = HttpMessage(_request_head(number, dialect, key, len(asked)), (asked,))
    said = Said(text, calls)
    cut, coded = fate in (Fate.CUT, Fate.STALLED), heavy is Heavy.CODED
    response = _response(rng, mode, said, stream, cut=cut, coded=coded, amid=team)
    if trouble is not None:
        response = _TROUBLES[trouble]
    return Plan(
        number,
        dialect,
        mode,
        tools,
        stream,
        fate,
        said,
        HttpExchange(request, response),
        layout,
        heavy,
        second,
        made_up,
        rng.choice((0.005, 0.05, 0.5, 20.0)) if fate is Fate.LATE else None,
        key,
        alias,
        trouble,
    )


_MAY_BE: tuple[Trouble | None, ...] = (None, None, None, *Trouble)


def _trouble(text: str) -> Trouble | None:
    return _MAY_BE[zlib.crc32(text.encode()) % len(_MAY_BE)]


def _request_head(number: int, dialect: Dialect, key: str, size: int) -> Headers:
    return (
        (":method", b"POST"),
        (":path", PATHS[dialect].encode()),
        (":scheme", b"http"),
        (":authority", b"gateway"),
        ("content-type", b"application/json"),
        ("content-length", b"%d" % size),
        ("authorization", f"Bearer {key}".encode()),
        ("x-request-id", b"request-%d" % number),
    )


_ERROR = b'{"error": {"message": "not now", "type": "server_error"}}'


def _refusal(reply: str = "") -> HttpMessage:
    """A 503; `reply` is the code of one that is Envoy's own."""
    head: Headers = (
        (":status", b"503"),
        ("content-type", b"application/json"),
        ("content-length", b"%d" % len(_ERROR)),
    )
    return HttpMessage((*head, (REPLY_HEADER, reply.encode())) if reply else head, (_ERROR,))


_TROUBLES = {
    Trouble.REFUSED: _refusal(),
    Trouble.UNREACHABLE: _refusal("backend_unreachable"),
    Trouble.FULL: _refusal("backend_overloaded"),
}
_PARAMETERS = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}}
_DEMANDS: dict[Dialect, Any] = {"chat": "required", "messages": {"type": "any"}, "responses": "required"}
_BRACKETS = " ".join(["[]"] * 12_000)
_BROKEN = "{'q': " + ", ".join(["'so"] * 400)


def _asked(
    told: str,
    dialect: Dialect,
    model: str,
    fate: Fate,
    tools: bool,
    stream: bool,
    heavy: Heavy | None,
    *,
    demands: bool,
) -> bytes:
    said = f"{told} {_BRACKETS}" if heavy is Heavy.BRACKETS else told
    fields: dict[str, Any] = {"model": model, "stream": stream}
    if dialect == "responses":
        fields |= {"input": said, "store": False}
        tool: dict[str, Any] = {"type": "function", "name": "look", "parameters": _PARAMETERS}
    elif dialect == "messages":
        fields |= {"messages": [{"role": "user", "content": said}], "max_tokens": 100}
        tool = {"name": "look", "input_schema": _PARAMETERS}
    else:
        fields["messages"] = [{"role": "user", "content": said}]
        if heavy is Heavy.REPAIRS:
            call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": _BROKEN}}
            fields["messages"] += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": "seen"},
            ]
        tool = {"type": "function", "function": {"name": "look", "parameters": _PARAMETERS}}
    if tools:
        fields["tools"] = [tool]
    if demands:
        fields["tool_choice"] = _DEMANDS[dialect]
    if fate is Fate.REFUSED:
        fields["tools"] = "none"
    return orjson.dumps(fields)


def _response(
    rng: random.Random, mode: str, said: Said, stream: bool, *, cut: bool, coded: bool, amid: bool
) -> HttpMessage:
    kind = b"text/event-stream; charset=utf-8" if stream else b"application/json"
    head: Headers = ((":status", b"200"), ("content-type", kind))
    if stream:
        return HttpMessage(head, tuple(in_pieces(rng, b"".join(streamed(rng, mode, said, cut=cut, amid=amid)))))
    body = whole(mode, said)
    if cut:
        body = body[: rng.randrange(1, len(body))]
    if coded:
        head, body = (*head, ("content-encoding", b"gzip")), gzip.compress(body, mtime=0)
    return HttpMessage(head, tuple(in_pieces(rng, body)))
