"""One gRPC call, from both of its sides: `Call` is the transport's, `Receiver` the service's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Protocol, TypeAlias

Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]
"""What the client sent beside its messages, in its order; values of names in `-bin` are bytes."""


class Status(IntEnum):
    """How a call has ended (gRPC's status codes)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Call(Protocol):
    """What a service may do with a call. After its end nothing has an effect any more."""

    @property
    def metadata(self) -> Metadata: ...

    @property
    def peer(self) -> str:
        """Who calls: `ipv4:10.0.0.1:49152`, `ipv6:[::1]:49152`, or `unix:` whoever it is."""

    def send(self, message: bytes) -> None:
        """Say something. It is sent as the client has room for it; a client that hasn't gets the next word of its own
        delivered only when it has taken most of ours."""

    def finish(self, status: Status = Status.OK, message: str = "") -> None:
        """End the call, behind all that was sent. `closed` has been called when this returns."""

    def hold(self) -> None:
        """Deliver no message, nor the client's end, until `release`."""

    def release(self) -> None:
        """Go on delivering, in a later step of the event loop."""


class Receiver(Protocol):
    """What a service does with what comes. Nothing of it may take long; an exception ends the call as INTERNAL."""

    def received(self, message: bytes) -> None:
        """The client's next message."""

    def half_closed(self) -> None:
        """The client has nothing more to say."""

    def closed(self) -> None:
        """The call is over, in whatever way. Called once, and last."""


Method: TypeAlias = Callable[[Call], Receiver]
"""Takes a call that begins."""
Services: TypeAlias = Mapping[str, Method]
"""What is served, by path: `/package.Service/Method`."""
