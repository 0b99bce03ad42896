"""One MCP server as a source of tools: a session that is kept open, and the calls that are made in it.

The session belongs to one task, which connects, lists the tools, waits until something happens, and connects again;
the SDK's context managers must be entered and left by the same. Calls are made by tasks of their own, so that whoever
gives one up need not wait until the server has been told.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from mcp import types
from mcp.client import Client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from extproc.config.tools import ToolServer
from extproc.contract.errors import quoted
from extproc.runner.mcp_servers import results
from extproc.runner.mcp_servers.gate import Connection, gated
from extproc.runner.mcp_servers.http_link import KeyFileError, http_link, read_key
from extproc.runner.mcp_servers.offer import MOST_TOOLS, NOTHING, OfferedTool, offer
from extproc.runner.mcp_servers.program import program
from extproc.runner.tools import ToolResult

log = logging.getLogger(__name__)

Json: TypeAlias = dict[str, Any]

CONNECT_SECONDS: Final = 10.0
"""How long a server may take to begin a session, and to list its tools."""
_LISTEN_SECONDS = 1.0
"""How long the listing of the tools waits until a server has agreed to tell of changes."""
_MOST_PAGES = 100
_LIST_AGAIN = 1.0
"""Seconds between two listings, however often the server says that its tools have changed."""
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 30.0
"""Seconds before a server is connected to again; twice as many each time."""
_STEADY = 30.0
"""A session of so many seconds was a good one: the next delay is the first again."""
_CALLS_AT_ONCE = 64
_SHORTEST_SECRET = 6
"""Characters. What is shorter stands in many a text without being meant."""
_CLIENT = types.Implementation(name="extproc", version="1")
_ANSWER: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)


@dataclass(frozen=True, slots=True)
class ServerState:
    """How a server is doing."""

    name: str
    connected: bool
    tools: int
    """How many of its tools models are offered."""
    error: str | None
    """What is wrong, if anything is."""


class Server:
    """A `ToolSource`. It begins to connect when it is made."""

    def __init__(self, settings: ToolServer) -> None:
        self._settings = settings
        self._offer = NOTHING
        self._client: Client | None = None
        self._connection = Connection()
        self._error: str | None = "it hasn't been connected to yet"
        self._noted: tuple[str, ...] = ()
        self._secrets: tuple[str, ...] = ()
        self._mode = "auto"
        self._closing = False
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._slots = asyncio.Semaphore(_CALLS_AT_ONCE)
        self._asked: set[asyncio.Task[ToolResult]] = set()
        self._tried = asyncio.Event()
        self._keeper = asyncio.create_task(self._keep(), name=f"tool server {settings.name}")

    @property
    def settings(self) -> ToolServer:
        return self._settings

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def definitions(self) -> list[Json]:
        return list(self._offer.definitions)

    @property
    def state(self) -> ServerState:
        return ServerState(self.name, self._client is not None, len(self._offer.tools), self._error)

    def runs(self, name: str) -> bool:
        tool = self._offer.tools.get(name)
        return tool is not None and tool.run == "auto"

    async def tried(self) -> None:
        """Until it has been connected to, or can't be for now."""
        await self._tried.wait()

    async def close(self) -> None:
        """End the session. Calls that are under way end as `unavailable`."""
        self._closing = True
        self._keeper.cancel()
        await asyncio.wait((self._keeper, *self._asked))
        self._error = "it is no longer configured"

    async def retire(self) -> None:
        """End the session when no call is made in it any more."""
        await self._idle.wait()
        await self.close()

    # Calls

    async def call(self, name: str, arguments: str) -> ToolResult:
        tool = self._offer.tools.get(name)
        if tool is None:
            return results.error(f"Unknown tool {quoted(name)}", "unknown_tool")
        try:
            value = results.arguments_of(tool, arguments)
        except results.ArgumentsError as error:
            return results.error(error.args[0], "invalid_arguments")
        with self._counted():
            return await self._in_time(tool, value)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def _in_time(self, tool: OfferedTool, arguments: Json) -> ToolResult:
        asking = asyncio.create_task(self._ask(tool, arguments))
        self._asked.add(asking)
        asking.add_done_callback(self._asked.discard)
        try:
            done, _ = await asyncio.wait((asking,), timeout=tool.seconds)
        finally:
            asking.cancel()  # The SDK tells the server; nobody waits for that.
        return asking.result() if done else results.error("Tool execution timed out", "timeout")

    async def _ask(self, tool: OfferedTool, arguments: Json) -> ToolResult:
        async with self._slots:
            client, connection = self._client, self._connection
            if client is None:
                return self._unavailable()
            params = types.CallToolRequestParams(name=tool.name, arguments=arguments)
            try:
                # Not `call_tool`, which holds the structured content against a schema of the server's: that may take
                # any time, and here the content is only text for a model.
                said = await client.session.send_request(types.CallToolRequest(params=params), _ANSWER)
            except MCPError as error:
                if connection.lost or self._client is not client:  # its code says little: servers use the SDK's own
                    return self._unavailable()
                if error.code == types.HEADER_MISMATCH:  # the schema that we know is an old one
                    connection.change_tools()
                return results.error(error.message, "failed", self._secrets)
            except ValidationError:
                return results.error("the tool server's answer isn't the result of a tool", "failed")
            except Exception:
                log.exception("a call of the tool server %r failed", self.name)
                return self._unavailable()
        if isinstance(said, types.InputRequiredResult):
            return results.error("the tool asks for more, which nobody can answer here", "failed")
        return results.result(said, self._secrets)

    def _unavailable(self) -> ToolResult:
        return results.error(f"the tool server '{self.name}' can't be reached", "unavailable")

    # The session

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        delay = _FIRST_DELAY
        while not self._closing:  # what goes wrong on the way out may hide that we are cancelled
            began, connection = loop.time(), Connection()
            try:
                await self._one_session(connection)
            except TimeoutError:
                # Some servers know no request but `initialize` at first, and don't even refuse another.
                self._mode = "legacy" if self._mode == "auto" else "auto"
                connection.lose(f"it hasn't begun a session within {CONNECT_SECONDS:g} s")
            except KeyFileError as error:
                connection.lose(str(error))
            except OSError as error:
                connection.lose(f"it can't be started: {error.strerror or error}")
            except Exception as error:
                connection.lose(f"it doesn't begin a session: {self._words(error)}")
            self._fail(connection.lost or "the session has ended")
            if loop.time() - began > _STEADY:
                delay = _FIRST_DELAY
            await asyncio.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 - so that not all come at once
            delay = min(2 * delay, _LONGEST_DELAY)

    def _fail(self, why: str) -> None:
        """Once for each reason: a server that stays away is no news."""
        if why != self._error and not self._closing:
            log.warning("the tool server %r can't be used: %s", self.name, why)
        self._error = why
        self._tried.set()

    def _words(self, error: BaseException) -> str:
        """What went wrong, without what we know the server by."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        said = error.message if isinstance(error, MCPError) else type(error).__name__
        return results.bounded(results.without(self._secrets, said), 300)

    async def _one_session(self, connection: Connection) -> None:
        """Connect, and stay until the connection is lost."""
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(CONNECT_SECONDS):
                transport = gated(await self._transport(connection), connection)
                client = await stack.enter_async_context(
                    Client(transport, mode=self._mode, cache=None, client_info=_CLIENT)
                )
                await stack.enter_async_context(_told_of_changes(client, connection))
                await self._list(client, connection)
            self._client, self._connection, self._error = client, connection, None
            log.info("the tool server %r is connected to, and offers %d tools", self.name, len(self._offer.tools))
            self._tried.set()
            try:
                await self._attend(client, connection)
            finally:
                self._client = None
                self._fail(connection.lost or "the session has ended")

    async def _transport(self, connection: Connection) -> AbstractAsyncContextManager[Any]:
        settings = self._settings
        if settings.command is not None:
            return program(self.name, settings.command, settings.environment, connection)
        assert settings.url is not None
        key = await asyncio.to_thread(read_key, settings.api_key) if settings.api_key is not None else None
        self._secrets = _secrets(settings.url, key)
        return http_link(settings.url, key, connection)

    async def _attend(self, client: Client, connection: Connection) -> None:
        while not connection.lost:
            await connection.news.wait()
            connection.news.clear()
            if connection.tools_changed and not connection.lost:
                connection.tools_changed = False
                try:
                    async with asyncio.timeout(CONNECT_SECONDS):
                        await self._list(client, connection)
                except (MCPError, ValidationError, TimeoutError) as error:
                    if not connection.lost:
                        self._note((f"its tools can't be listed: {self._words(error)}",))
                await connection.lost_within(_LIST_AGAIN)

    async def _list(self, client: Client, connection: Connection) -> None:
        """Learn which tools there are. Until the list is complete, the one before stays in force."""
        connection.rejected.clear()
        tools: list[types.Tool] = []
        page = await client.list_tools()
        tools += page.tools
        for _ in range(_MOST_PAGES - 1):
            if page.next_cursor is None or len(tools) > MOST_TOOLS:
                break
            page = await client.list_tools(cursor=page.next_cursor)
            tools += page.tools
        # Schemas may take long to be checked: in a thread, which gives way to what else goes on.
        self._offer = await asyncio.to_thread(offer, self._settings, tools)
        rejected = (
            f"the tool {name} isn't offered: {wrong} isn't as MCP has it" for name, wrong in connection.rejected.items()
        )
        self._note((*rejected, *self._offer.notes))

    def _note(self, notes: tuple[str, ...]) -> None:
        """Log what is new."""
        for note in notes:
            if note not in self._noted:
                log.warning("the tool server %r: %s", self.name, note)
        self._noted = notes


@asynccontextmanager
async def _told_of_changes(client: Client, connection: Connection) -> AsyncIterator[None]:
    """Where the protocol wants it, ask to be told of changes: before the tools are listed, so that none is missed."""
    begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    listening = asyncio.create_task(_listen(client, connection, begun))
    try:
        await asyncio.wait((listening, begun), timeout=_LISTEN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        yield
    finally:
        listening.cancel()
        await asyncio.wait((listening,))


async def _listen(client: Client, connection: Connection, begun: asyncio.Future[None]) -> None:
    """What is told, the gate sees."""
    try:
        async with client.listen(tools_list_changed=True) as changes:
            if begun.done():  # that took its time, and who knows what has changed since
                connection.change_tools()
            else:
                begun.set_result(None)
            async for _ in changes:
                pass
        connection.lose("it has ended the subscription to changes")
    except SubscriptionLost:
        connection.lose("it has ended the subscription to changes")
    except (ListenNotSupportedError, MCPError):
        pass  # It tells unasked, or never.
    except Exception as error:
        connection.lose(f"no subscription to changes: {type(error).__name__}")


def _secrets(url: str, key: str | None) -> tuple[str, ...]:
    """What must not be shown of how a server is reached."""
    parts = urlsplit(url)
    secrets = {key, parts.password, unquote(parts.password or ""), parts.query}
    secrets |= {pair.partition("=")[2] for pair in parts.query.split("&")}
    return tuple(sorted((it for it in secrets if it and len(it) >= _SHORTEST_SECRET), key=len, reverse=True))
