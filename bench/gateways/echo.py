"""The least that a processor in Python can do, for comparison: `python -m bench.gateways.echo SOCKET CLUSTER`.

It names the cluster, asks for the answer's pieces as the real one does, and gives each back as it came. It understands
nothing of what passes. Serves until it is ended.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import grpc

from extproc.exchange.layout import OWN
from extproc.exchange.replies import mutation, streamed
from extproc.names import BACKEND_HEADER
from extproc.wire import (
    SERVICE,
    BodyResponse,
    CommonResponse,
    HeadersResponse,
    ProcessingMode,
    ProcessingRequest,
    ProcessingResponse,
    TrailersResponse,
)

LARGEST_MESSAGE = 64 * 1024 * 1024
PIECES = ProcessingMode(
    response_body_mode=ProcessingMode.FULL_DUPLEX_STREAMED, response_trailer_mode=ProcessingMode.SEND
)


def reply(message: ProcessingRequest, cluster: str) -> ProcessingResponse:
    match message.WhichOneof("request"):
        case "request_body":
            common = CommonResponse(clear_route_cache=True, header_mutation=mutation({BACKEND_HEADER: cluster}))
            return ProcessingResponse(request_body=BodyResponse(response=common))
        case "response_headers":
            return ProcessingResponse(response_headers=HeadersResponse(), mode_override=PIECES)
        case "response_body":
            body = message.response_body
            (piece,) = streamed(body.body, end_of_stream=body.end_of_stream)  # a backend's pieces are small
            return piece
        case "response_trailers":
            return ProcessingResponse(response_trailers=TrailersResponse())
        case _:
            return ProcessingResponse(request_headers=HeadersResponse(), mode_override=OWN.to_the_end)


async def serve(socket: str, cluster: str) -> None:
    async def process(messages: AsyncIterator[ProcessingRequest], _: object) -> AsyncIterator[ProcessingResponse]:
        async for message in messages:
            yield reply(message, cluster)

    server = grpc.aio.server(options=[("grpc.max_receive_message_length", LARGEST_MESSAGE)])
    handler = grpc.stream_stream_rpc_method_handler(
        process,
        request_deserializer=ProcessingRequest.FromString,
        response_serializer=ProcessingResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Process": handler}),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:3]))
