"""The first half of an exchange: a request comes in, is read, and goes to a backend, or is answered here.

Where it goes is known by its body. So its head waits for that, but where its body is `STREAMED`: there the head leaves
at once, to the only backend, and a request that is refused then is one that the backend sees the head of.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from extproc.config import Backend
from extproc.contract.errors import ApiError, invalid_request
from extproc.contract.history import TakesTimeError
from extproc.exchange.accounting import ExchangeStats, choice_told
from extproc.exchange.admission import WANTED, Admitted, Answered, Refused, admit, dialect_of
from extproc.exchange.api_keys import team_of
from extproc.exchange.context import ExchangeContext
from extproc.exchange.direction import Direction, TooLargeError
from extproc.exchange.effects import Prepare
from extproc.exchange.host import LATER, Host, ignores_overrides
from extproc.exchange.layout import BUFFERED, FULL_DUPLEX, NONE, OWN, STREAMED, BodyMode, layout_of, many_backends
from extproc.exchange.leases import Leases, too_large
from extproc.exchange.phases import Phase
from extproc.exchange.protocol import ProtocolError, content_length, fields_of, trace_of
from extproc.exchange.replies import (
    Step,
    choice_shown,
    immediate,
    listed,
    more_time,
    mutation,
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
    CommonResponse,
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
        self.is_trial = False
        """Whether it is the one request that is let through to a backend which is out (`extproc.exchange.outages`)."""
        self.shown: dict[str, str] = {}
        """Header fields that every answer of this exchange gets."""
        self.layout = OWN
        self.way = _BUFFERED
        """What of the request has come, and may be said."""
        self.inner = inner
        """Whether it is one of the gateway's own: a round of a run."""
        self._round: dict[str, str] = {}  # which of a run it is, for the access log
        self._modes_known = False
        self._path = CHAT_PATH
        self._size = 0  # of the body
        self._as_it_came: bytes | None = None  # the body, where the host hasn't kept it
        self._content_type: str | None = None  # of a request that is only routed by the model it names

    @property
    def is_chat(self) -> bool:
        """Whether it asks for a model's answer, which counts too."""
        return self._content_type is None

    def check(self, protocol: ProtocolConfiguration) -> None:
        """Look at how Envoy is configured. Raises ProtocolError."""
        self.layout, self._modes_known = layout_of(protocol), True
        if self.layout is not OWN:
            self.way = Direction("request", self.layout.request)
            if self.layout.request is STREAMED and self.context.config.only_backend is None:
                raise many_backends()

    def headers(self, headers: HttpHeaders) -> Step:
        fields = fields_of(headers.headers, *WANTED, ROUND_HEADER, "x-request-id", *_OF_BODY)
        self.id = fields.get("x-request-id", "")[:LONGEST_ID] or str(uuid.uuid4())
        self.trace = trace_of(headers.headers)
        self.stats.identified(self.id, self.trace)
        if not fields.keys() >= {":path", ":method"}:
            raise ProtocolError("configure Envoy's ext_proc filter without forward_rules that hide :path or :method")
        self.surface = dialect_of(fields, self.context)
        if self.inner and ROUND_HEADER in fields:
            self._round = {"round": fields[ROUND_HEADER][:8]}
        match admit(fields, self.context, foreign=self.host is not None, inner=self.inner):
            case Refused(error, extra, client):
                return self.refuse(error, keep=extra, client=client)
            case Answered(body, client, what):
                return Phase.ENDED, [with_metadata(immediate(200, body, what), _client_metadata(client))]
            case Admitted() as admitted:
                self.leases.client, self.leases.team = admitted.client, admitted.team
                self.stats.let_in(admitted.team)
        if admitted.path is not None:
            self._path = admitted.path
        elif admitted.named:
            self._content_type = fields.get("content-type", "")
            if fields.get("content-encoding", "identity").strip().lower() != "identity":
                return self.refuse(_ENCODED, client=admitted.client)
        try:
            return self._let_in(admitted, headers, fields.get("content-length", ""))
        except ApiError as error:
            keep = AGAIN if error.status == 429 else None
            return self.refuse(error.caught(), keep=keep, client=admitted.client)

    def _let_in(self, admitted: Admitted, headers: HttpHeaders, length: str) -> Step:
        """Raises ApiError when its client has too much under way."""
        read = admitted.path is not None or admitted.named
        if read and self.layout.request is NONE:
            raise ProtocolError("configure Envoy's routes for requests with models with request_body_mode BUFFERED")
        if read and headers.end_of_stream:
            return self.refuse(NO_BODY, client=admitted.client)
        reply = ProcessingResponse(request_headers=HeadersResponse())
        if read:
            self.leases.let_in(length, counted=not self.inner)
        elif admitted.ours:
            backend = self.context.config.default_backend
            self._take_place(backend, reply)
            # While settings change, and under an Envoy that doesn't follow them, it may be routed by this.
            reply.request_headers.response.header_mutation.CopyFrom(mutation({BACKEND_HEADER: backend.name}))
            reply.request_headers.response.clear_route_cache = True
        override = self.layout.to_the_end if admitted.path is not None else self.layout.past_us[read]
        if override is not None:
            reply.mode_override.CopyFrom(override)
        priority = {"priority": "batch"} if admitted.team is not None and admitted.team.is_batch else {}
        with_metadata(reply, _client_metadata(admitted.client) | priority)
        if not read:
            return self.rest(more=not headers.end_of_stream), [reply]
        if self.way.full_duplex:
            self.way.withhold(reply)
            return Phase.REQUEST_BODY, []
        if self.layout.request is STREAMED:
            self._send_ahead(reply.request_headers.response)
            self.way.announced = content_length({"content-length": length})
        return Phase.REQUEST_BODY, [reply]

    def _send_ahead(self, head: CommonResponse) -> None:
        """Have the head leave before anything is known of the body but whose it will be."""
        backend = self.context.config.only_backend
        assert backend is not None  # the layout was let in
        path = self._upstream_path() if self.host is not None else {}
        head.clear_route_cache = True
        head.header_mutation.CopyFrom(mutation({BACKEND_HEADER: backend, **path}))
        head.header_mutation.remove_headers.append("content-length")

    def _upstream_path(self) -> dict[str, str]:
        """The path that a backend knows, for a host whose routes don't see to it."""
        upstream = ROUTES[self._path].upstream
        return {":path": upstream} if upstream != self._path else {}

    def rest(self, *, more: bool = False) -> Phase:
        """What becomes of an exchange of which nothing is to be changed. `more`: the request's body is still to come.

        Who leaves amid a body in full duplex takes it along.
        """
        in_pieces = self.layout.response is FULL_DUPLEX or (more and self.way.full_duplex)
        return Phase.PASSING if in_pieces else Phase.PASSED_BY

    def body(self, body: HttpBody) -> Step:
        self.needs_end(body, self.way.mode)
        limit = self.context.config.limits.max_body_bytes
        try:
            data = self.way.take(body, limit)  # a copy, of what may be megabytes
        except TooLargeError:
            return self.refuse(too_large(limit))
        if data is None:
            return Phase.REQUEST_BODY, [*self.way.kept()]
        return self._arrived(data, limit)

    def needs_end(self, body: HttpBody, mode: BodyMode) -> None:
        """Raises ProtocolError for a piece of what should come whole, of an older host that tells no modes.

        By then the head is on its way: a request's to some backend, an answer's as an error.
        """
        if not (body.end_of_stream or self._modes_known) and mode is BUFFERED:
            raise ProtocolError(
                "configure Envoy's processing_mode with request_body_mode BUFFERED and response_body_mode NONE or "
                "BUFFERED, where it doesn't tell its modes (before 1.34); it has others"
            )

    def trailers(self) -> Step:
        """They come where the body's end should."""
        if self.way.full_duplex and (data := self.way.take_trailers()):
            return self._arrived(data, self.context.config.limits.max_body_bytes)
        if self.way.holds:
            return self.refuse(_STREAMED_TRAILERS)
        return self.refuse(NO_BODY)

    def behind(self, body: HttpBody) -> list[ProcessingResponse] | None:
        """What something gets that comes behind the body's end, or while an answer comes already; None: it can't be."""
        if body.body:
            return None if self.way.mode is BUFFERED else self.way.kept()
        return self.way.behind()

    def _arrived(self, data: bytes, limit: int) -> Step:
        """All of the body is there."""
        if len(data) > limit:  # Envoy may go by another limit for a moment when it is changed
            return self.refuse(too_large(limit))
        self.leases.arrived(len(data))
        memory, client, config = self.context.memory, self.leases.client, self.context.config
        if memory is not None:
            memory.goes_by(config)
        secret = memory.secret if memory is not None else None
        self._size = len(data)
        team = None if self.inner else self.leases.team  # what we ask for somebody isn't bounded
        batch = self.leases.team is not None and self.leases.team.is_batch
        out = self.context.out()
        work = Prepare(data, config, client, self._content_type, self._path, self.inner, team, batch, secret, out)
        try:
            read = self._read_at_once(work)
        except TakesTimeError:
            read = None
        if self.way.mode is not BUFFERED:
            self._as_it_came = data
        if read is not None:
            return self.read(read)
        # It may have to wait for its turn as well. In full duplex no host counts the time.
        return Phase.PREPARING, [work] if self.way.full_duplex else [more_time(PREPARING), work]

    def _read_at_once(self, work: Prepare) -> UpstreamRequest | ApiError | None:
        """None for a request that may take longer than others should wait. Raises TakesTimeError for one that does."""
        memory = self.context.memory
        if len(work.body) <= AT_ONCE:
            return work.perform_with(memory, PATIENCE)
        if memory is not None and self.is_chat:
            beginning = known_of(work.body, work.config, work.path, memory, work.client, inner=work.inner, out=work.out)
            if beginning is not None and beginning.work <= AT_ONCE:
                known = recall(beginning, work.config, memory, PATIENCE, inner=work.inner, team=work.team)
                if known is not None:
                    return work.by_priority(known)
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
        opening, common = self.way.opening()
        to_runner = prepared.backend == RUNNER
        try:
            if not to_runner:  # each round of its takes a place
                self._take_place(self.context.config.backends_by_name[prepared.backend], opening)
        except ApiError as error:
            return self.refuse(error.caught(), keep=AGAIN)
        if prepared.answer is not None and self.host is not None and self.layout.asks and self.host.refuses():
            return self.refuse(ignores_overrides(), keep=LATER)
        ahead = self.layout.request is STREAMED
        if ahead and prepared.backend != self.context.config.only_backend:
            return self.refuse(_SENT_AHEAD)
        # Without its body, which nobody needs any more: it may be a megabyte, for as long as the answer takes.
        self.prepared = replace(prepared, body=None, learned=())
        if not ahead:
            self._direct(prepared, common, to_runner=to_runner)
        body, self._as_it_came = prepared.body if prepared.body is not None else self._as_it_came, None
        if self.is_chat:  # of no other is it heard what came of it
            self.is_trial = self.context.outages.asked(prepared.backend)
        self.stats.chosen(prepared.choice)
        self.shown = choice_shown(prepared.choice)
        if prepared.dropped:
            self.shown[DROPPED_HEADER] = listed(prepared.dropped)
        if to_runner:  # which counts, round by round, what comes of it
            phase, told = Phase.RESPONSE_HEADERS, _routed_to(prepared)
        elif self.is_chat:
            phase, told = Phase.RESPONSE_HEADERS, self.stats.accepted(prepared) | self._round
        else:
            phase, told = self.rest(), _routed_to(prepared)
        return phase, [*self.way.whole(with_metadata(opening, told), body)]

    def keep_no_second(self) -> None:
        """The client has some of the first answer: the request won't be made a second time, and may be large."""
        if self.prepared is not None and self.prepared.again is not None:
            self.prepared = replace(self.prepared, again=None)

    def _direct(self, prepared: UpstreamRequest, common: CommonResponse, *, to_runner: bool) -> None:
        """Say by the request's head where it goes."""
        common.clear_route_cache = True
        new_fields = {BACKEND_HEADER: prepared.backend}
        if to_runner:
            new_fields[PATH_HEADER] = self._path
            if self.leases.client is not None:
                new_fields[CLIENT_HEADER] = self.leases.client
        if prepared.affinity is not None:
            new_fields[AFFINITY_HEADER] = prepared.affinity
        if self.host is not None:
            new_fields.update(self._upstream_path())
        if prepared.body is not None and self.way.mode is BUFFERED:
            new_fields["content-length"] = str(len(prepared.body))
        common.header_mutation.CopyFrom(mutation(new_fields))
        if prepared.body is not None and self.way.full_duplex:
            common.header_mutation.remove_headers.append("content-length")

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


_BUFFERED = Direction("request", BUFFERED)
"""Has nothing of its own: the host keeps the body, and sends it whole."""
_SENT_AHEAD = ApiError(
    503,
    "This gateway can't send requests for this model to where they belong: its Envoy's request_body_mode is STREAMED.",
    "server_error",
    code="sent_ahead",
)
_STREAMED_TRAILERS = invalid_request("The request ends with trailers. Send it without.", code="invalid_json")
_ENCODED = ApiError(
    415, "The request's body has a content-encoding, in which nobody here can find its model. Send it as it is."
)
_OF_BODY = ("content-length", "content-type", "content-encoding")
NO_BODY = invalid_request("The request has no body. Send a JSON object.", code="invalid_json")


def _routed_to(prepared: UpstreamRequest) -> dict[str, str]:
    named = {"model": prepared.model} if prepared.model is not None else {}
    return {**named, "backend": prepared.backend, **choice_told(prepared.choice)}


def _client_metadata(client: str | None) -> dict[str, str]:
    if client is None:
        return {}
    team = team_of(client)
    return {"client": client, "team": team} if team is not None else {"client": client}
