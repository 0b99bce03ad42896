"""An exchange as spans.

    chat MODEL              from the request's head to the end of the answer, or to where it passes the processor by
      read the request      checked, read, and made into what the backend is asked
      wait for the backend  until the answer's head
      write the answer      until its end; `first output` is an event of it
      retry                 an answer is asked for once more: Envoy's and the backend's spans of it are below

It stands between the shell and the exchange, sees what passes, and tells of it; what spans say of models, tokens and
errors is what the exchange tells Envoy for the access log.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from extproc.exchange.effects import CallBackend, Result
from extproc.exchange.machine import Exchange, Inputs
from extproc.exchange.phases import Phase
from extproc.exchange.replies import Replies
from extproc.names import METADATA_NAMESPACE, STREAM_ENDED
from extproc.tracing.attributes import of_operation
from extproc.tracing.content import Said
from extproc.tracing.context import TRACEPARENT, TRACESTATE, Parent
from extproc.tracing.spans import OneSpan, Spans
from extproc.wire import ProcessingRequest, ProcessingResponse


class TracedExchange:
    """Passes inputs on (`exchange.machine.Inputs`)."""

    def __init__(
        self,
        inputs: Inputs,
        exchange: Exchange,
        spans: Spans,
        parent: Parent | None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        """`parent`: Envoy's span of the call, if it tells of one; else a client's header decides."""
        self._inputs = inputs
        self._exchange = exchange
        self._spans = spans
        self._parent = parent
        self._now = now
        self._span: OneSpan | None = None
        self._left_alone = False
        """It isn't to be traced."""
        self._began = now()
        self._asked = self._head = self._first = 0
        """When the backend was asked, when the answer's head came, and when the client got the first of its body."""
        self._body = 0
        self._work = 0.0
        self._facts: dict[str, Any] = {}
        self._retry: OneSpan | None = None
        self._said = Said() if spans.settings.content else None

    def receive(self, message: ProcessingRequest) -> Replies:
        if self._left_alone:
            return self._inputs.receive(message)
        kind = message.WhichOneof("request")
        if kind == "request_body":
            self._body = self._body or self._now()
            if self._said is not None:
                self._said.asked += message.request_body.body
        elif kind == "response_headers":
            self._head = self._now()
        replies = self._worked(partial(self._inputs.receive, message))
        if kind == "request_headers":
            self._begin()
        return self._seen(replies)

    def resume(self, result: Result) -> Replies:
        if self._left_alone:
            return self._inputs.resume(result)
        if self._retry is not None and not self._exchange.goes_on:
            self._retry.end(at=self._now(), error="no_answer" if result is None else None)
            self._retry = None
        return self._seen(self._worked(partial(self._inputs.resume, result)))

    def time_out(self) -> Replies:
        return self._seen(self._inputs.time_out())

    def close(self, since_reply: float = math.inf) -> None:
        phase = self._exchange.phase
        self._inputs.close(since_reply)
        if self._span is not None:
            self._end(self._span, phase)
            self._span = None

    # What is seen

    def _worked(self, work: Callable[[], Replies]) -> Replies:
        began = time.perf_counter()
        try:
            return work()
        finally:
            self._work += time.perf_counter() - began

    def _begin(self) -> None:
        exchange, parent, decided = self._exchange, self._parent, True
        if parent is None:
            parent, decided = Parent.read(exchange.request.trace.get(TRACEPARENT, "")), False
        if not exchange.is_chat or exchange.phase is Phase.PASSED_BY or not self._spans.wants(parent, decided=decided):
            self._left_alone = True
            return
        self._span = self._spans.begin("chat", parent, at=self._began)

    def _seen(self, replies: Replies) -> Replies:
        if self._span is None:
            return replies
        for place, reply in enumerate(replies):
            if isinstance(reply, ProcessingResponse):
                self._see(reply)
            elif isinstance(reply, CallBackend):
                replies[place] = self._below_a_span(reply, self._span)
        return replies

    def _see(self, reply: ProcessingResponse) -> None:
        if METADATA_NAMESPACE in reply.dynamic_metadata.fields:
            told = reply.dynamic_metadata.fields[METADATA_NAMESPACE].struct_value
            self._facts |= {name: told[name] for name in told.fields}
        kind = reply.WhichOneof("response")
        if kind == "request_body":
            self._asked = self._now()
        elif kind == "response_body":
            changed = reply.response_body.response.body_mutation
            body = changed.streamed_response.body or changed.body
            if body and not self._first:
                self._first = self._now()
            if self._said is not None:
                self._said.answered += body
        elif kind == "immediate_response" and self._said is not None:
            self._said.answered += reply.immediate_response.body

    def _below_a_span(self, effect: CallBackend, span: OneSpan) -> CallBackend:
        self._retry = self._spans.begin("retry", span.as_parent, at=self._now())
        headers = {name: value for name, value in effect.headers.items() if name != TRACESTATE}
        return replace(effect, headers={**headers, TRACEPARENT: self._retry.as_parent.written()})

    def _end(self, span: OneSpan, phase: Phase) -> None:
        now, exchange, facts = self._now(), self._exchange, self._facts
        if self._retry is not None:
            self._retry.end(at=now, error="unfinished")
        if self._body:
            self._child(span, "read the request", self._body, self._asked or now)
        passed_by = phase is Phase.PASSED_BY
        if self._asked and (self._head or not passed_by):
            self._child(span, "wait for the backend", self._asked, self._head or now)
        if self._head and not passed_by:
            writing = self._spans.begin("write the answer", span.as_parent, at=self._head)
            if self._first:
                writing.event("first output", at=self._first)
            writing.end(at=now)
        over = passed_by or phase is Phase.ENDED or STREAM_ENDED in facts
        unfinished = None if over else phase.name.lower()
        model = facts.get("model")
        span.name(f"chat {model}" if model else "chat")
        span.say({**of_operation("chat"), **facts, "request_id": exchange.id, "work": self._work})
        reason = facts.get("finish_reason")
        span.say({"unfinished": unfinished, "finish_reasons": [reason] if reason else None})
        if self._said is not None:
            span.say(self._said.facts(exchange.request.surface.name, self._spans.settings.attributes))
        span.end(at=now, error=facts.get("error"))

    def _child(self, span: OneSpan, name: str, begin: int, end: int) -> None:
        self._spans.begin(name, span.as_parent, at=begin).end(at=end)
