"""A model server, or several that serve the same model."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from extproc.config.address import Address, check_address
from extproc.config.base import AbsolutePath, AddressText, ClusterName, FieldError, Name, ParameterName, Settings
from extproc.contract.servers import SERVERS, Server, ServerName


class BackendTls(Settings):
    """TLS to a backend."""

    ca: AbsolutePath | None = None
    """Certificates that the backend's own has to lead to; the system's unless given."""
    sni: Name | None = None
    """The name that is asked for and that the certificate has to carry; the address's host unless given."""


PRIORITY = "priority"
"""The request parameter by which vLLM serves some before others: who has the lowest goes first. 0 unless given."""
BATCH_PRIORITY = 1
"""That of batch requests. Interactive ones have the default, so that nothing has to be written into them."""


_HEALTH_PATH = re.compile(r"/[!-~]*")


def _check_health_path(path: str) -> str:
    if not _HEALTH_PATH.fullmatch(path):
        raise ValueError(f"expected a path such as /health, got {path!r}")
    return path


class HealthCheck(Settings):
    """What each replica is asked, to know whether it can be asked more: a 200 says so."""

    path: Annotated[str, AfterValidator(_check_health_path)] | None = None
    """Asked by GET, without the backend's key; unless given, where such a server tells of its health."""
    contains: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """What the answer has to have in it, such as the name of a model; unless given, anything will do."""


def _written_health_check(value: Any) -> Any:
    if isinstance(value, bool):
        return HealthCheck() if value else None
    if value is None or not isinstance(value, dict | HealthCheck):
        raise ValueError("expected true, false, or a mapping with `path` or `contains`")
    return value


_HEADER = re.compile(r"[a-z0-9_][a-z0-9_-]{0,63}")
_NEVER = ("authorization", "api-key", "x-api-key", "connection", "upgrade", "te", "trailer", "keep-alive")


def _check_header(name: str) -> str:
    if not _HEADER.fullmatch(name):
        raise ValueError(f"expected the name of a header in lower case, such as x-tenant, got {name!r}")
    if name in _NEVER or name.startswith(("x-extproc-", "x-envoy-")):
        raise ValueError(f"{name} never goes to a backend: it holds a client's key, or is the gateway's own")
    return name


_Addresses: TypeAlias = Annotated[tuple[AddressText, ...], Field(min_length=1)]


def _one_or_more(value: Any) -> Any:
    return [check_address(value)] if isinstance(value, str) else value


class Backend(Settings):
    """One entry of `backends`."""

    name: ClusterName
    """What `models` call it."""
    address: Annotated[_Addresses, BeforeValidator(_one_or_more, json_schema_input_type=AddressText | _Addresses)]
    """`host:port` of the server, or a list of those of its replicas. A DNS name stands for all its addresses."""
    tls: BackendTls | None = None
    """It is asked by TLS; `{}` is TLS with what holds unless given."""
    api_key: AbsolutePath | None = None
    """The file that holds the key that the backend asks for. A client's own key never goes to a backend."""
    affinity: bool = False
    """Keep a conversation on one replica, where the prompt of its earlier turns is cached."""
    health_check: Annotated[
        HealthCheck | None, BeforeValidator(_written_health_check, json_schema_input_type=bool | HealthCheck)
    ] = HealthCheck()
    """Ask each replica how it is, by what is said here, and pass by the ones that are ill. None (`false`): don't."""
    max_requests: Annotated[int, Field(ge=1)] = 1024
    """How many requests may be under way at all replicas together; one more is a 503 at once."""
    max_batch_requests: Annotated[int, Field(ge=1)] | None = None
    """How many of them may be teams' with `priority: batch`; one more is a 429. Unless given: three quarters."""
    priority_scheduling: bool = False
    """The backend serves requests by their `priority` (vLLM's `--scheduling-policy priority`)."""
    server: ServerName = "vllm"
    """What it is: in which words it is asked, and what of a request it can be sent (docs/servers.md)."""
    structured_outputs: bool = True
    """The backend can be made to write what a grammar allows (vLLM's `structured_outputs`, SGLang's
    `response_format`)."""
    parameters: tuple[ParameterName, ...] = ()
    """Request parameters that it takes besides those that vLLM documents."""
    headers: tuple[Annotated[str, AfterValidator(_check_header)], ...] = ()
    """Request headers of clients that it gets besides those that every backend gets."""

    @model_validator(mode="after")
    def _has_room_for_batch(self) -> Self:
        if self.max_batch_requests is not None and self.max_batch_requests > self.max_requests:
            raise FieldError(("max_batch_requests",), f"expected at most {self.max_requests}, which is `max_requests`")
        if self.priority_scheduling and self.server != "vllm":
            # SGLang has the larger number go first, and whoever has none last; the others know nothing of it.
            problem = f"only vLLM is told by `{PRIORITY}` who goes first, and this backend has `server: {self.server}`"
            raise FieldError(("priority_scheduling",), problem)
        if self.priority_scheduling and PRIORITY in self.parameters:
            problem = f"{PRIORITY} is the gateway's own with `priority_scheduling`: remove it from one of the two"
            raise FieldError(("parameters",), problem)
        return self

    @property
    def batch_places(self) -> int:
        """How many batch requests may be under way there, at one processor."""
        if self.max_batch_requests is not None:
            return self.max_batch_requests
        return max(1, self.max_requests * 3 // 4)

    @property
    def kind(self) -> Server:
        """What is known of such a server."""
        return SERVERS[self.server]

    @property
    def can_force(self) -> bool:
        """Whether its decoder may be sent a grammar."""
        return self.structured_outputs and self.kind.forced_by is not None

    @property
    def endpoints(self) -> tuple[Address, ...]:
        return tuple(map(Address.parse, self.address))
