"""Between the simulated host and a processor: `play` performs the host's steps on a link.

A link is one call of `Process`. `DirectLink` is one to a processor that is a Python object without I/O; the one over
gRPC is in `client.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from google.protobuf.message import DecodeError

from extproc.conformance.host.machine import Answer, Host, Wait
from extproc.conformance.host.outcome import Closed, Outcome
from extproc.conformance.host.settings import HostSettings, HttpExchange
from extproc.wire import ProcessingRequest, ProcessingResponse

_MOST_REPLIES = 20_000
"""Of one exchange: the longest case has some hundreds of messages."""


class TooManyRepliesError(Exception):
    """A processor that doesn't stop."""


class HostError(Exception):
    """The host itself can't be had, or doesn't start; the text says why."""


class UnplayableError(Exception):
    """This host can't play such an exchange; the text says why."""


class Link(Protocol):
    """One call of `Process`, from the host's side."""

    async def send(self, message: ProcessingRequest | bytes) -> None:
        """Bytes are sent as they are, as one gRPC message. Nothing happens when the call is over."""

    async def receive(self, wait: Wait) -> Answer:
        """The next reply, the end, or None if neither comes in the time."""

    async def half_close(self) -> None: ...

    def cancel(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Unread:
    """A call whose replies nobody reads. It stays open until it is cancelled."""

    taken: int
    """How many messages are on their way by the time it took no more. All of them also where the call has ended: what
    is sent then is dropped, and gRPC tells the end only behind the replies."""
    end: Callable[[], Awaitable[Closed | None]]
    """Reads what replies there are: how the call ended; None: it hasn't."""
    cancel: Callable[[], None]


class Processor(Protocol):
    """A processor as an object: one for each exchange."""

    def receive(self, message: ProcessingRequest) -> list[ProcessingResponse | Closed]: ...

    def half_closed(self) -> Closed: ...


class DirectLink:
    """To an object. What it doesn't say at once, it never says: there is no clock."""

    def __init__(self, processor: Processor) -> None:
        self._processor = processor
        self._answers: deque[ProcessingResponse | Closed] = deque()
        self._over: Closed | None = None

    async def send(self, message: ProcessingRequest | bytes) -> None:
        if self._over is not None:
            return
        data = message if isinstance(message, bytes) else message.SerializeToString()
        try:
            parsed = ProcessingRequest.FromString(data)
        except DecodeError:
            self._take([Closed("INTERNAL", "no ProcessingRequest")])
            return
        self._take(self._processor.receive(parsed))

    async def receive(self, wait: Wait) -> Answer:  # noqa: ARG002  # the protocol's
        if self._answers:
            return self._answers.popleft()
        return self._over

    async def half_close(self) -> None:
        if self._over is None:
            self._take([self._processor.half_closed()])

    def cancel(self) -> None:
        self._over = self._over or Closed("CANCELLED")

    def _take(self, replies: list[ProcessingResponse | Closed]) -> None:
        for reply in replies:
            if isinstance(reply, Closed):
                self._over = reply
                return
            self._answers.append(reply)


async def play(settings: HostSettings, exchange: HttpExchange, link: Link) -> Outcome:
    """One exchange, to its end. Raises TooManyRepliesError."""
    playing = Host(settings, exchange).play()
    try:
        step = next(playing)
        for _ in range(_MOST_REPLIES):
            for message in step.send:
                await link.send(message)
            if step.half_close:
                await link.half_close()
            step = playing.send(await link.receive(step.wait))
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
    finally:
        link.cancel()
    raise TooManyRepliesError(f"more than {_MOST_REPLIES} replies to one exchange")
