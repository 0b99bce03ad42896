"""An MCP server made with the SDK, for tests: over stdio when it is run, by HTTP where it is served in a test."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ANYTHING: dict[str, Any] = {"type": "object"}
IMAGE = base64.b64encode(b"x" * 1234).decode()
PAGE = 5
"""Tools."""
METHOD_NOT_FOUND = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}}


def text(said: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=said)], is_error=is_error)


class ToolBox:
    """What the server offers, and what it sees of its client."""

    def __init__(self) -> None:
        self.tools = [
            types.Tool(name="weather", description="Says what the weather is like.", input_schema=CITY),
            *(
                types.Tool(name=name, input_schema=ANYTHING)
                for name in (
                    "environment",
                    "fail",
                    "crash",
                    "image",
                    "big",
                    "hang",
                    "ask.back",
                    "add",
                    "structured",
                    "ask",
                )
            ),
        ]
        self.hanging = asyncio.Event()
        """Set when `hang` has been called."""
        self.cancelled = asyncio.Event()
        """Set when a call has been cancelled."""
        self.listed = 0
        self.open = 0
        """How many requests are being served."""
        self.sessions: set[bytes] = set()
        self.forgotten: set[bytes] = set()
        """The sessions that it has been asked in, and those that it knows no more."""
        self.bus = InMemorySubscriptionBus()
        self.server: Server[Any] = Server(
            "tests",
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_subscriptions_listen=ListenHandler(self.bus),
        )

    async def _list(
        self, _: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self.listed += 1
        begin = int(params.cursor) if params is not None and params.cursor else 0
        end = begin + PAGE
        return types.ListToolsResult(
            tools=self.tools[begin:end], next_cursor=str(end) if end < len(self.tools) else None
        )

    async def _call(self, context: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Any:
        arguments = params.arguments or {}
        match params.name:
            case "weather":
                return text(f"Sunny in {arguments['city']}.")
            case "environment":
                return text(json.dumps(dict(os.environ)))
            case "fail":
                return text("the oven is cold", is_error=True)
            case "crash":
                os._exit(3)
            case "image":
                return types.CallToolResult(
                    content=[
                        types.TextContent(text="Here it is:"),
                        types.ImageContent(data=IMAGE, mime_type="image/png"),
                    ]
                )
            case "big":
                return text("x" * arguments.get("size", 100_000))
            case "structured":
                return types.CallToolResult(content=[], structured_content={"answer": 42})
            case "hang":
                self.hanging.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self.cancelled.set()
            case "ask.back":
                with warnings.catch_warnings(action="ignore"):  # the SDK would rather not be asked to
                    return text(str(await context.session.list_roots()))
            case "ask":
                question = types.ListRootsRequest()
                return types.InputRequiredResult(input_requests={"roots": question})
            case "add":
                self.tools.append(types.Tool(name=f"added{len(self.tools)}", input_schema=ANYTHING))
                await self.bus.publish(ToolsListChanged())
                await context.session.send_tool_list_changed()
                return text("added")
        raise AssertionError(params.name)

    def app(
        self, *, key: str | None = None, legacy: bool = False, silent_at: tuple[bytes, ...] = (), **options: Any
    ) -> ASGIApp:
        """The server as an application.

        `legacy`: it knows no protocol without a handshake. `silent_at`: it never answers what holds one of these.
        """
        inner = self.server.streamable_http_app(**options)

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            headers = dict(scope["headers"])
            session = headers.get(b"mcp-session-id", b"")
            if key is not None and headers.get(b"authorization") != f"Bearer {key}".encode():
                await _answer(send, 401, {"error": f"the key isn't {key}"})
            elif legacy and headers.get(b"mcp-method") == b"server/discover":
                await _answer(send, 200, METHOD_NOT_FOUND)
            elif session in self.forgotten:
                await _answer(send, 404, {})
            else:
                self.sessions |= {session} - {b""}
                first = await receive()
                if any(words in first["body"] for words in silent_at):
                    while (await receive())["type"] != "http.disconnect":
                        pass
                else:
                    await inner(scope, _again(first, receive), send)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return
            self.open += 1
            try:
                await answer(scope, receive, send)
            finally:
                self.open -= 1

        return app


def _again(first: Message, rest: Receive) -> Receive:
    """What has been received once, and what follows it."""
    messages = [first]

    async def receive() -> Message:
        return messages.pop() if messages else await rest()

    return receive


async def _answer(send: Send, status: int, body: Any) -> None:
    head: Message = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", b"application/json")],
    }
    await send(head)
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


@asynccontextmanager
async def served(app: ASGIApp, port: int = 0) -> AsyncIterator[int]:
    """Serve it on a port of 127.0.0.1."""
    config = uvicorn.Config(
        app, port=port, log_config=None, log_level="critical", ws="none", timeout_graceful_shutdown=0
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve())  # `serve` would take our signals
    try:
        while not server.started:  # noqa: ASYNC110 - it has no event for that
            await asyncio.sleep(0.005)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def main() -> None:
    print("hello\x07 from the server", file=sys.stderr, flush=True)
    box = ToolBox()
    async with stdio_server() as (incoming, outgoing):
        options = box.server.create_initialization_options(NotificationOptions(tools_changed=True))
        await box.server.run(incoming, outgoing, options)


if __name__ == "__main__":
    asyncio.run(main())
