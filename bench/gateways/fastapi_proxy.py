"""FastAPI with httpx that does nothing: `python fastapi_proxy.py PORT BACKEND`, in an environment of its own.

What people write first: each request goes on as it came, and so does its answer; a stream piece by piece. One worker,
with uvloop and httptools. It looks at nothing that passes.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

PORT, BACKEND = int(sys.argv[1]), sys.argv[2]
client = httpx.AsyncClient(
    base_url=BACKEND, timeout=None, limits=httpx.Limits(max_connections=None, max_keepalive_connections=256)
)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with client:
        yield


async def chat(request: Request) -> Response:
    asked = client.build_request(
        "POST", request.url.path, content=await request.body(), headers={"content-type": "application/json"}
    )
    answer = await client.send(asked, stream=True)
    kind = answer.headers["content-type"]
    if kind.startswith("text/event-stream"):
        return StreamingResponse(pieces(answer), answer.status_code, media_type=kind)
    try:
        return Response(await answer.aread(), answer.status_code, media_type=kind)
    finally:
        await answer.aclose()


async def pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.aiter_raw():
            yield piece
    finally:
        await answer.aclose()


app = FastAPI(lifespan=lifespan)
app.add_api_route("/v1/chat/completions", chat, methods=["POST"], response_model=None)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=PORT, access_log=False, log_level="warning")
