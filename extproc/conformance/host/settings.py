"""How the simulated host's filter is configured, and the HTTP exchange that it plays: what a case is made of.

The names are those of Envoy's `ExternalProcessor` filter (v3) and of `ProcessingMode`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

Header: TypeAlias = tuple[str, bytes]
Headers: TypeAlias = tuple[Header, ...]
"""In their order on the wire; names are lower case and may repeat."""


class BodyMode(IntEnum):
    """`ProcessingMode.BodySendMode`, by Envoy's numbers."""

    NONE = 0
    STREAMED = 1
    BUFFERED = 2
    BUFFERED_PARTIAL = 3
    FULL_DUPLEX_STREAMED = 4


REQUESTS = (
    BodyMode.NONE,
    BodyMode.BUFFERED,
    BodyMode.BUFFERED_PARTIAL,
    BodyMode.STREAMED,
    BodyMode.FULL_DUPLEX_STREAMED,
)
RESPONSES = (BodyMode.NONE, BodyMode.BUFFERED, BodyMode.STREAMED, BodyMode.FULL_DUPLEX_STREAMED)
"""The body modes whose pairs are the layout matrix: 20, since a response's BUFFERED_PARTIAL isn't played."""


class HeaderMode(IntEnum):
    """`ProcessingMode.HeaderSendMode`. DEFAULT is SEND for headers and SKIP for trailers."""

    DEFAULT = 0
    SEND = 1
    SKIP = 2


class Values(IntEnum):
    """Where the host puts the values of the headers that it sends."""

    RAW = 0
    """In `raw_value`: Envoy since 1.30."""
    TEXT = 1
    """In `value`: Envoy before 1.30."""
    MIXED = 2
    """Pseudo headers in `value`, others in `raw_value`: agentgateway."""


@dataclass(frozen=True, slots=True)
class HostSettings:
    """One layout of the filter, and what a host may do differently within it."""

    request_body: BodyMode = BodyMode.BUFFERED
    response_body: BodyMode = BodyMode.BUFFERED
    request_headers: HeaderMode = HeaderMode.SEND
    response_headers: HeaderMode = HeaderMode.SEND
    request_trailers: HeaderMode = HeaderMode.SEND
    response_trailers: HeaderMode = HeaderMode.SEND
    allow_mode_override: bool = True
    allowed_response_modes: tuple[BodyMode, ...] = ()
    """`allowed_override_modes`, as far as the response's body goes; empty: all."""
    protocol_config: bool = True
    """Whether the first message says the modes: Envoy since 1.34."""
    told_modes: tuple[int, int] | None = None
    """The modes that `protocol_config` says instead of the ones that are played."""
    send_body_without_waiting: bool = False
    observability: bool = False
    attributes: bool = False
    """Whether messages carry attributes and metadata."""
    values: Values = Values.RAW
    buffer_limit: int | None = None
    """How much of a body BUFFERED_PARTIAL waits for: it sends the pieces until one is too much. None: all of it."""
    empty_end: bool = False
    """BUFFERED bodies come with `end_of_stream: false`, and an empty message with true behind them (agentgateway)."""
    double_end: bool = False
    """A full-duplex body's end comes twice, as an empty message (envoyproxy/envoy#46237)."""
    end_before_trailers: bool = False
    """A body's last piece says that it ends the stream, and trailers come nevertheless."""
    early_response: bool = False
    """The response begins behind the request's headers, and the request's body is never sent: a local reply."""
    listener: tuple[BodyMode, BodyMode] | None = None
    """The listener's body modes, where the route has others: the ones that are played."""
    hidden: tuple[str, ...] = ()
    """Headers that the processor isn't shown (`forward_rules`)."""
    release: tuple[int, int] = (1, 40)
    """Which Envoy the host is, where releases differ."""

    @property
    def modes(self) -> tuple[BodyMode, BodyMode]:
        return self.request_body, self.response_body

    @property
    def layout(self) -> str:
        return f"{self.request_body.name}/{self.response_body.name}"

    @property
    def overrides_ignored(self) -> bool:
        """Whether Envoy takes no notice of any `mode_override`, without a word."""
        full_duplex = BodyMode.FULL_DUPLEX_STREAMED in (self.listener or self.modes)
        return not self.allow_mode_override or full_duplex or self.send_body_without_waiting or self.observability


@dataclass(frozen=True, slots=True)
class HttpMessage:
    """A request or a response. `headers` hold the pseudo headers too; no pieces: the message ends with its headers
    (or its trailers)."""

    headers: Headers
    pieces: tuple[bytes, ...] = ()
    trailers: Headers | None = None

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def first(self, name: str) -> bytes | None:
        """The value of the first header of that name."""
        return next((value for key, value in self.headers if key == name), None)

    def all(self, name: str) -> list[bytes]:
        return [value for key, value in self.headers if key == name]


@dataclass(frozen=True, slots=True)
class HttpExchange:
    """What a client sends and an upstream answers, whatever the processor makes of the request."""

    request: HttpMessage
    response: HttpMessage
