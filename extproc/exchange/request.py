"""The first half of an exchange: a request comes in, is read, and goes to a backend, or is answered here."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from extproc.config import Backend
from extproc.contract.errors import ApiError, invalid_request
from extproc.contract.history import TakesTimeError
from extproc.exchange.accounting import ExchangeStats
from extproc.exchange.admission import WANTED, Admitted, Answered, Refused, admit, dialect_of
from extproc.exchange.context import ExchangeContext
from extproc.exchange.effects import Prepare
from extproc.exchange.host import LATER, Host, ignores_overrides
from extproc.exchange.leases import Leases, too_large
from extproc.exchange.phases import Phase
from extproc.exchange.protocol import ProtocolError, check_protocol, fields_of, trace_of
from extproc.exchange.replies import (
    Step,
    immediate,
    listed,
    more_time,
    mutation,
    past_us,
    to_the_end,
    with_lease,
    with_metadata,
)
from extproc.names import (
    AFFINITY_HEADER,
    BACKEND_HEADER,
    CHAT_PATH,
    CLIENT_HEADER,
    DROPPED_HEADER,
    PATH_HEADER,
    ROUND_HEADER,
    RUNNER,
)
from extproc.surfaces import CHAT, ROUTES, known_of, recall
from extproc.turn.upstream import UpstreamRequest
from extproc.wire import (
    BodyResponse,
    HeadersResponse,
    HttpBody,
    HttpHeaders,
    ProcessingResponse,
    ProtocolConfiguration,
)

AGAIN = {"retry-after": "1"}
"""For what is too much now, and may not be in a second."""
LONGEST_ID = 128
"""Characters of a request's id, in logs."""
AT_ONCE = 32 * 1024
"""Bytes of a request that is read at once, those aside that are known: 2 ms, or 10 to 20 at worst (schemas full of
references)."""
LARGE = 48 * 1024
"""The same of one that is plain, as the first of a coding agent's conversation is: 4 ms, or 9 at worst."""
PATIENCE = 1024
"""Characters of malformed arguments of earlier calls that are repaired at once."""
_BRACKETS, _MESSAGES, _REFERENCES = 1_000, 64, 64
"""How many objects and arrays, messages and references a plain request has at most."""
PREPARING = 60.0
"""Seconds that a large request gets to be read."""


class RequestHalf:
    """What one exchange knows by its request; the other half goes on from here."""

    def __init__(self, context: ExchangeContext, stats: ExchangeStats, host: Host | None, *, inner: bool) -> None:
        self.context = context
        self.stats = stats
        self.host = host
        self.leases = Leases(context)
        self.id = ""
        """The request's `x-request-id`, for logs; made up when Envoy sends none."""
        self.trace: dict[str, str] = {}
        """The header fields of the client's trace, which what is asked on its behalf belongs to as well."""
        self.surface = CHAT
        """The client's dialect; that of chat completions where nothing tells it."""
        self.prepared: UpstreamRequest | None = None
        """What went to the backend, without its body."""
        self.shown: dict[str, str] = {}
        """Header fields that every answer of this exchange gets."""
        self._inner = inner
        self._round: dict[str, str] = {}  # which of a run it is, for the access log
        self._headers_alone = False
        self._modes_known = False
        self._path = CHAT_PATH
        self._size = 0  # of the body
        self._content_type: str | None = None  # of a request that is only routed by the model it names

    @property
    def is_chat(self) -> bool:
        """Whether it asks for a model's answer, which counts too."""
        return self._content_type is None

    def check(self, protocol: ProtocolConfiguration) -> None:
        """Look at how Envoy is configured. Raises ProtocolError."""
        self._headers_alone, self._modes_known = check_protocol(protocol), True

    def headers(self, headers: HttpHeaders) -> Step:
        fields = fields_of(headers.headers, *WANTED, ROUND_HEADER, "x-request-id", "content-length", "content-type")
        self.id = fields.get("x-request-id", "")[:LONGEST_ID] or str(uuid.uuid4())
        self.trace = trace_of(headers.headers)
        if not fields.keys() >= {":path", ":method"}:
            raise ProtocolError("configure Envoy's ext_proc filter without forward_rules that hide :path or :method")
        self.surface = dialect_of(fields, self.context)
        if self._inner and ROUND_HEADER in fields:
            self._round = {"round": fields[ROUND_HEADER][:8]}
        match admit(fields, self.context, foreign=self.host is not None, inner=self._inner):
            case Refused(error, extra, client):
                return self.refuse(error, keep=extra, client=client)
            case Answered(body, client, what):
                return Phase.ENDED, [with_metadata(immediate(200, body, what), _client_metadata(client))]
            case Admitted() as admitted:
                self.leases.client = admitted.client
        if admitted.path is not None:
            self._path = admitted.path
        elif admitted.named:
            self._content_type = fields.get("content-type", "")
        try:
            return self._let_in(admitted, headers, fields.get("content-length", ""))
        except ApiError as error:
            keep = AGAIN if error.status == 429 else None
            return self.refuse(error.caught(), keep=keep, client=admitted.client)

    def _let_in(self, admitted: Admitted, headers: HttpHeaders, length: str) -> Step:
        """Raises ApiError when its client has too much under way."""
        read = admitted.path is not None or admitted.named
        if read and self._headers_alone:
            raise ProtocolError("configure Envoy's routes for requests with models with request_body_mode BUFFERED")
        if read and headers.end_of_stream:
            return self.refuse(NO_BODY, client=admitted.client)
        reply = ProcessingResponse(request_headers=HeadersResponse())
        if read:
            self.leases.let_in(length, counted=not self._inner)
        elif admitted.ours:
            backend = self.context.config.default_backend
            self._take_place(backend, reply)
            # While settings change, and under an Envoy that doesn't follow them, it may be routed by this.
            reply.request_headers.response.header_mutation.CopyFrom(mutation({BACKEND_HEADER: backend.name}))
            reply.request_headers.response.clear_route_cache = True
        reply.mode_override.CopyFrom(to_the_end() if admitted.path is not None else past_us(body=admitted.named))
        phase = Phase.REQUEST_BODY if read else Phase.PASSED_BY
        return phase, [with_metadata(reply, _client_metadata(admitted.client))]

    def body(self, body: HttpBody) -> Step:
        if not (body.end_of_stream or self._modes_known):
            # Of an older host that doesn't tell. Where a body comes in pieces, its head is on its way to some backend.
            raise ProtocolError("configure Envoy's processing_mode with request_body_mode BUFFERED; it has another")
        limit = self.context.config.limits.max_body_bytes
        data = body.body  # a copy, of what may be megabytes
        if len(data) > limit:  # Envoy may go by another limit for a moment when it is changed
            return self.refuse(too_large(limit))
        self.leases.arrived(len(data))
        memory, client, config = self.context.memory, self.leases.client, self.context.config
        if memory is not None:
            memory.goes_by(config)
        secret = memory.secret if memory is not None else None
        self._size = len(data)
        work = Prepare(data, config, client, self._content_type, self._path, self._inner, secret)
        try:
            read = self._read_at_once(work)
        except TakesTimeError:
            read = None
        # It may have to wait for its turn as well.
        return self.read(read) if read is not None else (Phase.PREPARING, [more_time(PREPARING), work])

    def _read_at_once(self, work: Prepare) -> UpstreamRequest | ApiError | None:
        """None for a request that may take longer than others should wait. Raises TakesTimeError for one that does."""
        memory = self.context.memory
        if len(work.body) <= AT_ONCE:
            return work.perform_with(memory, PATIENCE)
        if memory is not None and self.is_chat:
            beginning = known_of(work.body, work.config, work.path, memory, work.client, inner=work.inner)
            if beginning is not None and beginning.work <= AT_ONCE:
                known = recall(beginning, work.config, memory, PATIENCE, inner=work.inner)
                if known is not None:
                    return known
        if len(work.body) <= LARGE and _is_plain(work.body):
            return work.perform_with(memory, PATIENCE)
        return None

    def read(self, result: UpstreamRequest | ApiError) -> Step:
        """What came of the reading."""
        if isinstance(result, ApiError):
            return self.refuse(result, keep=AGAIN if result.status == 503 else None)
        if self.context.memory is not None and self.is_chat:
            self.context.memory.took(self.leases.client, self._size, result.known, result.learned)
        return self._forward(result)

    def _forward(self, prepared: UpstreamRequest) -> Step:
        """Send the request to its backend, if its client may have one more there."""
        # Filled in place: a message that is put into another is copied, and its body may be megabytes.
        reply = ProcessingResponse(request_body=BodyResponse())
        to_runner = prepared.backend == RUNNER
        try:
            if not to_runner:  # each round of its takes a place
                self._take_place(self.context.config.backends_by_name[prepared.backend], reply)
        except ApiError as error:
            return self.refuse(error.caught(), keep=AGAIN)
        if prepared.answer is not None and self.host is not None and self.host.refuses():
            return self.refuse(ignores_overrides(), keep=LATER)
        # Without its body, which nobody needs any more: it may be a megabyte, for as long as the answer takes.
        self.prepared = replace(prepared, body=None, learned=())
        common = reply.request_body.response
        common.clear_route_cache = True
        new_fields = {BACKEND_HEADER: prepared.backend}
        if to_runner:
            new_fields[PATH_HEADER] = self._path
            if self.leases.client is not None:
                new_fields[CLIENT_HEADER] = self.leases.client
        if prepared.affinity is not None:
            new_fields[AFFINITY_HEADER] = prepared.affinity
        if self.host is not None and (upstream := ROUTES[self._path].upstream) != self._path:
            new_fields[":path"] = upstream  # our own Envoy's routes see to it
        if prepared.body is not None:
            new_fields["content-length"] = str(len(prepared.body))
            common.body_mutation.body = prepared.body
        common.header_mutation.CopyFrom(mutation(new_fields))
        if prepared.dropped:
            self.shown = {DROPPED_HEADER: listed(prepared.dropped)}
        if to_runner:  # which counts, round by round, what comes of it
            return Phase.RESPONSE_HEADERS, [with_metadata(reply, _routed_to(prepared))]
        if self.is_chat:
            return Phase.RESPONSE_HEADERS, [with_metadata(reply, self.stats.accepted(prepared) | self._round)]
        return Phase.PASSED_BY, [with_metadata(reply, _routed_to(prepared))]

    def _take_place(self, backend: Backend, reply: ProcessingResponse) -> None:
        """Count the request against its client's share of the backend. Raises ApiError when it has that already."""
        if (lease := self.leases.place_at(backend)) is not None:
            with_lease(reply, lease)

    def refuse(self, error: ApiError, *, keep: Mapping[str, str] | None = None, client: str | None = None) -> Step:
        """Answer the client here and now; also instead of an answer that has begun to come."""
        metadata = self.stats.error(error)
        reply = immediate(
            error.status, self.surface.error_body(error), error.code or error.type, {**(keep or {}), **self.shown}
        )
        return Phase.ENDED, [with_metadata(reply, metadata | _client_metadata(client))]


def _is_plain(body: bytes) -> bool:
    """Whether it can be told at a glance that a body is quickly read for its size."""
    return (
        body.count(b"{") + body.count(b"[") <= _BRACKETS
        and body.count(b'"role"') <= _MESSAGES
        and body.count(b"$ref") <= _REFERENCES
    )


NO_BODY = invalid_request("The request has no body. Send a JSON object.", code="invalid_json")


def _routed_to(prepared: UpstreamRequest) -> dict[str, str]:
    named = {"model": prepared.model} if prepared.model is not None else {}
    return {**named, "backend": prepared.backend}


def _client_metadata(client: str | None) -> dict[str, str]:
    return {"client": client} if client is not None else {}
