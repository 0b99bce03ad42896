"""A gateway with an endpoint picker, as the Gateway API Inference Extension and llm-d have it: an ext_proc of its own.

The picker does what theirs do: it waits for the whole request, names the server in `x-gateway-destination-endpoint`,
and gives all bodies back as they came, both in FULL_DUPLEX_STREAMED.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import grpc

from extproc.wire import (
    SERVICE,
    HeadersResponse,
    HeaderValue,
    HeaderValueOption,
    ProcessingRequest,
    ProcessingResponse,
    TrailersResponse,
)

CHOICE = "x-gateway-destination-endpoint"
_PIECE = 62_000
"""Bytes of a message, as theirs has it."""
_TYPES = "type.googleapis.com/envoy.extensions"


class Picker:
    """It sends everything to one server, and remembers which models were asked for."""

    def __init__(self, server: str) -> None:
        self.models: set[str] = set()
        self._server = server

    async def process(self, messages: AsyncIterator[ProcessingRequest], _: object) -> AsyncIterator[ProcessingResponse]:
        body = bytearray()
        async for message in messages:
            match message.WhichOneof("request"):
                case "request_headers" if message.request_headers.end_of_stream:
                    yield self._chosen()  # any server will do for what has no body
                case "request_body":
                    body += message.request_body.body
                    if message.request_body.end_of_stream:
                        self.models.add(json.loads(body)["model"])
                        yield self._chosen()
                        for at in range(0, len(body), _PIECE):
                            yield _piece("request", bytes(body[at : at + _PIECE]), last=at + _PIECE >= len(body))
                case "request_trailers":
                    yield ProcessingResponse(request_trailers=TrailersResponse())
                case "response_headers":
                    yield ProcessingResponse(response_headers=HeadersResponse())
                case "response_body":
                    yield _piece("response", message.response_body.body, last=message.response_body.end_of_stream)
                case "response_trailers":
                    yield ProcessingResponse(response_trailers=TrailersResponse())

    def _chosen(self) -> ProcessingResponse:
        reply = ProcessingResponse(request_headers=HeadersResponse())
        chosen = HeaderValueOption(header=HeaderValue(key=CHOICE, raw_value=self._server.encode()))
        reply.request_headers.response.header_mutation.set_headers.append(chosen)
        reply.request_headers.response.clear_route_cache = True
        return reply

    def served(self) -> grpc.aio.Server:
        server = grpc.aio.server()
        handler = grpc.stream_stream_rpc_method_handler(
            self.process, ProcessingRequest.FromString, ProcessingResponse.SerializeToString
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Process": handler}),))
        return server


def _piece(direction: str, data: bytes, *, last: bool) -> ProcessingResponse:
    reply = ProcessingResponse()
    body = reply.request_body if direction == "request" else reply.response_body
    body.response.body_mutation.streamed_response.body = data
    body.response.body_mutation.streamed_response.end_of_stream = last
    return reply


def inference_gateway(port: int, picker: str) -> dict[str, Any]:
    """Envoy's configuration of such a gateway: a listener at `port`, and the picker's socket."""
    bodies = dict.fromkeys(("request_body_mode", "response_body_mode"), "FULL_DUPLEX_STREAMED")
    others = ("request_header_mode", "response_header_mode", "request_trailer_mode", "response_trailer_mode")
    ext_proc = {
        "@type": f"{_TYPES}.filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}},
        "processing_mode": {**bodies, **dict.fromkeys(others, "SEND")},
        "message_timeout": "10s",
    }
    router = {"@type": f"{_TYPES}.filters.http.router.v3.Router"}
    route = {"match": {"prefix": "/"}, "route": {"cluster": "_servers", "timeout": "0s"}}
    manager = {
        "@type": f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "pool",
        "http_filters": [
            {"name": "envoy.filters.http.ext_proc", "typed_config": ext_proc},
            {"name": "envoy.filters.http.router", "typed_config": router},
        ],
        "route_config": {"name": "pool", "virtual_hosts": [{"name": "pool", "domains": ["*"], "routes": [route]}]},
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    http2: dict[str, Any] = {"explicit_http_config": {"http2_protocol_options": {}}}
    endpoint = {"endpoint": {"address": {"pipe": {"path": picker}}}}
    return {
        "static_resources": {
            "listeners": [
                {
                    "name": "pool",
                    "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
                    "filter_chains": [{"filters": filters}],
                }
            ],
            "clusters": [
                {
                    "name": "picker",
                    "connect_timeout": "5s",
                    "load_assignment": {"cluster_name": "picker", "endpoints": [{"lb_endpoints": [endpoint]}]},
                    "typed_extension_protocol_options": {
                        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                            "@type": f"{_TYPES}.upstreams.http.v3.HttpProtocolOptions",
                            **http2,
                        }
                    },
                },
                {
                    "name": "_servers",
                    "type": "ORIGINAL_DST",
                    "lb_policy": "CLUSTER_PROVIDED",
                    "connect_timeout": "5s",
                    "original_dst_lb_config": {"use_http_header": True, "http_header_name": CHOICE},
                },
            ],
        }
    }
