"""A streamed answer, however it is read: what goes in and comes out of it, and what it has cost.

`StreamedAnswer` rewrites one for its client; `PassedStream` lets one pass that is read for its cost alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, TypeAlias

from extproc.contract.errors import ApiError
from extproc.turn.spec import ResponseSpec
from extproc.turn.tally import Tally, Violations
from extproc.turn.usage import Sent, StreamCount

Json: TypeAlias = dict[str, Any]


class AnswerStream(ABC):
    """One stream: `feed` the backend's bytes in any cut, then `close`; both return the client's bytes."""

    def __init__(self, spec: ResponseSpec, sent: Sent | None) -> None:
        """`sent` is what the backend was asked, where it is known."""
        self._spec = spec
        self._count = StreamCount(sent, wanted=spec.include_usage or spec.counted)
        self.chunks = 0
        """How many have come that say something."""
        self.tally = Tally()
        """A violation that is the `error` is among its own."""
        self.error: ApiError | None = None
        """What the client was told in an error event, if anything."""

    @property
    @abstractmethod
    def begun(self) -> bool:
        """Whether the backend has sent anything of an answer."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whatever the backend says now, nothing more comes of it."""

    @property
    def over(self) -> bool:
        """Its client has its end, and may leave without waiting for that of the body."""
        return self.ended

    @property
    @abstractmethod
    def called(self) -> bool:
        """The model made a call, in each choice, and was not cut off."""

    @property
    def is_decided(self) -> bool:
        """No more of it has to come to tell whether it is the answer that its client is to get."""
        return False

    @property
    @abstractmethod
    def unfinished(self) -> int:
        """How many bytes there are of an event that isn't complete."""

    @property
    @abstractmethod
    def held(self) -> int:
        """How much of an unfinished event is held, in bytes, and of unfinished calls, in characters."""

    @abstractmethod
    def feed(self, piece: bytes) -> bytes:
        """What leaves for the next bytes."""

    @abstractmethod
    def steps(self, piece: bytes) -> Iterator[bytes]:
        """The same in steps, none of which is longer than what a small piece takes; to be used up."""

    @abstractmethod
    def close(self) -> bytes:
        """The backend's stream has ended."""

    @abstractmethod
    def fail(self, error: ApiError) -> bytes:
        """End the stream with an error; whatever the backend sends after it is dropped."""

    @property
    def violations(self) -> Violations:
        return self.tally.violations

    @property
    def usage(self) -> Json | None:
        """The backend's own count, once it came."""
        return self._count.backends

    @property
    def cost(self) -> Json | None:
        """What counts against a limit, where something does: the backend's count, or an estimate once it has begun."""
        return self._count.total() if self._spec.counted and self.begun else None

    @property
    def cost_so_far(self) -> int:
        """About how many tokens it has cost by now: most backends send each in a chunk of its own."""
        return self._count.prompt_tokens + self.chunks
