"""An `Exchange` as a processor that the conformance suite's simulated host can play with, without any I/O."""

from __future__ import annotations

from collections.abc import Iterator

from extproc.conformance.host.outcome import Closed
from extproc.exchange.effects import BackendResponse, Breathe, CallBackend, Effect, Result
from extproc.exchange.machine import Exchange
from extproc.exchange.phases import Phase
from extproc.exchange.protocol import HeadGoneError, ProtocolError
from extproc.exchange.replies import Replies
from extproc.wire import ProcessingRequest, ProcessingResponse


class ExchangeProcessor:
    """Performs effects at once; `second` is what a backend says when it is asked once more."""

    def __init__(self, exchange: Exchange, second: BackendResponse | None = None) -> None:
        self.exchange = exchange
        self.second = second

    def receive(self, message: ProcessingRequest) -> list[ProcessingResponse | Closed]:
        try:
            said: list[ProcessingResponse | Closed] = [*self._carried(self.exchange.receive(message))]
        except ProtocolError as error:
            return [Closed("FAILED_PRECONDITION", str(error))]
        except HeadGoneError as error:
            return [Closed("ABORTED", str(error))]
        if self.exchange.phase is Phase.PASSED_BY:
            said.append(Closed("OK"))
        return said

    def half_closed(self) -> Closed:
        self.exchange.close()
        return Closed("OK")

    def _carried(self, replies: Replies) -> Iterator[ProcessingResponse]:
        for reply in replies:
            if isinstance(reply, ProcessingResponse):
                yield reply
            else:  # the last
                yield from self._carried(self.exchange.resume(self._performed(reply)))

    def _performed(self, effect: Effect) -> Result:
        match effect:
            case Breathe():
                return None
            case CallBackend():
                return self.second
            case _:
                return effect.perform()
