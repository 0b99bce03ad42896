"""One exchange that is under way: what Envoy says of it, message by message, and what comes back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol, TypeGuard

from extproc.conformance.host.machine import Host, Play, Playing, Step, Wait
from extproc.conformance.host.outcome import Closed, Outcome
from extproc.conformance.host.settings import HttpMessage
from extproc.names import METADATA_NAMESPACE
from extproc.wire import ProcessingResponse
from tests.simulation.checking import check
from tests.simulation.envoy import EnvoyConnection
from tests.simulation.judging import not_as_if_whole
from tests.simulation.plans import Fate, Plan


class Upstream(Protocol):
    """Where a request has gone whose response isn't known beforehand."""

    response: HttpMessage | None
    """Once it has come."""

    def leave(self) -> None:
        """The client has gone."""


Route = Callable[[Plan, HttpMessage], Upstream | None]
"""Sends a request to its upstream; None: the response is the plan's."""


class _RoutedHost(Host):
    """One that sends requests somewhere."""

    def __init__(self, plan: Plan, route: Route) -> None:
        super().__init__(plan.layout.settings, plan.exchange)
        self._plan = plan
        self._route = route
        self.upstream: Upstream | None = None

    def forward(self) -> Playing:
        self.upstream = self._route(self._plan, self.request)
        if self.upstream is None:
            return
        while self.upstream.response is None:
            answer = yield self.step(wait=Wait.PAUSE)
            if answer is not None:
                self.taken(answer)
                self.break_off("INV-01", "something is said while the upstream has the request")
        self.response, self.upstream = self.upstream.response, None


class Player:
    """Of one exchange."""

    def __init__(
        self,
        plan: Plan,
        connection: EnvoyConnection,
        rng: random.Random,
        route: Route,
        answers: Callable[[Player], None],
        ended: Callable[[Player, Outcome | None], None],
    ) -> None:
        """`answers` is told before each message of a response; `ended` when it is over, with the outcome if the client
        was there to see one."""
        self.plan = plan
        self.id = f"request-{plan.number}"
        self.connection = connection
        self.stream_id = connection.open(plan.layout.metadata, plan.deadline)
        self.stream = connection.streams[self.stream_id]
        self.over = False
        self.told: dict[str, Any] = {}
        """What Envoy's metadata has of it."""
        self._answers = answers
        self._ended = ended
        self._host = host = _RoutedHost(plan, route)
        self._play: Play = host.play()
        self.trace = host.trace
        self._step: Step = next(self._play)
        self._said = 0
        leaves = plan.fate is Fate.GONE or (plan.fate is Fate.RUN and rng.random() < 0.15)
        self._patience = int(rng.random() * 29) + 1 if leaves else None
        self._stalled = bytearray()

    def act(self, *, quiet: bool) -> bool:
        """Send the next message, or go on by what has come. `quiet`: nothing more will come by itself. Returns whether
        there was something to do."""
        if self._patience is not None:
            self._patience -= 1
            if self._patience == 0:
                self.leave()
                return True
        step, said = self._step, self._said
        if said < len(step.send):
            if self._host.way == "response":
                self._answers(self)
            self.connection.send(self.stream_id, step.send[said])
            self._said += 1
            if self._said == len(step.send) and step.half_close:
                self.connection.half_close(self.stream_id)
            return True
        if not step.send and step.half_close and not said:
            self.connection.half_close(self.stream_id)
            self._said = 1
            return True
        if self.stream.answers:
            answer = self.stream.answers.popleft()
            if _brings_metadata(answer):
                self.told |= answer.dynamic_metadata.get_or_create_struct(METADATA_NAMESPACE)
            if self.stalls and not isinstance(answer, Closed) and _ends(answer):
                self._stalled_to_its_end(answer)
            else:
                self._go_on(answer)
            return True
        upstream = self._host.upstream
        if upstream is not None:
            if upstream.response is None:
                return False
        elif not quiet or self.stalls:
            return False
        self._go_on(None)
        return True

    @property
    def waits(self) -> bool:
        """Its upstream has yet to answer."""
        return self._host.upstream is not None

    @property
    def stalls(self) -> bool:
        """Its backend has fallen silent: nothing but time brings it on."""
        return not self.over and self.plan.fate is Fate.STALLED and self._step.wait is Wait.PAUSE

    def stall(self) -> None:
        """Time is over: what has come by now has to be an end."""
        while self.stream.answers and not self.over:
            self.act(quiet=False)
        check(self.over, f"a stream that falls silent has no end: {self.trace}")

    def stay(self) -> None:
        """The client waits as long as it takes."""
        self._patience = None

    def leave(self) -> None:
        """The client leaves."""
        self.connection.reset(self.stream_id)
        self.end(None)

    def end(self, outcome: Outcome | None) -> None:
        self.over = True
        if self._host.upstream is not None:
            self._host.upstream.leave()
            self._host.upstream = None
        self._play.close()
        self._ended(self, outcome)
        self.connection.forget(self.stream_id)

    def _stalled_to_its_end(self, answer: ProcessingResponse) -> None:
        self._stalled += answer.response_body.response.body_mutation.streamed_response.body
        not_as_if_whole(self.plan, bytes(self._stalled))
        self.leave()

    def _go_on(self, answer: ProcessingResponse | Closed | None) -> None:
        if self.plan.fate is Fate.STALLED and isinstance(answer, ProcessingResponse):
            self._stalled += answer.response_body.response.body_mutation.streamed_response.body
        try:
            self._step, self._said = self._play.send(answer), 0
        except StopIteration as end:
            self.end(end.value)


def _brings_metadata(answer: ProcessingResponse | Closed) -> TypeGuard[ProcessingResponse]:
    """Of a reply that asks for more time Envoy takes nothing else."""
    if isinstance(answer, Closed) or answer.HasField("override_message_timeout"):
        return False
    return METADATA_NAMESPACE in answer.dynamic_metadata


def _ends(answer: ProcessingResponse) -> bool:
    return answer.response_body.response.body_mutation.streamed_response.end_of_stream
