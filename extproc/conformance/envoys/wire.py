"""What clients and upstreams have in common, whichever HTTP they speak: what is sent in which rhythm, what arrived."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from extproc.conformance.envoys.tap import Record
from extproc.conformance.host.settings import BodyMode, Header, HostSettings, HttpMessage

CHUNK = 65536
_SHOWN_SECONDS = 0.2
_QUIET_SECONDS = 0.03
_RHYTHM_SECONDS = 1.5
_AT_ONCE = (BodyMode.STREAMED, BodyMode.FULL_DUPLEX_STREAMED)


@dataclass
class Seen:
    """A message as it arrived."""

    headers: tuple[Header, ...] = ()
    body: bytes = b""
    trailers: tuple[Header, ...] | None = None
    began: bool = False
    whole: bool = False
    """Whether it ended as its framing says that it does."""
    silent: bool = False
    """Whether nothing more came, and nothing ended it."""

    @property
    def method(self) -> bytes:
        """Of a request."""
        return next((value for name, value in self.headers if name == ":method"), b"")

    def message(self) -> HttpMessage:
        return HttpMessage(self.headers, (self.body,) if self.body else (), self.trailers)


@dataclass
class Pace:
    """When the next piece of a body is sent: when Envoy has shown the one before to the processor, where it does so
    piece by piece, and the last one when no reply is on its way. So pieces stay what they are, and what comes before
    the end comes before it."""

    record: Record
    settings: HostSettings
    spent: float = 0.0
    blind: set[str] = field(default_factory=set)
    """Ways in which Envoy was found to show nothing yet."""

    async def headers_sent(self, way: str) -> None:
        """The reply may change the modes."""
        if self.settings.observability or way == "request":
            return
        await self._until(lambda: "response_headers" in self.record.kinds or self._over(), _SHOWN_SECONDS)

    async def piece_sent(self, way: str, size: int) -> None:
        """`size`: of all that was sent until now."""
        if self.settings.buffer_limit is not None:
            await self._until(lambda: self.record.shown[way] >= size, _QUIET_SECONDS)
        if not self._piecewise(way):
            return
        if not await self._until(lambda: self.record.shown[way] >= size or self._over(), _SHOWN_SECONDS):
            self.blind.add(way)

    async def before_the_end(self, way: str) -> None:
        if self._piecewise(way):
            await self.quiet()

    async def quiet(self) -> None:
        """Until no message passes any more."""
        while await self._until(self._moved_since(len(self.record.trace)), _QUIET_SECONDS):
            pass

    def _moved_since(self, known: int) -> Callable[[], bool]:
        return lambda: len(self.record.trace) != known

    def _piecewise(self, way: str) -> bool:
        configured = self.settings.request_body if way == "request" else self.settings.response_body
        mode = self.record.modes.get(way, configured)
        return mode in _AT_ONCE and way not in self.blind and self.spent < _RHYTHM_SECONDS and not self._over()

    def _over(self) -> bool:
        return self.record.closed is not None or "immediate_response" in self.record.kinds

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    self.record.changed.clear()
                    await self.record.changed.wait()
        except TimeoutError:
            return False
        finally:
            self.spent += loop.time() - began
        return True
