"""The layouts once more through a real Envoy: what its client sees of a server's violations.

One listener for each layout, with trailers and large bodies allowed; an exchange of HTTP/1.1 through it. The simulated
host plays the same exchange with the same server, and `tests.judged.real_envoy.difference` compares.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import yaml

from extproc.conformance.client import GrpcServer
from extproc.conformance.driver import play
from extproc.conformance.host.outcome import Ending, Outcome
from extproc.conformance.host.settings import REQUESTS, RESPONSES, BodyMode, HostSettings, HttpExchange, HttpMessage
from extproc.conformance.recipe import Recipe
from tests.gateway import ENVOY, free_port
from tests.judged.real_envoy import Seen, Upstream, bootstrap, difference, running_envoy

_PATIENCE = 6.0
"""Longer than Envoy's message_timeout; what isn't over by then hangs."""
_LARGE = 5 << 20
_TYPE = "type.googleapis.com/envoy.extensions.filters.http"
Modes = tuple[BodyMode, BodyMode]


@dataclass(frozen=True, slots=True)
class Play:
    """One exchange: what is played, in which layout."""

    label: str
    modes: Modes
    exchange: HttpExchange


def plays(recipe: Recipe) -> list[Play]:
    """Each layout with the recipe's exchange, and what the cases found most often besides."""
    told = recipe.mutated.exchange if recipe.mutated is not None else recipe.passes
    whole = (BodyMode.BUFFERED, BodyMode.BUFFERED)
    trailers = replace(told.request, trailers=(("x-checksum", b"1"),))
    large = replace(told.request, pieces=(told.request.body + b" " * _LARGE,))
    large = replace(large, headers=tuple(pair for pair in large.headers if pair[0] != "content-length"))
    found = [Play("", (request, response), told) for request in REQUESTS for response in RESPONSES]
    found.append(Play("request trailers", whole, HttpExchange(trailers, told.response)))
    found.append(Play("a request of 5 MiB", whole, HttpExchange(large, told.response)))
    if recipe.refused is not None:
        found.append(Play("refused", whole, HttpExchange(recipe.refused.exchange.request, told.response)))
    return found


def compared(target: str, recipe: Recipe) -> list[dict[str, object]]:
    """Rows: what the client of Envoy got, what the simulated host foretold, and whether they agree."""
    every = plays(recipe)
    ports = {modes: free_port() for modes in dict.fromkeys(each.modes for each in every)}
    rows = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        upstream = Upstream(every[0].exchange.response)
        threading.Thread(target=upstream.run, args=(listener,), daemon=True).start()
        with _envoy(ports, target, listener.getsockname()[1], recipe):
            for each in every:
                upstream.answer = each.exchange.response
                simulated = asyncio.run(_simulated(target, recipe, each))
                seen, headers = _asked(ports[each.modes], each.exchange.request, upstream)
                rows.append(_row(each, simulated, seen, headers))
    return rows


async def _simulated(target: str, recipe: Recipe, each: Play) -> Outcome:
    async with GrpcServer(target, recipe.limits, recipe.metadata, recipe.metadata_context) as server:
        return await play(HostSettings(*each.modes), each.exchange, server.open())


def _row(each: Play, simulated: Outcome, seen: Seen, headers: Mapping[str, str]) -> dict[str, object]:
    if simulated.ending is Ending.BROKEN_OFF:
        wrong = None if seen.status == 500 else f"500 expected, and the client gets {seen.status}"
    else:
        wrong = difference(simulated, seen)
    ids = list(dict.fromkeys(violation.id for violation in simulated.violations))
    return {
        "layout": "/".join(mode.name for mode in each.modes),
        "what": each.label,
        "simulated": simulated.ending.value,
        "invariants": ids,
        "status": seen.status,
        "whole": seen.whole,
        "bytes": len(seen.body),
        "upstream bytes": None if seen.upstream is None else len(seen.upstream),
        "headers set to nothing": sorted(name for name, value in headers.items() if not value),
        "differs": wrong,
    }


@contextmanager
def _envoy(ports: Mapping[Modes, int], target: str, upstream: int, recipe: Recipe) -> Iterator[None]:
    told = yaml.safe_load(bootstrap(dict(ports), 0, upstream))
    for cluster in told["static_resources"]["clusters"]:
        if cluster["name"] == "processor":
            [endpoint] = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
            endpoint["endpoint"]["address"] = _address(target)
    for each in told["static_resources"]["listeners"]:
        each["per_connection_buffer_limit_bytes"] = 64 << 20
        manager = each["filter_chains"][0]["filters"][0]["typed_config"]
        manager["http_protocol_options"] = {"enable_trailers": True}
        # As long as the simulated host waits: it isn't about time.
        manager["http_filters"][0]["typed_config"]["message_timeout"] = f"{recipe.limits.reply}s"
        if recipe.metadata_context:
            _forward(manager["http_filters"], recipe)
    with running_envoy(yaml.safe_dump(told), list(ports.values()), str(ENVOY)):
        yield


def _address(target: str) -> dict[str, Any]:
    if target.startswith("unix:"):
        return {"pipe": {"path": target.removeprefix("unix:")}}
    host, _, port = target.rpartition(":")
    return {"socket_address": {"address": host, "port_value": int(port)}}


def _forward(filters: list[dict[str, Any]], recipe: Recipe) -> None:
    """The recipe's metadata_context, set in front of the filter and forwarded by it."""
    metadata = [{"metadata_namespace": name, "value": dict(fields)} for name, fields in recipe.metadata_context]
    namespaces = [name for name, _ in recipe.metadata_context]
    filters[0]["typed_config"]["metadata_options"] = {"forwarding_namespaces": {"untyped": namespaces}}
    typed = {"@type": f"{_TYPE}.set_metadata.v3.Config", "metadata": metadata}
    filters.insert(0, {"name": "envoy.filters.http.set_metadata", "typed_config": typed})


def _asked(port: int, request: HttpMessage, upstream: Upstream) -> tuple[Seen, dict[str, str]]:
    """What a client gets, and the headers of it."""
    upstream.got = None
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(_PATIENCE)
        with contextlib.suppress(OSError):  # refused in the middle: the answer says it
            connection.sendall(_written(request))
        answer = http.client.HTTPResponse(connection, method="POST")
        try:
            answer.begin()
        except (OSError, http.client.HTTPException):
            return Seen(None, b"", False, upstream.got), {}
        headers = {name.lower(): value for name, value in answer.getheaders()}
        try:
            return Seen(answer.status, answer.read(), True, upstream.got), headers
        except http.client.IncompleteRead as cut:
            return Seen(answer.status, cut.partial, False, upstream.got), headers
        except (OSError, http.client.HTTPException):
            return Seen(answer.status, b"", False, upstream.got), headers


def _written(message: HttpMessage) -> bytes:
    """In HTTP/1.1: by its length, if a header tells it, or else in chunks."""
    length = message.first("content-length") is not None and message.trailers is None
    fields = [
        (name, value) for name, value in message.headers if name[0] != ":" and (length or name != "content-length")
    ]
    lines = [
        b"POST / HTTP/1.1",
        b"host: a.example",
        b"connection: close",
        *(b"%s: %s" % (n.encode(), v) for n, v in fields),
    ]
    if length:
        return b"\r\n".join([*lines, b"", message.body])
    trailers = b"".join(b"%s: %s\r\n" % (name.encode(), value) for name, value in message.trailers or ())
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in message.pieces)
    return b"\r\n".join([*lines, b"transfer-encoding: chunked", b"", chunks + b"0\r\n" + trailers, b""])
