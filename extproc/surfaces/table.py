"""All dialects in one table: Envoy's routes, admission, and what errors look like go by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from extproc.contract.errors import ApiError
from extproc.contract.rules import Rules
from extproc.names import CHAT_PATH, COUNT_TOKENS_PATH, MESSAGES_PATH, RESPONSES_PATH, TOKENIZE_PATH
from extproc.surfaces import chat, messages, responses
from extproc.surfaces.continued import Continued
from extproc.turn.answer import AnswerWriter
from extproc.turn.spec import ResponseSpec
from extproc.turn.turn import Dialect, Turn

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Route:
    """What clients ask for at one path, by POST."""

    name: str
    """In Envoy's statistics and access log."""
    path: str
    upstream: str
    """The path at a backend."""
    problems: Callable[[Json, Rules], Iterator[ApiError]]
    """Everything that is wrong with a decoded body, in a stable order, with places in that body."""
    read: Callable[[Json, Rules], Turn]
    """The turn that a decoded body asks for. Raises the first of its problems."""
    continued: Continued | None = None
    """How it is read where its beginning is known, if it can be."""


@dataclass(frozen=True, slots=True)
class Surface:
    """One dialect."""

    name: Dialect
    routes: tuple[Route, ...]
    writer: Callable[[ResponseSpec], AnswerWriter]
    """Writes one answer."""
    error: Callable[[ApiError], Json]
    """What an answer is that is an error."""
    count: Callable[[bytes], bytes] | None = None
    """What a client that asked for a count gets for the backend's answer."""

    def error_body(self, error: ApiError) -> bytes:
        """The same as JSON."""
        return orjson.dumps(self.error(error))


CHAT = Surface(
    name="chat",
    routes=(Route("chat-completions", CHAT_PATH, CHAT_PATH, chat.problems, chat.read, chat.CONTINUED),),
    writer=chat.ChatWriter,
    error=chat.error_object,
)
MESSAGES = Surface(
    name="messages",
    routes=(
        Route("messages", MESSAGES_PATH, CHAT_PATH, messages.problems, messages.read, messages.CONTINUED),
        Route("count-tokens", COUNT_TOKENS_PATH, TOKENIZE_PATH, messages.counting_problems, messages.read_counting),
    ),
    writer=messages.MessagesWriter,
    error=messages.error_object,
    count=messages.token_count,
)

RESPONSES = Surface(
    name="responses",
    routes=(Route("responses", RESPONSES_PATH, CHAT_PATH, responses.problems, responses.read, responses.CONTINUED),),
    writer=responses.ResponsesWriter,
    error=chat.error_object,
)

SURFACES: Mapping[Dialect, Surface] = {surface.name: surface for surface in (CHAT, MESSAGES, RESPONSES)}
"""By name."""

ROUTES: Mapping[str, Route] = {route.path: route for surface in SURFACES.values() for route in surface.routes}
"""By path."""

_BY_PATH = {route.path: surface for surface in SURFACES.values() for route in surface.routes}


def surface_of(path: str) -> Surface:
    """Whose requests come to a path; where nobody's do, that of chat completions."""
    return _BY_PATH.get(path, CHAT)
