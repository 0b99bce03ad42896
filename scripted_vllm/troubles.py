"""The ways in which a backend can go wrong, as values to attach to a `Reply`.

Real vLLM does some of these itself (429, 500, an error event inside a stream); the others happen to it: a process that
dies, a proxy in between, a network. Each is one frozen dataclass that says what happens and when; `script` acts them
out. `after` counts pieces of the model's text: 0 is once the opening role chunk is out. A stream with fewer pieces gets
through unharmed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refuse:
    """Read the request, then close the connection without a byte of answer."""


class ErrorBody(enum.Enum):
    """What the body of an error answer looks like."""

    VLLM = "vllm"
    """`{"error": {...}}`, as vLLM words its own."""
    PLAIN = "plain"
    """A line of text, as Envoy words its own."""
    HTML = "html"
    """A page, as nginx and most load balancers have it."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer with an error status, streamed request or not."""

    status: int = 500
    body: ErrorBody = ErrorBody.VLLM
    retry_after: int | None = None
    """Seconds for a Retry-After header."""
    message: str = ""
    """What vLLM's own error says; by default what the status means."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Fall silent, until the client goes or `seconds` have passed; then go on as if nothing had been.

    `after=None` is silence before the status line. After more pieces than there are it comes between the last event
    and the end of the body. An answer in one piece can only be late as a whole.
    """

    after: int | None = 0
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the TCP connection in the middle of the body: after n pieces, or exactly after n bytes of body.

    An answer in one piece is cut after `after_bytes`, or in its middle.
    """

    after: int = 0
    after_bytes: int | None = None


class Nonsense(enum.Enum):
    """Bodies that come with status 200 and can't be what they claim to be."""

    NOT_JSON = "not_json"
    """A body (unary) or an event (stream) that is not JSON at all."""
    BROKEN_JSON = "broken_json"
    """JSON that ends in the middle."""
    WRONG_TYPE = "wrong_type"
    """A web page, labelled as one."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """Answer 200 with nonsense; in a stream it takes the place of the event after n pieces."""

    what: Nonsense = Nonsense.NOT_JSON
    after: int = 0


@dataclass(frozen=True, slots=True)
class Gzip:
    """Compress the body and say so, although nobody asked."""


@dataclass(frozen=True, slots=True)
class NoDone:
    """End the stream properly but without `data: [DONE]`."""


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """Put vLLM's error object into the running stream, then `[DONE]`; a unary answer becomes that error."""

    after: int = 0
    message: str = "EngineCore encountered an issue. See stack trace (above) for the root cause."
    status: int = 500


@dataclass(frozen=True, slots=True)
class Comments:
    """Send an SSE comment before every event, as proxies do to keep a connection alive."""

    text: str = "keepalive"


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Answer 200 with exactly this body, as a recording has it: events if it begins like some, else JSON."""

    body: str


Trouble = Refuse | Fail | Stall | Cut | Garbage | Gzip | NoDone | ErrorEvent | Comments | Verbatim

KINDS: dict[str, type[Trouble]] = {
    "refuse": Refuse,
    "fail": Fail,
    "stall": Stall,
    "cut": Cut,
    "garbage": Garbage,
    "gzip": Gzip,
    "no_done": NoDone,
    "error_event": ErrorEvent,
    "comments": Comments,
    "verbatim": Verbatim,
}
"""How a file of replies names them."""
