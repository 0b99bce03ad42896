"""What an exchange needs done that takes time: it leaves `Exchange` as a value, and comes back by `Exchange.resume`.

Whoever carries an exchange performs its effects in any way that suits: the server in other processes and over the
network, a test or a replay from what it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from extproc.config import Config, Team
from extproc.config.backend import BATCH_PRIORITY, PRIORITY
from extproc.contract.errors import ApiError, backend_garbage
from extproc.exchange.content_coding import UnreadableCodingError, decoded
from extproc.exchange.routing import route_by_model
from extproc.names import CHAT_PATH
from extproc.surfaces import prepare, rewrite_completion
from extproc.surfaces.choosing import Out
from extproc.turn.answer import Rewritten
from extproc.turn.memory import Memory
from extproc.turn.spec import ResponseSpec
from extproc.turn.upstream import UpstreamRequest
from extproc.turn.usage import Sent


@dataclass(frozen=True, slots=True)
class Prepare:
    """A large request has to be read, which no other exchange should wait for."""

    body: bytes
    config: Config
    client: str | None = None
    """Whose request it is, where keys are asked for."""
    content_type: str | None = None
    """Of a request that is only routed by the model it names; None: it asks for a model's answer."""
    path: str = CHAT_PATH
    """Where it came to, if it asks for a model's answer."""
    inner: bool = False
    """Whether it is one of the gateway's own."""
    team: Team | None = None
    """Of that client, if it bounds what may be asked."""
    batch: bool = False
    """Whether it gives way to others at its backend."""
    secret: bytes | None = field(default=None, repr=False)
    """What is to be remembered of it gets keys by this (`extproc.turn.memory`)."""
    out: Out = field(default_factory=dict)
    """The backends that aren't asked now, where there are others for the same name."""

    def perform(self) -> UpstreamRequest | ApiError:
        """Pure; takes up to seconds."""
        return self.perform_with(Memory(secret=self.secret) if self.secret is not None else None)

    def perform_with(self, memory: Memory | None, patience: int | None = None) -> UpstreamRequest | ApiError:
        """The same where some of it may be known; TakesTimeError is raised for want of `patience` (`prepare`)."""
        try:
            if self.content_type is not None:
                return route_by_model(self.body, self.content_type, self.config, self.team, self.out)
            prepared = prepare(
                self.body,
                self.config,
                self.path,
                inner=self.inner,
                memory=memory,
                client=self.client,
                team=self.team,
                patience=patience,
                out=self.out,
            )
            return self.by_priority(prepared)
        except ApiError as error:
            return error.caught()

    def by_priority(self, prepared: UpstreamRequest) -> UpstreamRequest:
        """With the priority that the backend is to go by, where it knows any. The runner's rounds have their own."""
        backend = self.config.backends_by_name.get(prepared.backend)
        counts = prepared.answer is not None and prepared.answer.counts  # which no queue is for
        if not self.batch or backend is None or not backend.priority_scheduling or counts:
            return prepared
        return prepared.with_member(PRIORITY, BATCH_PRIORITY, self.body)

    def failed(self, why: str) -> ApiError:
        """What the client is told when it can't be read."""
        return ApiError(413, f"The request {why}. Send less.", code="request_too_large")


@dataclass(frozen=True, slots=True)
class ReadCompletion:
    """A large answer, of one piece, has to be read."""

    body: bytes
    """As it came."""
    coding: str
    """The header's value, '' for none."""
    limit: int
    """Bytes that it may have without its coding."""
    spec: ResponseSpec
    sent: Sent | None
    client: str | None = None

    def perform(self) -> Rewritten | ApiError:
        """Pure; takes up to seconds."""
        try:
            return rewrite_completion(decoded(self.body, self.coding, self.limit), self.spec, self.sent)
        except UnreadableCodingError as error:
            return backend_garbage(str(error))
        except ApiError as error:
            return error.caught()

    def failed(self, why: str) -> ApiError:
        """What the client is told when it can't be read."""
        return backend_garbage(f"it {why}.")


@dataclass(frozen=True, slots=True)
class Breathe:
    """A large piece of a stream is read in steps, between which it is the others' turn. Its result is None."""


@dataclass(frozen=True, slots=True)
class CallBackend:
    """A chat completion has to be asked of a backend once more, by way of Envoy. Its result is None when none came."""

    backend: str
    """Its name, for a recording."""
    socket: Path
    """Where Envoy takes what the gateway asks itself."""
    headers: Mapping[str, str]
    body: bytes
    request_id: str
    """For logs."""
    timeout: float
    """Seconds, for the whole answer."""


@dataclass(frozen=True, slots=True)
class BackendResponse:
    """A backend's whole answer."""

    status: int
    body: bytes
    """Without any content coding."""


Heavy: TypeAlias = Prepare | ReadCompletion
"""Pure work on a body, which others must not wait for."""
Effect: TypeAlias = Heavy | Breathe | CallBackend
Result: TypeAlias = UpstreamRequest | Rewritten | ApiError | BackendResponse | None
