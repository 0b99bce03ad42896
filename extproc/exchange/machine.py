"""One HTTP exchange as Envoy's external-processing protocol sees it: a state machine without any I/O.

`Exchange.receive(message)` takes one message of Envoy's and returns the replies to it, at once. What takes time leaves
as an `Effect` among the replies, always the last; the next input is then its result, by `resume`. Which input may come
when, and what follows, is the table of `exchange.phases`; what is done with it, the two halves, `exchange.request` and
`exchange.response`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Protocol

from extproc.contract.errors import ApiError
from extproc.exchange.accounting import ExchangeStats
from extproc.exchange.context import ExchangeContext
from extproc.exchange.effects import BackendResponse, Result
from extproc.exchange.host import Host
from extproc.exchange.layout import OWN
from extproc.exchange.passing import Passing
from extproc.exchange.phases import HINTS, TRANSITIONS, Input, Phase
from extproc.exchange.protocol import ProtocolError
from extproc.exchange.replies import Replies, Step
from extproc.exchange.request import RequestHalf
from extproc.exchange.response import ResponseHalf
from extproc.names import RUNNER
from extproc.observability.telemetry import Telemetry
from extproc.turn.answer import Rewritten
from extproc.turn.upstream import UpstreamRequest
from extproc.wire import HttpBody, ProcessingRequest, ProcessingResponse, TrailersResponse


class Inputs(Protocol):
    """What an exchange takes. Who wants to see it, such as a recording, stands between the shell and the exchange."""

    def receive(self, message: ProcessingRequest) -> Replies:
        """See Exchange."""

    def resume(self, result: Result) -> Replies:
        """See Exchange."""

    def time_out(self) -> Replies:
        """See Exchange."""

    def close(self, since_reply: float = math.inf) -> None:
        """See Exchange."""


class Exchange:
    """One exchange. Not for reuse; what it may do is fixed by the context that it was made with."""

    def __init__(
        self, context: ExchangeContext, telemetry: Telemetry, host: Host | None = None, *, inner: bool = False
    ) -> None:
        """`host`: an Envoy whose configuration isn't our own, and what is known of it. `inner`: the request is one of
        the gateway's own, by Envoy's inner listener.
        """
        self.configured = context.config
        """The settings as they were read, whatever steps models are at."""
        self.context = context = context.steered()
        self.phase = Phase.REQUEST_HEADERS
        self.observed = False
        """Envoy only shows what passes (`observability_mode`)."""
        self.ignored_override = False
        """The call has ended as it does with a host that ignores overrides."""
        self._stats = ExchangeStats(telemetry, context)
        self.request = RequestHalf(context, self._stats, host, inner=inner)
        self.response = ResponseHalf(self.request)

    # What others want to know of it

    @property
    def id(self) -> str:
        """The request's, for logs."""
        return self.request.id

    @property
    def host(self) -> Host | None:
        """See `__init__`."""
        return self.request.host

    @property
    def is_chat(self) -> bool:
        """Whether it asks for a model's answer, which counts too."""
        return self.request.is_chat

    @property
    def in_own_layout(self) -> bool:
        """Whether bodies come as `extproc envoy` configures it."""
        return self.request.layout is OWN

    @property
    def is_run(self) -> bool:
        """Whether it goes to the runner, which asks for each model round by itself."""
        return self.request.prepared is not None and self.request.prepared.backend == RUNNER

    @property
    def in_pieces(self) -> bool:
        """Whether the answer's body comes in pieces, as its backend sends it."""
        return self.phase is Phase.RESPONSE_STREAM and self.response.in_pieces

    @property
    def idle_timeout(self) -> float | None:
        """Seconds that Envoy may say nothing from now on; None while silence is nobody's fault."""
        return self.response.idle_timeout if self.phase is Phase.RESPONSE_STREAM else None

    @property
    def goes_on(self) -> bool:
        """Whether it is amid a large piece, and the next result that of Breathe."""
        return self.response.amid_piece

    @cached_property
    def passing(self) -> Passing:
        """What becomes of the rest, in that phase."""
        return Passing(self.request)

    # Its inputs

    def receive(self, message: ProcessingRequest) -> Replies:
        """The replies to one message, in order; an effect only at the end. Raises ProtocolError."""
        if message.observability_mode:  # Envoy takes no notice of any reply, and of an error neither
            self.observed = True
            self._stats.broke_off("observability_mode")
            self.phase = Phase.PASSED_BY
            return []
        if message.HasField("protocol_config"):
            self.request.check(message.protocol_config)
        kind = message.WhichOneof("request")
        if kind is None:
            raise ProtocolError(f"got a message without content while waiting for {self.phase.value}")
        return self._take(_MESSAGES[kind], getattr(message, kind), kind)

    def resume(self, result: Result) -> Replies:
        """The replies to what came of the effect. Raises ProtocolError when there was none."""
        match result:
            case None if self.goes_on:
                kind = Input.BREATHED
            case UpstreamRequest():
                kind = Input.REQUEST_READ
            case Rewritten():
                kind = Input.COMPLETION_READ
            case ApiError():
                kind = Input.REQUEST_READ if self.phase is Phase.PREPARING else Input.COMPLETION_READ
            case BackendResponse() | None:
                kind = Input.BACKEND_RESPONSE
        return self._take(kind, result, "the result of an effect")

    def time_out(self) -> Replies:
        """The end of a stream in which nothing was said for too long."""
        if (idle_timeout := self.idle_timeout) is None:
            return []
        return self._take(Input.IDLE_TIMEOUT, idle_timeout, "nothing")

    def close(self, since_reply: float = math.inf) -> None:
        """Envoy has nothing more to say, wherever the exchange stands.

        `since_reply` is how many seconds ago it got the last reply.
        """
        passed_by = self.phase is Phase.PASSED_BY  # else the answer is over, as the exchange is
        if self.host is not None:
            self.ignored_override = self._override_ignored(self.host, since_reply)
        if self.phase is Phase.RESPONSE_STREAM and self.response.abandoned():
            self.phase = Phase.ENDED
        if self.phase not in (Phase.PASSING, Phase.PASSED_BY, Phase.ENDED):
            self._stats.unfinished(self.phase.name.lower())
            self.phase = Phase.ENDED
        self.response.close()
        self.request.leases.close(passed_by=passed_by)

    def _override_ignored(self, host: Host, since_reply: float) -> bool:
        prepared = self.request.prepared
        if not self.request.layout.asks:
            return False
        if self.phase is Phase.RESPONSE_HEADERS and prepared is not None and prepared.answer is not None:
            return host.ended_before_head()
        if self.phase in (Phase.RESPONSE_BODY, Phase.RESPONSE_STREAM) and not self.response.body_came:
            return host.ended_before_body(since_reply)
        return False

    # The table at work

    def _take(self, kind: Input, value: Any, called: str) -> Replies:
        follows = TRANSITIONS[self.phase].get(kind)
        if follows is None:
            raise self._out_of_place(called, HINTS.get((self.phase, kind), ""))
        handlers = _PASSING if self.phase is Phase.PASSING else _HANDLERS
        phase, replies = handlers[kind](self, value)
        assert phase in follows, f"{self.phase} must not become {phase} by {kind}"
        self.phase = phase
        return replies

    def _out_of_place(self, called: str, hint: str = "") -> ProtocolError:
        return ProtocolError(f"got {called} while waiting for {self.phase.value}{hint and f': {hint}'}")

    def _behind(self, called: str, replies: list[ProcessingResponse] | None) -> Step:
        """Something came behind the end of its body."""
        if replies is None:
            raise self._out_of_place(called)
        return self.phase, [*replies]

    def _request_body(self, body: HttpBody) -> Step:
        match self.phase:
            case Phase.REQUEST_BODY:
                return self.request.body(body)
            case Phase.ENDED:  # it was on its way when the answer left
                return self.phase, []
            case _:
                return self._behind("request_body", self.request.behind(body))

    def _response_body(self, body: HttpBody) -> Step:
        match self.phase:
            case Phase.RESPONSE_STREAM:
                return self.response.stream(body)
            case Phase.RESPONSE_BODY:
                return self.response.body(body)
            case _:
                return self._behind("response_body", self.response.behind(body))

    def _request_trailers(self, _: Any) -> Step:
        match self.phase:
            case Phase.REQUEST_BODY:
                return self.request.trailers()
            case Phase.ENDED:
                return self.phase, []
            case _:
                return self.phase, [ProcessingResponse(request_trailers=TrailersResponse())]

    def _response_trailers(self, _: Any) -> Step:
        if self.phase in (Phase.RESPONSE_STREAM, Phase.RESPONSE_BODY):
            return self.response.trailers()
        return self.phase, [ProcessingResponse(response_trailers=TrailersResponse())]

    def _completion_read(self, completion: Any) -> Step:
        second = self.phase is Phase.RETRYING
        return self.response.second_read(completion) if second else self.response.completion_read(completion)


_MESSAGES: Mapping[str, Input] = {kind.value: kind for kind in Input}
"""By what Envoy calls them."""
_HANDLERS: Mapping[Input, Callable[[Exchange, Any], Step]] = {
    Input.REQUEST_HEADERS: lambda exchange, headers: exchange.request.headers(headers),
    Input.REQUEST_BODY: Exchange._request_body,
    Input.REQUEST_TRAILERS: Exchange._request_trailers,
    Input.REQUEST_READ: lambda exchange, result: exchange.request.read(result),
    Input.RESPONSE_HEADERS: lambda exchange, headers: exchange.response.headers(headers),
    Input.RESPONSE_BODY: Exchange._response_body,
    Input.RESPONSE_TRAILERS: Exchange._response_trailers,
    Input.COMPLETION_READ: Exchange._completion_read,
    Input.BREATHED: lambda exchange, _: exchange.response.breathed(),
    Input.IDLE_TIMEOUT: lambda exchange, seconds: exchange.response.time_out(seconds),
    Input.BACKEND_RESPONSE: lambda exchange, response: exchange.response.retried(response),
}
_PASSING: Mapping[Input, Callable[[Exchange, Any], Step]] = {
    kind: lambda exchange, value, kind=kind: exchange.passing.take(kind, value)  # type: ignore[misc]
    for kind in TRANSITIONS[Phase.PASSING]
}
