"""What of an exchange is no business of those who get its recording, and is left out of it.

All is left out that isn't known to be harmless: of header fields only the values of those listed here are kept, of
settings only what decides how an exchange is processed, of what Envoy tells besides nothing. What was said isn't
touched: a recording without it could show nothing. So the file itself says that it is there. Only backends' addresses
are taken out of that too, because Envoy tells them where it can't reach one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

from extproc.config import Config
from extproc.config.address import Address
from extproc.names import LEASE_NAMESPACE, METADATA_NAMESPACE
from extproc.recording.envoy_json import bytes_as_json, bytes_from_json
from extproc.wire import HeaderValue, ProcessingRequest, ProcessingResponse

REMOVED = b"(removed)"

KEPT_HEADERS = frozenset(
    """
    :method :path :scheme :status
    accept accept-encoding allow content-encoding content-length content-type date retry-after server
    transfer-encoding user-agent x-request-id
    x-envoy-upstream-service-time
    x-extproc-affinity x-extproc-backend x-extproc-dropped x-extproc-fallback x-extproc-model x-extproc-round
    x-extproc-usage
    x-stainless-arch x-stainless-async x-stainless-helper-method x-stainless-lang x-stainless-os
    x-stainless-package-version x-stainless-read-timeout x-stainless-retry-count x-stainless-runtime
    x-stainless-runtime-version x-stainless-timeout
    """.split()
)
"""The header fields whose values are kept; of the others it is kept that they were there."""

KEPT_BACKEND = frozenset({"name", "affinity", "server", "structured_outputs", "parameters", "priority_scheduling"})
"""What a recording knows of a backend."""
REMOVED_BACKEND = frozenset(
    {"address", "tls", "api_key", "health_check", "max_requests", "max_batch_requests", "headers"}
)
"""... and what not: where it is and how it is reached."""

NOWHERE = "backend.invalid:80"
"""In the place of an address: a name that is reserved for none."""
_NO_HOST = NOWHERE.partition(":")[0]
_IP = r"(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.]+\])"


_NOT_ITS_OWN = frozenset({"requests_per_minute", "tokens_per_minute", "tokens_per_day"})
"""Of the limits: what Envoy and a service see to, between them."""


def hide(message: ProcessingRequest | ProcessingResponse) -> None:
    """Take out of it what is private."""
    if isinstance(message, ProcessingRequest):
        message.ClearField("attributes")
        message.ClearField("metadata_context")
        for name in ("request_headers", "response_headers"):
            if message.HasField(name):  # else this would set it
                getattr(message, name).ClearField("attributes")
    elif message.HasField("dynamic_metadata"):
        _hide_client(message.dynamic_metadata)
        message.dynamic_metadata.fields.pop(LEASE_NAMESPACE, None)  # how many others there were
        if not message.dynamic_metadata.fields:
            message.ClearField("dynamic_metadata")
    for field in _header_fields(message):
        _hide_value(field)


def settings_of(config: Config, model: str | None) -> dict[str, Any]:
    """A configuration in which a request for `model` fares as it does with `config`.

    It has this model and its backend alone, or those of the alias that has this name; all of them for a model that
    isn't there, for the error tells which are.
    """
    alias = config.alias_of(model) if model is not None else None
    wanted = (model,) if alias is None else config.aliases[alias].models
    models = [each for each in config.models if each.name in wanted] or list(config.models)
    names = {each.backend for each in models}
    backends = [each for each in config.backends if each.name in names]
    return {
        "models": [each.model_dump(mode="json", exclude_defaults=True, exclude={"tool_servers"}) for each in models],
        "backends": [
            each.model_dump(mode="json", exclude_defaults=True, include=set(KEPT_BACKEND)) | {"address": NOWHERE}
            for each in backends
        ],
        "limits": config.limits.model_dump(mode="json", exclude_defaults=True, exclude=set(_NOT_ITS_OWN)),
        **({"count_every_answer": True} if config.counts_tokens else {}),
        **({} if alias is None else {"aliases": {alias: config.aliases[alias].model_dump(mode="json")}}),
    }


def addresses_of(config: Config) -> re.Pattern[str]:
    """Finds where backends are: what their addresses say, and what Envoy makes of them, an IP address with that port.

    A host without a port is found where it can be told from a word, and tells anything. What stands before is no part
    of it, even if it is a letter: that of an escape in JSON, or of a subdomain.
    """
    endpoints = {endpoint for backend in config.backends for endpoint in backend.endpoints}
    exact = sorted(re.escape(str(endpoint)) for endpoint in endpoints)
    ports = sorted({str(endpoint.port) for endpoint in endpoints})
    hosts = sorted(re.escape(endpoint.host) for endpoint in endpoints if _tells_a_place(endpoint))
    whole = rf"(?P<whole>(?:{'|'.join(exact)}|{_IP}:(?:{'|'.join(ports)}))(?!\d))"
    alone = rf"|(?<![\d.])(?:{'|'.join(hosts)})(?![\w-]|\.\w)" if hosts else ""
    return re.compile(whole + alone, re.ASCII)


def without_addresses(value: Any, addresses: re.Pattern[str]) -> Any:
    """A message as JSON, with `NOWHERE` in the place of each."""
    match value:
        case str():
            return addresses.sub(_nowhere, value)
        case {"base64": str()}:
            text = bytes_from_json(value).decode("latin-1")
            return bytes_as_json(addresses.sub(_nowhere, text).encode("latin-1"))
        case dict():
            return {name: without_addresses(inner, addresses) for name, inner in value.items()}
        case list():
            return [without_addresses(inner, addresses) for inner in value]
        case _:
            return value


def _nowhere(found: re.Match[str]) -> str:
    return NOWHERE if found["whole"] else _NO_HOST


def _tells_a_place(endpoint: Address) -> bool:
    """Whether its host alone is an address: `vllm` may be anything, and 127.0.0.1 is everywhere."""
    try:
        return not ipaddress.ip_address(endpoint.host).is_loopback
    except ValueError:
        return "." in endpoint.host


def _header_fields(message: Message) -> Iterator[HeaderValue]:
    if isinstance(message, HeaderValue):
        yield message
    elif not isinstance(message, Struct):
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                for inner in value if field.is_repeated else (value,):
                    yield from _header_fields(inner)


def _hide_value(field: HeaderValue) -> None:
    value = field.raw_value or field.value.encode()
    if field.key == ":path":
        path, asks, _ = value.partition(b"?")
        value = path + asks + (REMOVED if asks else b"")
    elif field.key not in KEPT_HEADERS:
        value = REMOVED
    field.ClearField("value")
    field.raw_value = value


def _hide_client(metadata: Struct) -> None:
    """The name that a key stands under is that of a person or of a program, and of their team."""
    said = metadata.fields[METADATA_NAMESPACE].struct_value.fields
    for name in ("client", "team"):
        if name in said:
            del said[name]
    if not said:
        del metadata.fields[METADATA_NAMESPACE]
