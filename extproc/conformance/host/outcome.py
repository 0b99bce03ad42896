"""What comes of one simulated exchange."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from extproc.conformance.host.settings import HttpMessage
from extproc.conformance.invariants import Violation


@dataclass(frozen=True, slots=True)
class Closed:
    """The call has ended: gRPC's status by its name, `OK` for a clean end."""

    status: str
    details: str = ""

    def __str__(self) -> str:
        return f"{self.status}: {self.details}" if self.details else self.status


class Ending(Enum):
    """How the exchange went for its client."""

    COMPLETE = "complete"
    """Every message was answered."""
    LEFT = "left"
    """The processor closed the call cleanly where it may: the rest passed without it."""
    IMMEDIATE = "immediate"
    """The processor answered in the upstream's place."""
    REFUSED = "refused"
    """The call ended with an error status before any reply."""
    BROKEN_OFF = "broken off"
    """The call ended with an error status later."""
    ERROR = "error"
    """The host itself answers 500: the processor broke an invariant."""
    TIMEOUT = "timeout"
    """The host answers 504: no reply came."""
    HUNG = "hung"
    """Nothing ends it but an idle timeout."""
    CORRUPT = "corrupt"
    """The host takes it for a success, though bytes are lost, or may be: it depends on what was on its way."""
    CUT = "cut"
    """The client has headers of a response whose body never ends properly."""


WELL = (Ending.COMPLETE, Ending.LEFT, Ending.IMMEDIATE)
"""The endings with an answer for the client that somebody meant."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the upstream and the client get.

    `upstream` is None where the request never gets there, `client` where the client gets no whole response but the
    host's own error, a cut, or nothing (`ending` tells which).
    """

    ending: Ending
    upstream: HttpMessage | None
    client: HttpMessage | None
    violations: tuple[Violation, ...] = ()
    closed: Closed | None = None
    """How the call ended, if it did."""
    replies: int = 0
    trace: tuple[str, ...] = ()
    """Each message, sent (`>`) and received (`<`), in a few words without its content."""
    sent: tuple[tuple[str, int, bool], ...] = ()
    """The host's messages: kind, size of the body and whether it is the end, each body as one."""
    own: str = ""
    """Why the host fails, whatever the processor does: a fault of its own."""
    detail: str = ""
    """Why a real Envoy answered in the upstream's place, in its words."""
    differs: str | None = None
    """What a real Envoy did otherwise than the simulated host."""

    @property
    def status(self) -> int | None:
        """The status of what the client gets."""
        told = self.client.first(":status") if self.client is not None else None
        return int(told) if told is not None and told.isdigit() else None
