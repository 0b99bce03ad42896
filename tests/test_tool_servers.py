"""MCP servers as sources of tools: real ones, by HTTP and over stdio, and one that does what it shouldn't."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import pytest

from extproc.config.tools import ToolServer
from extproc.runner.mcp_servers import ToolServers, gate, http_link, program, server
from extproc.runner.tools import ToolResult, ToolSource
from tests.gateway import put
from tests.mcp_server import ToolBox, served

pytestmark = pytest.mark.long

P = ParamSpec("P")
ROOT = Path(__file__).parents[1]
REAL = (sys.executable, "-m", "tests.mcp_server")
ODD = (sys.executable, "-I", "-S", str(ROOT / "tests/odd_mcp_server.py"))
PATIENCE = 120.0
each_transport = pytest.mark.parametrize(
    "options",
    [
        {},
        {"json_response": True},
        {"legacy": True},
        {"legacy": True, "json_response": True},
        {"legacy": True, "stateless_http": True},
    ],
    ids=lambda options: "-".join(options) or "modern",
)
each_era = pytest.mark.parametrize("legacy", [False, True], ids=["modern", "legacy"])
"""Protocols before 2026 begin with a handshake, and tell of changes and of what is cancelled in other ways."""


@pytest.fixture(autouse=True)
def time_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that none fails because others keep the machine busy."""
    monkeypatch.setattr(server, "CONNECT_SECONDS", 60.0)


def in_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """A test that is a coroutine."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            async with asyncio.timeout(PATIENCE):
                await test(*args, **kwargs)
            left = [str(task.get_coro()) for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            assert not [task for task in left if "_shutdown_watcher" not in task]  # the SDK's server leaves it

        asyncio.run(main())

    return run


async def until(condition: Callable[[], object]) -> None:
    """What is waited for doesn't announce itself."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def settings(name: str = "srv", /, **given: Any) -> ToolServer:
    return ToolServer(name=name, **given)


def odd(*ways: str, **given: Any) -> ToolServer:
    return settings("odd", command=(*ODD, *ways), **given)


@asynccontextmanager
async def source(configured: ToolServer) -> AsyncIterator[ToolSource]:
    """The server as it is once it has been connected to."""
    async with ToolServers([configured]) as servers:
        await servers.tried()
        (state,) = servers.states
        assert state.connected, state.error
        yield servers.source(configured.name)


@asynccontextmanager
async def web(box: ToolBox, options: dict[str, Any], **given: Any) -> AsyncIterator[ToolSource]:
    async with served(box.app(**options)) as port, source(settings(url=f"http://127.0.0.1:{port}/mcp", **given)) as it:
        yield it


def names(it: ToolSource) -> list[str]:
    return [definition["function"]["name"] for definition in it.definitions]


async def seen(it: ToolSource) -> list[Any]:
    """What the odd server has been sent."""
    messages: list[Any] = json.loads((await it.call("odd__seen", "")).text)
    return messages


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end between the opening and the reading
        return True


# What servers offer and say


@each_transport
@in_loop
async def test_tools_are_listed_and_called(options: dict[str, Any]) -> None:
    async with web(ToolBox(), options) as it:
        assert it.name == "srv"
        assert names(it)[:3] == ["srv__weather", "srv__environment", "srv__fail"]  # of three pages
        assert "srv__ask_back" in names(it)
        assert len(names(it)) == 11
        assert await it.call("srv__weather", '{"city": "Rome"}') == ToolResult("Sunny in Rome.")
        assert await it.call("srv__fail", "") == ToolResult("Error: the oven is cold", "failed")
        assert await it.call("srv__image", "") == ToolResult("Here it is:\n[image: image/png, 1234 bytes]")
        assert await it.call("srv__structured", "") == ToolResult('{"answer": 42}')
        big = await it.call("srv__big", "")
        assert len(big.text) < 32_000
        assert big.text.endswith("more characters]")


@in_loop
async def test_a_program_is_a_server_too(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("A_SECRET", "of ours")
    caplog.set_level(logging.INFO)
    own = {"PYTHONPATH": str(ROOT), "OWN": "given"}
    async with source(settings("real", command=REAL, environment=own, seconds=10)) as it:
        assert await it.call("real__weather", '{"city": "Rome"}') == ToolResult("Sunny in Rome.")
        assert "'real' says: hello\x07 from the server" in caplog.text

        environment = json.loads((await it.call("real__environment", "")).text)
        assert environment.pop("OWN") == "given"
        assert environment.keys() - {"LC_CTYPE"} <= {"PATH", "HOME", "LANG", "TZ", "PYTHONPATH"}

        assert (await it.call("real__add", "")).text == "added"
        await until(lambda: "real__added11" in names(it))

        assert await it.call("real__crash", "") == ToolResult(
            "Error: the tool server 'real' can't be reached", "unavailable"
        )
        assert names(it)  # a prompt needn't change for a moment's trouble
        result = ToolResult("")
        while result.outcome != "ok":
            result = await it.call("real__weather", '{"city": "Oslo"}')
            await asyncio.sleep(0.005)
        assert "it has ended with exit status 3" in caplog.text


@each_era
@in_loop
async def test_changed_tools_are_listed_again(legacy: bool) -> None:
    async with web(ToolBox(), {"legacy": legacy}) as it:
        await it.call("srv__add", "")
        await until(lambda: "srv__added11" in names(it))


@in_loop
async def test_arguments_are_checked_before_the_server_gets_them() -> None:
    async with web(ToolBox(), {}) as it:
        for written in ("{", "[]", '"city"'):
            result = await it.call("srv__weather", written)
            assert result.outcome == "invalid_arguments"
            assert result.text.startswith("Error: Invalid JSON arguments - ")
        for written in ("", "{}", '{"city": 3}'):
            result = await it.call("srv__weather", written)
            assert result.outcome == "invalid_arguments"
            assert result.text.startswith("Error: Invalid parameters - ")
        assert await it.call("srv__nope", "") == ToolResult("Error: Unknown tool 'srv__nope'", "unknown_tool")


@in_loop
async def test_who_runs_a_tool_is_configured() -> None:
    async with web(
        ToolBox(), {}, run="never", tools={"weather": {"run": "auto"}}, allowed_tools=("fail", "weather")
    ) as it:
        assert names(it) == ["srv__weather", "srv__fail"]
        assert it.runs("srv__weather")
        assert not it.runs("srv__fail")
        assert not it.runs("srv__image")


@in_loop
async def test_tools_that_arent_offered_are_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with source(odd("bad-tools", allowed_tools=("pid", "seen", "bad_schema", "gone"))) as it:
        assert names(it) == ["odd__seen", "odd__pid"]
        for words in (
            "the tool 'no.object' isn't offered: inputSchema.type isn't as MCP has it",
            "the tool 'no_schema' isn't offered: inputSchema isn't as MCP has it",
            "the tool 'bad_schema' isn't offered: Invalid value for 'inputSchema.properties.a.type': expected one of",
            "`allowed_tools` names 'gone', which the server doesn't have",
        ):
            assert caplog.text.count(words) == 1


@in_loop
async def test_a_listing_that_fails_leaves_the_tools_as_they_were(caplog: pytest.LogCaptureFixture) -> None:
    async with source(odd("list-fails-later")) as it:
        before = names(it)
        await it.call("odd__flood", '{"messages": 1}')
        await until(lambda: "its tools can't be listed: no list today" in caplog.text)
        assert names(it) == before


@in_loop
async def test_nothing_can_be_asked_of_us() -> None:
    async with source(odd()) as it:
        refusal = json.loads((await it.call("odd__ask", "")).text)
        assert refusal["error"]["message"] == "Sampling not supported"
        (begun,) = (message for message in await seen(it) if message.get("method") == "initialize")
        assert begun["params"]["capabilities"] == {}
    async with web(ToolBox(), {"legacy": True}) as it:
        assert (await it.call("srv__ask_back", "")).text == "Error: List roots not supported"
    async with web(ToolBox(), {}) as it:
        it_asks = "Error: the tool asks for more, which nobody can answer here"
        assert await it.call("srv__ask", "") == ToolResult(it_asks, "failed")


@pytest.mark.parametrize(
    ("call", "arguments", "result"),
    [
        ("fault", {"message": "no"}, ToolResult("Error: no", "failed")),
        ("nonsense", {}, ToolResult("Error: the tool server's answer isn't the result of a tool", "failed")),
        ("garble", {}, ToolResult("after all")),
        ("echo", {"a": [1, "ü", 2**70]}, ToolResult(json.dumps({"a": [1, "ü", 2**70]}))),
    ],
)
@in_loop
async def test_odd_answers(call: str, arguments: Any, result: ToolResult) -> None:
    async with source(odd()) as it:
        assert await it.call(f"odd__{call}", json.dumps(arguments)) == result


# Time


@each_era
@in_loop
async def test_a_call_has_its_time(legacy: bool) -> None:
    box = ToolBox()
    async with web(box, {"legacy": legacy}, tools={"hang": {"seconds": 3.0}}) as it:
        assert await it.call("srv__hang", "") == ToolResult("Error: Tool execution timed out", "timeout")
        await box.cancelled.wait()
        assert (await it.call("srv__weather", '{"city": "Rome"}')).outcome == "ok"


@pytest.mark.parametrize("options", [{}, {"legacy": True}, {"legacy": True, "json_response": True}])
@in_loop
async def test_a_cancelled_call_is_cancelled_there(options: dict[str, Any]) -> None:
    box = ToolBox()
    async with web(box, options) as it:
        call = asyncio.create_task(it.call("srv__hang", ""))
        await box.hanging.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(10):  # by itself the call would never end
                await call
        await box.cancelled.wait()
        assert (await it.call("srv__weather", '{"city": "Rome"}')).outcome == "ok"


@in_loop
async def test_a_program_is_told_what_is_cancelled() -> None:
    async with source(odd(tools={"hang": {"seconds": 3.0}})) as it:
        assert (await it.call("odd__hang", "")).outcome == "timeout"
        cancelled: list[Any] = []
        while not cancelled:
            messages = await seen(it)
            cancelled = [each["params"] for each in messages if each.get("method") == "notifications/cancelled"]
        hanging = [each["id"] for each in messages if each.get("params", {}).get("name") == "hang"]
        assert [each["requestId"] for each in cancelled] == hanging


@in_loop
async def test_a_server_that_never_begins_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "CONNECT_SECONDS", 2.0)
    async with ToolServers([odd("mute"), settings("other", command=ODD)]) as servers:
        mute, other = servers.source("odd"), servers.source("other")
        assert (await mute.call("odd__echo", "")).outcome == "unknown_tool"
        await servers.tried()
        await until(lambda: other.definitions)
        assert not mute.definitions
        state, _ = servers.states
        assert (state.name, state.connected, state.tools) == ("odd", False, 0)
        assert state.error == "it hasn't begun a session within 2 s"
    assert caplog.text.count("'odd' can't be used: it hasn't begun a session within 2 s") == 1


@in_loop
async def test_a_server_that_knows_but_the_handshake_gets_it_at_the_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECT_SECONDS", 2.0)
    async with ToolServers([odd("picky")]) as servers:
        await until(lambda: servers.states[0].connected)


@in_loop
async def test_a_flood_is_let_through_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "MESSAGES_A_SECOND", 100)
    monkeypatch.setattr(program, "_PATIENCE", 0.1)
    async with source(odd()) as it:
        flood = asyncio.create_task(it.call("odd__flood", '{"messages": 100000}'))
        turns, end = 0, time.monotonic() + 0.2
        while time.monotonic() < end:
            await asyncio.sleep(0)
            turns += 1
        assert turns > 100  # as many as the loop has time for
        assert not flood.done()
        flood.cancel()


# Connections that break


@in_loop
async def test_a_server_that_goes_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    for legacy in (False, True):
        box = ToolBox()
        async with ToolServers([]) as servers:
            async with served(box.app(legacy=legacy)) as port:
                servers.reconfigure([settings(url=f"http://127.0.0.1:{port}/mcp")])
                it = servers.source("srv")
                await servers.tried()
                assert (await it.call("srv__weather", '{"city": "Rome"}')).outcome == "ok"
            gone = await it.call("srv__weather", '{"city": "Rome"}')
            assert gone == ToolResult("Error: the tool server 'srv' can't be reached", "unavailable")
            async with served(ToolBox().app(legacy=legacy), port):
                await until(lambda: servers.states[0].connected)
                assert (await it.call("srv__weather", '{"city": "Rome"}')).outcome == "ok"
    assert "it can't be reached" in caplog.text


@in_loop
async def test_a_session_that_the_server_has_forgotten_is_begun_anew() -> None:
    box = ToolBox()
    async with web(box, {"legacy": True}) as it:
        box.forgotten |= box.sessions
        assert (await it.call("srv__weather", '{"city": "Rome"}')).outcome == "unavailable"
        while (await it.call("srv__weather", '{"city": "Rome"}')).outcome != "ok":  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("silent_at", [(b"notifications/cancelled",), (b"notifications/cancelled", b'"name":"hang"')])
@in_loop
async def test_a_call_that_is_given_up_leaves_nothing_open(
    silent_at: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    box = ToolBox()
    options = {"legacy": True, "silent_at": silent_at}
    async with web(box, options, tools={"hang": {"seconds": 0.1}}) as it:
        await until(lambda: box.open == 1)  # the stream for what it says of its own accord
        monkeypatch.setattr(http_link, "_ASIDE", 0.1)  # from now on: it has had its time to connect
        assert (await it.call("srv__hang", "")).outcome == "timeout"
        await until(lambda: box.open == 1)
        assert (await it.call("srv__weather", '{"city": "Rome"}')).outcome == "ok"


@each_era
@in_loop
async def test_a_key_is_read_at_each_connection(legacy: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "extproc")
    file = tmp_path / "key"
    app = ToolBox().app(key="the-right-key", legacy=legacy)
    async with served(app) as port, ToolServers([]) as servers:
        servers.reconfigure([settings(url=f"http://127.0.0.1:{port}/mcp", api_key=file)])
        await servers.tried()
        assert servers.states[0].error == "its key can't be read: No such file or directory"
        put(file, "the-wrong-key\n")
        await until(lambda: servers.states[0].error == "it answers with HTTP status 401")
        put(file, "the-right-key\n")
        await until(lambda: servers.states[0].connected)
        assert (await servers.source("srv").call("srv__weather", '{"city": "Rome"}')).outcome == "ok"
    assert "-key" not in caplog.text.replace(str(file), "")


@pytest.mark.parametrize("content", [b"", b"two words", b"two\nlines", b"\xff\xfe", "schlüssel".encode()])
def test_a_key_has_to_be_a_word(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(http_link.KeyFileError, match="its key can't be sent"):
        http_link.read_key(tmp_path / "key")


def test_credentials_in_a_url_arent_shown() -> None:
    secrets = server._secrets("https://me:p%40ssword@host/mcp?token=abcdef&x=1", "the-key")
    assert set(secrets) == {"the-key", "p%40ssword", "p@ssword", "token=abcdef&x=1", "abcdef"}


@pytest.mark.parametrize("transport", ["program", "sse", "json"])
@in_loop
async def test_an_answer_has_bounds(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = '{"size": 200000}'
    monkeypatch.setattr(program, "LARGEST_MESSAGE", 100_000)
    monkeypatch.setattr(http_link, "LARGEST_ANSWER", 100_000)
    if transport == "program":
        async with ToolServers([odd()]) as servers:
            await servers.tried()
            assert (await servers.source("odd").call("odd__huge", arguments)).outcome == "unavailable"
            await until(lambda: servers.states[0].connected)
    else:
        async with web(ToolBox(), {"json_response": transport == "json"}) as it:
            result = await it.call("srv__big", arguments)
            assert result.outcome == "failed"
            assert len(result.text) < 300
            assert (await it.call("srv__big", '{"size": 20000}')).outcome == "ok"


@in_loop
async def test_a_program_that_doesnt_read_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(program, "_SENDING", 0.2)
    monkeypatch.setattr(program, "_PATIENCE", 0.1)
    async with ToolServers([odd()]) as servers:
        await servers.tried()
        it = servers.source("odd")
        await it.call("odd__deaf", "")
        result = await it.call("odd__echo", json.dumps({"long": "x" * 500_000}))
        assert result.outcome == "unavailable"
        assert "'odd' can't be used: it reads nothing for 0.2 s" in caplog.text


@in_loop
async def test_a_program_that_isnt_there_is_no_reason_not_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_PATIENCE", 30.0)  # it ends in its time
    missing = settings("missing", command=("no-such-program-at-all",))
    broken = settings("broken", command=(sys.executable, "-I", "-S", "-c", "raise SystemExit(7)"))
    async with ToolServers([missing, broken]) as servers:
        await servers.tried()
        assert [state.error for state in servers.states] == [
            "it can't be started: there is no such program",
            "it has ended with exit status 7",
        ]


@in_loop
async def test_what_a_program_prints_is_logged_in_bounds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with source(odd("noisy")) as it:
        await seen(it)
        await until(lambda: "says more than is logged" in caplog.text)
    said = [record.getMessage() for record in caplog.records if "'odd' says" in record.getMessage()]
    assert max(map(len, said)) < 600
    assert len(said) < 50


# The end


@in_loop
async def test_nothing_of_a_program_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_PATIENCE", 0.1)
    async with source(odd("stubborn")) as it:
        pids = [int((await it.call(f"odd__{name}", "")).text) for name in ("pid", "child")]
        assert not any(map(has_ended, pids))
    await until(lambda: all(map(has_ended, pids)))


def test_a_program_doesnt_outlive_us() -> None:
    code = (
        "import asyncio, sys\n"
        "from extproc.config.tools import ToolServer\n"
        "from extproc.runner.mcp_servers import ToolServers, server\n"
        "server.CONNECT_SECONDS = 60.0\n"
        "async def main():\n"
        f"    async with ToolServers([ToolServer(name='odd', command={(*ODD, 'stubborn')!r})]) as servers:\n"
        "        await servers.tried()\n"
        "        print((await servers.source('odd').call('odd__pid', '')).text, flush=True)\n"
        "        await asyncio.to_thread(sys.stdin.read)\n"
        "asyncio.run(main())\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as ours:
        assert ours.stdout is not None
        pid = int(ours.stdout.readline())
        ours.send_signal(signal.SIGKILL)
        ours.wait()
    deadline = time.monotonic() + PATIENCE
    while not has_ended(pid):
        assert time.monotonic() < deadline
        time.sleep(0.005)


@in_loop
async def test_a_reload_keeps_what_hasnt_changed() -> None:
    other = settings("other", command=ODD)
    async with ToolServers([odd(), other]) as servers:
        await servers.tried()
        before, kept = servers.source("odd"), servers.source("other")
        pid = int((await before.call("odd__pid", "")).text)
        hanging = asyncio.create_task(before.call("odd__hang", ""))
        await seen(before)

        servers.reconfigure([other.model_copy(), odd(seconds=5)])
        assert servers.source("other") is kept
        assert servers.source("odd") is not before
        await servers.tried()
        assert int((await servers.source("odd").call("odd__pid", "")).text) != pid
        assert not has_ended(pid)  # a call is still under way
        hanging.cancel()
        await until(lambda: has_ended(pid))
        assert (await before.call("odd__echo", "")).outcome == "unavailable"

        servers.reconfigure([other])
        assert [state.name for state in servers.states] == ["other"]
        with pytest.raises(KeyError):
            servers.source("odd")


@in_loop
async def test_calls_end_with_the_servers() -> None:
    async with ToolServers([odd()]) as servers:
        await servers.tried()
        hanging = asyncio.create_task(servers.source("odd").call("odd__hang", ""))
        await seen(servers.source("odd"))
    assert (await hanging).outcome == "unavailable"
