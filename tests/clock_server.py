"""Stands in for mcp-server-time, which isn't installed for tests: a tool of the same name, with the same parameters."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server

_ZONE = {"type": "string", "description": "IANA timezone name"}
TOOL = types.Tool(
    name="get_current_time",
    description="Get current time in a specific timezone",
    input_schema={"type": "object", "properties": {"timezone": _ZONE}, "required": ["timezone"]},
)


async def _list(_: ServerRequestContext[Any], __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[TOOL])


async def _call(_: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
    said = {"timezone": (params.arguments or {})["timezone"], "datetime": "2026-11-23T16:54:00+01:00"}
    return types.CallToolResult(content=[types.TextContent(text=json.dumps(said))])


async def main() -> None:
    server: Server[Any] = Server("clock", on_list_tools=_list, on_call_tool=_call)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options(NotificationOptions()))


if __name__ == "__main__":
    asyncio.run(main())
