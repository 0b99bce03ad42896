"""One exchange as a gRPC call: carries Envoy's messages to an `Exchange` and its replies back.

A thin shell around the pure core. It promises that an exchange never ends early as if all were well: a bug in the
core ends that one call with INTERNAL, is logged once with the exchange's id, and touches no other. It must never log
what a request or an answer says.
"""

from __future__ import annotations

import asyncio
import logging
import math
import traceback
from collections.abc import Callable
from functools import partial
from typing import Protocol, cast

from google.protobuf.message import DecodeError

from extproc.backends.again import call_again
from extproc.exchange.effects import Breathe, CallBackend, Effect, Heavy, Prepare, ReadCompletion, Result
from extproc.exchange.machine import Exchange, Inputs
from extproc.exchange.phases import Phase
from extproc.exchange.protocol import HeadGoneError, ProtocolError
from extproc.exchange.replies import Replies
from extproc.observability.telemetry import Telemetry
from extproc.server.allocator import give_back_large_blocks
from extproc.server.idle_timeout import IdleWatch, Listening
from extproc.server.large_reply import body_apart
from extproc.server.workers import Workers
from extproc.transport import Call, Status, Turns
from extproc.turn.answer import Rewritten
from extproc.turn.upstream import UpstreamRequest
from extproc.wire import ProcessingRequest, ProcessingResponse

log = logging.getLogger(__name__)

_LARGE = 1024 * 1024
"""Bytes of a message. To copy 30 MB takes 10 ms, and it is done several times on the way through Protobuf: others get
their turn in between."""


class Shell(Protocol):
    """What a call has from its processor."""

    @property
    def telemetry(self) -> Telemetry: ...
    @property
    def turns(self) -> Turns: ...
    @property
    def listening(self) -> Listening: ...
    @property
    def workers(self) -> Workers: ...

    def begun(self, call: ExchangeCall) -> None:
        """It is under way."""

    def ended(self, call: ExchangeCall) -> None:
        """It isn't any more."""

    def streams(self, change: int) -> None:
        """So many calls more have an answer that comes in pieces; -1: one has it no more."""

    def hears(self) -> None:
        """Something has come that isn't a piece of an answer."""

    def observed(self) -> None:
        """Envoy only shows what passes."""


class ExchangeCall:
    """The service's side of one call (`transport.Receiver`)."""

    __slots__ = (
        "__weakref__",
        "_busy",
        "_call",
        "_closed",
        "_inputs",
        "_loop",
        "_replied",
        "_shell",
        "_streams",
        "_watch",
        "_work",
        "exchange",
    )

    def __init__(self, call: Call, exchange: Exchange, inputs: Inputs, shell: Shell) -> None:
        self.exchange = exchange
        self._call = call
        self._inputs = inputs
        self._shell = shell
        self._loop = asyncio.get_running_loop()
        self._replied = -math.inf
        self._busy = False
        """The replies to one input aren't all said yet, and no other may come in between."""
        self._closed = self._streams = False
        self._work: asyncio.Task[None] | None = None
        self._watch = IdleWatch(exchange, inputs, self._tell_silence, shell.listening)
        shell.begun(self)

    # What comes

    def received(self, message: bytes) -> None:
        if len(message) > _LARGE:
            give_back_large_blocks()
            self._later(self._parse, message)
        else:
            self._parse([message])

    def half_closed(self) -> None:
        self._call.finish()

    def closed(self) -> None:
        self._closed = True
        self._watch.end()
        if self._work is not None:
            self._work.cancel()
            self._work = None
        try:
            self._inputs.close(self._loop.time() - self._replied)
        finally:
            if self._streams:
                self._shell.streams(-1)
            self._shell.ended(self)

    def _parse(self, box: list[bytes]) -> None:
        try:
            message = ProcessingRequest.FromString(box[0])
        except DecodeError:
            self._shell.telemetry.aborted("protocol_error")
            self._call.finish(Status.INTERNAL, "not a ProcessingRequest")
            return
        if len(box.pop()) > _LARGE:
            self._later(self._take, message)
        else:
            self._take([message])

    def _take(self, box: list[ProcessingRequest]) -> None:
        self._busy = True
        try:
            # Who receives it is the last to have it: it may be megabytes, and its reply a long time coming.
            replies = self._inputs.receive(box.pop())
        except Exception as error:
            self._failed(error)
        else:
            self._say(replies)

    def _resume(self, box: list[Result]) -> None:
        large = _is_large(box[0])
        try:
            replies = self._inputs.resume(box.pop())
        except Exception as error:
            self._failed(error)
        else:
            self._say(replies, large=large)

    def _tell_silence(self) -> None:
        if not self._busy:  # else something has come after all, or an effect takes its time
            self._busy = True
            try:
                self._say(self._watch.replies())
            except Exception as error:
                self._failed(error)

    # What is said

    def _say(self, replies: Replies, *, large: bool = False) -> None:
        """`large`: there may be large bodies in them."""
        while replies:
            reply = replies.pop(0)
            if not isinstance(reply, ProcessingResponse):
                self._perform(reply)
                return
            if large:
                head, body = body_apart(reply)
                del reply  # what it has of the body is as large again
                data = head + body if body else head
                del body
            else:
                data = reply.SerializeToString()
            if len(data) > _LARGE:
                self._later(self._send, data, replies)
                return
            self._call.send(data)
        self._said()

    def _send(self, box: list[bytes], replies: Replies) -> None:
        self._call.send(box.pop())
        self._say(replies)

    def _said(self) -> None:
        """All that one input led to."""
        self._busy = False
        self._replied = self._loop.time()
        if self._closed:
            return
        self._call.release()
        self._watch.heard()
        if not self._streams:
            self._shell.hears()
            if self.exchange.in_pieces:
                self._streams = True
                self._shell.streams(1)
        if self.exchange.observed:
            self._shell.observed()
        if self.exchange.phase is Phase.PASSED_BY:
            self._call.finish()  # Envoy lets the rest pass; kept open, it would take the response along if it broke

    # What takes time

    def _perform(self, effect: Effect) -> None:
        self._call.hold()
        self._shell.hears()
        if isinstance(effect, Breathe):
            self._later(self._resume, None)
        else:
            self._work = self._loop.create_task(self._performed([effect]))

    async def _performed(self, box: list[Prepare | ReadCompletion | CallBackend]) -> None:
        result: Result
        try:
            if isinstance(box[0], CallBackend):
                result = await call_again(box[0])
            else:
                # Who performs it is the last to have it: its body may be megabytes.
                result = await self._shell.workers.perform(cast("Heavy", box.pop()))
        except Exception as bug:
            self._work = None
            self._failed(bug)
        else:
            self._work = None
            self._later(self._resume, result)

    def _later(self, step: Callable[..., None], value: object, *rest: object) -> None:
        """Take this step in turn, unless the call is over by then. `value` is the step's alone, in a box."""
        self._call.hold()
        self._shell.turns.later(partial(self._unless_closed, step, [value], *rest))

    def _unless_closed(self, step: Callable[..., None], *values: object) -> None:
        if self._closed:
            return
        try:
            step(*values)
        except Exception as bug:
            self._failed(bug)

    def _failed(self, error: Exception) -> None:
        exchange, telemetry = self.exchange, self._shell.telemetry
        if isinstance(error, ProtocolError):
            telemetry.aborted("protocol_error")
            log.error("protocol error: %s", error, extra={"exchange": exchange.id})
            self._call.finish(Status.FAILED_PRECONDITION, str(error))
            return
        if isinstance(error, HeadGoneError):
            telemetry.aborted("head_gone")
            log.warning("cut off: %s", error, extra={"exchange": exchange.id})
            self._call.finish(Status.ABORTED, str(error))
            return
        telemetry.aborted("bug")
        # The text of an exception can quote a request; its type and its place can't.
        where = "".join(traceback.format_tb(error.__traceback__))
        log.error("bug: %s\n%s", type(error).__name__, where, extra={"exchange": exchange.id})
        self._call.finish(Status.INTERNAL, f"internal error in exchange {exchange.id}")


def _is_large(result: Result) -> bool:
    body = result.body if isinstance(result, UpstreamRequest | Rewritten) else None
    return body is not None and len(body) > _LARGE
