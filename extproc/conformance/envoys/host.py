"""One exchange through a real Envoy, with a real client and a real upstream: what comes of it, as an `Outcome`."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from extproc.conformance.driver import UnplayableError
from extproc.conformance.envoys import http1, http2
from extproc.conformance.envoys.bootstrap import DETAILS
from extproc.conformance.envoys.comparing import difference
from extproc.conformance.envoys.playable import obstacle
from extproc.conformance.envoys.process import Envoy
from extproc.conformance.envoys.tap import Record, Tap
from extproc.conformance.envoys.wire import CHUNK, Pace, Seen
from extproc.conformance.host.outcome import Ending, Outcome
from extproc.conformance.host.settings import HostSettings, HttpExchange
from extproc.conformance.recipe import MetadataContext

_PREFACE = b"PRI"
_HOP = ("transfer-encoding", "connection", "keep-alive", DETAILS)


class EnvoyHost:
    """An Envoy before the server at `target`. Entering raises EnvoyError.

    A server that is `remembering` goes by what its host did before (whether it follows overrides, say): what differs in
    the first try of an exchange, and not in the second, is its own doing.
    """

    def __init__(
        self,
        program: Path,
        target: str,
        metadata: tuple[tuple[str, str], ...] = (),
        message_timeout: float = 3.0,
        *,
        metadata_context: MetadataContext = (),
        remembering: bool = False,
    ) -> None:
        self._program, self._target = program, target
        self._metadata, self._metadata_context = metadata, metadata_context
        self._message_timeout = message_timeout
        self._remembering = remembering
        self._stack = contextlib.AsyncExitStack()
        self._playing: tuple[HttpExchange, Seen, Pace] | None = None
        self.compared = 0
        self.differences: list[str] = []

    async def __aenter__(self) -> EnvoyHost:
        async with contextlib.AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
            self._tap = await stack.enter_async_context(
                Tap(folder / "processor", self._target, self._metadata, self._metadata_context)
            )
            server = await asyncio.start_unix_server(self._serve, folder / "upstream")
            stack.callback(server.close)
            self.envoy = await stack.enter_async_context(Envoy(self._program, folder, self._message_timeout))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def compare(
        self, settings: HostSettings, exchange: HttpExchange, simulate: Callable[[], Awaitable[Outcome]]
    ) -> Outcome:
        """What Envoy makes of it, with the violations that the simulated host has found, and where both differ. Raises
        UnplayableError."""
        outcome = await self.play(settings, exchange)
        simulated = await simulate()
        wrong = difference(simulated, outcome)
        if wrong is not None:  # are they the server's own, such as ids?
            again = await simulate()
            wrong = difference(simulated, outcome, again)
            if wrong is not None and self._remembering:
                wrong = difference(simulated, await self.play(settings, exchange), again)
        self.compared += 1
        if wrong is not None:
            self.differences.append(wrong)
        return replace(outcome, violations=simulated.violations, own=simulated.own, differs=wrong)

    async def play(self, settings: HostSettings, exchange: HttpExchange) -> Outcome:
        """Raises UnplayableError."""
        if (reason := obstacle(settings, exchange)) is not None:
            raise UnplayableError(reason)
        socket = await self.envoy.at(settings)
        record = self._tap.record = Record()
        upstream, pace = Seen(), Pace(record, settings)
        self._playing = exchange, upstream, pace
        trailers = exchange.request.trailers is not None or exchange.response.trailers is not None
        ask = http2.ask if trailers else http1.ask
        patience = self._message_timeout + 1
        client = await ask(socket, exchange.request, pace, patience, head_only=settings.early_response)
        if settings.observability:
            await pace.quiet()  # the processor is shown what the client already has
        return _outcome(client, upstream, record, settings)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            begin = await reader.read(CHUNK)
            if begin and self._playing is not None:
                exchange, seen, pace = self._playing
                answer = http2.answer if begin.startswith(_PREFACE) else http1.answer
                await answer(reader, writer, begin, seen, exchange.response, pace)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


def _outcome(client: Seen, upstream: Seen, record: Record, settings: HostSettings) -> Outcome:
    details = next((value.decode("latin-1") for name, value in client.headers if name == DETAILS), "")
    shown = _without_hops(client).message() if client.whole else None
    ending = _ending(client, record, details)
    reached = upstream.whole or (upstream.began and settings.early_response)
    return Outcome(
        ending=ending,
        upstream=_without_hops(upstream).message() if reached else None,
        client=shown,
        closed=record.closed,
        replies=len(record.kinds),
        trace=tuple(record.trace),
        detail=details,
        sent=tuple(record.sent),
    )


def _ending(client: Seen, record: Record, details: str) -> Ending:
    if not client.whole:
        if client.silent:
            return Ending.HUNG
        return Ending.CUT
    if "immediate_response" in record.kinds and "ext_proc" not in details:
        return Ending.IMMEDIATE
    if not details:
        return Ending.LEFT if record.left else Ending.COMPLETE
    if record.closed is not None and record.closed.status != "OK":
        return Ending.BROKEN_OFF if record.kinds else Ending.REFUSED
    status = next(value for name, value in client.headers if name == ":status")
    return Ending.TIMEOUT if status == b"504" else Ending.ERROR


def _without_hops(seen: Seen) -> Seen:
    return replace(seen, headers=tuple(pair for pair in seen.headers if pair[0] not in _HOP))
