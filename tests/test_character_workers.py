"""Whatever a character's code does, it does it to itself: the gateway goes on, and so do all other characters."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from extproc.runner.characters import Character, Characters, State, look, tell
from extproc.runner.characters import pool as pools
from extproc.runner.characters import worker as workers
from extproc.runner.tools import ToolResult
from tests.gateway import put

MEMORY = 256 << 20
INVALID = "invalid_arguments"
SAMPLES = Path(__file__).parent / "characters"
TOOL = "{'type': 'function', 'function': {'name': 'go', 'description': 'Go'}}"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="what confines a character is Linux's"),
]


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


@pytest.fixture(autouse=True, scope="module")
def time_enough() -> Iterator[None]:
    """So that none fails because others keep the machine busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "LOAD", 60.0)
        patch.setattr(workers, "_TO_DIE", 3.0)
        patch.setattr(pools, "_LONGEST_WAIT", PATIENT)
        yield


@asynccontextmanager
async def characters(directory: Path) -> AsyncIterator[Characters]:
    """All of a directory; in the end there is no process left of any."""
    others = processes()
    loaded = Characters(directory, MEMORY)
    await loaded.start()
    try:
        yield loaded
    finally:
        await loaded.close()
    assert processes() <= others


def processes() -> set[int]:
    """Those that were started as workers of this process, whoever is their parent now."""
    found = set()
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                command = (place / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(word.endswith(b"sandbox.py") for word in command) and str(os.getpid()).encode() in command:
                found.add(int(place.name))
    return found


def state(pid: int) -> str:
    """As the kernel names it: T is stopped, Z has ended, though nobody has asked how, and X is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0]
    except OSError:
        return "X"


def of(loaded: Characters, name: str) -> Character:
    character = loaded.get(name)
    assert character is not None
    assert character.problems == ()
    return character


async def attack(character: Character, how: str) -> ToolResult:
    return await character.call("attack", json.dumps({"how": how}))


async def go(character: Character) -> str:
    return (await character.call("go", "{}")).text


def write(directory: Path, name: str, body: str, *, top: str = "") -> Path:
    """A character with the tool `go`, of this body."""
    file = directory / f"{name}.py"
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    put(
        file,
        f"TOOLS = [{TOOL}]\nTIME_LIMIT = 20\n{top}\n"
        f"class PromptGenerator:\n    def handle_tool_call(self, tool_name, tool_input):\n{lines}\n",
    )
    return file


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    for name in ("hostile", "calm"):
        shutil.copy(SAMPLES / f"{name}.py", tmp_path)
    return tmp_path


REFUSED = r"Error: \[Errno \d+\] (Operation not permitted|Permission denied|refused).*"
TIMED_OUT, OUT_OF_MEMORY, CRASHED = (
    "Error: Tool execution timed out", "Error: Tool ran out of memory", "Error: Tool crashed",
)  # fmt: skip
ATTACKS = {
    "endless_loop": TIMED_OUT,
    "stop_itself": TIMED_OUT,
    "ignore_all_signals": TIMED_OUT,
    "fork_bomb": "0 children",
    "allocate_at_once": OUT_OF_MEMORY,
    "allocate_step_by_step": OUT_OF_MEMORY,
    "null_pointer": CRASHED,
    "abort": CRASHED,
    "exit_now": CRASHED,
    "close_all_descriptors": CRASHED,
    "close_and_go_on": CRASHED,
    "write_to_all_descriptors": CRASHED,
    "forge_an_answer": CRASHED,
    "announce_a_huge_frame": CRASHED,
    "answer_twice": CRASHED,
    "leave_a_thread_running": "left",
    "many_threads": "Error: .*|Tool crashed",
    "a_million_lines": f"printed|{TIMED_OUT}",  # it depends on the machine
    "break_print": "broken",
}
HASTY = {"many_threads", *(how for how, expected in ATTACKS.items() if TIMED_OUT in expected)}
"""Those that take long, or don't end by themselves."""
HARMLESS = {
    "become_another_program": REFUSED,
    "recursion": "Error: maximum recursion depth exceeded.*",
    "exit_politely": "Error: bye",
    "write_to_descriptor_1": "written",
    "huge_result": r"x{990}\.\.\. \[cut\]",
    "half_a_character": "a�b",
    "kill_the_parent": REFUSED,
    "kill_everyone": REFUSED,
    "kill_the_parent_s_group": REFUSED,
    "stop_the_parent_by_a_queued_signal": REFUSED,
    "have_the_kernel_signal_the_parent": REFUSED,
    "slow_the_parent_down": REFUSED,
    "read_the_parent_s_environment": REFUSED,
    "write_the_parent_s_memory": REFUSED,
    "write_a_file": REFUSED,
    "raise_its_limits": REFUSED,
    "outlive_the_parent": REFUSED,
    "reach_the_gateway_s_sockets": REFUSED,
    "take_over_a_port": REFUSED,
    "open_its_file_to_all": REFUSED,
    "empty_its_file": REFUSED,
    "read_a_terminal": REFUSED,
    "change_the_user": REFUSED,
    "return_a_number": "Error: Tool must return string",
    "return_nothing": "Error: Tool must return string",
    "raise_something": "Error: no such place",
    "raise_without_a_word": "Error: ValueError",
    "raise_what_has_no_text": "Error: SilentError",
    "raise_a_long_text": r"Error: x{983}\.\.\. \[cut\]",
}
"""What fails by itself, or does no harm: the worker goes on."""
PATIENT = 60
"""Seconds for what ends by itself, on a machine that may be busy."""


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Characters]]:
    """The characters that outlive one attack after the other."""
    directory = tmp_path_factory.mktemp("characters")
    for name in ("hostile", "calm"):
        shutil.copy(SAMPLES / f"{name}.py", directory)
    patient = (directory / "hostile.py").read_text()
    (directory / "hasty.py").write_text(patient.replace("TIME_LIMIT = 20", "TIME_LIMIT = 0.3"))
    others, loaded = processes(), Characters(directory, MEMORY)
    with asyncio.Runner() as runner:
        runner.run(loaded.start())
        yield runner, loaded
        runner.run(loaded.close())
    assert processes() <= others


@pytest.mark.parametrize("how", ATTACKS)
def test_an_attack_ends_with_its_own_call(
    besieged: tuple[asyncio.Runner, Characters], how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    runner, loaded = besieged
    bad, calm = of(loaded, "hasty" if how in HASTY else "hostile"), of(loaded, "calm")

    async def test() -> None:
        result, beside = await asyncio.gather(attack(bad, how), calm.call("count", "{}"))
        assert re.fullmatch(ATTACKS[how], result.text, re.DOTALL), result.text[:500]
        assert beside.outcome == "ok"
        if how not in HASTY:  # whose time is short, and the machine may be busy
            assert await attack(bad, "fine") == ToolResult("fine")
        assert (await calm.call("count", "{}")).outcome == "ok"
        await until(lambda: processes() <= {pid for character in loaded for pid in character.pids})
        assert len(caplog.records) < 100

    runner.run(test())


def test_what_is_refused_or_fails_costs_no_worker(hostile: Path) -> None:
    async def test() -> None:
        async with characters(hostile) as loaded:
            bad = of(loaded, "hostile")
            await until(lambda: len(bad.pids) == pools.WARM)
            before = set(bad.pids)
            for how, expected in HARMLESS.items():
                result = await attack(bad, how)
                assert re.fullmatch(expected, result.text, re.DOTALL), (how, result.text[:500])
            assert set(bad.pids) == before

    run(test())


def test_what_a_thread_does_after_the_return_is_not_taken_for_an_answer(hostile: Path) -> None:
    async def test() -> None:
        async with characters(hostile) as loaded:
            bad = of(loaded, "hostile")
            results = [await attack(bad, how) for how in ("forge_later", *["fine"] * 5)]
            assert {result.text for result in results} <= {"later", "fine", CRASHED}
            assert [result.text for result in results].count(CRASHED) <= 1

    run(test())


def test_others_have_the_processor_first(hostile: Path) -> None:
    async def test() -> None:
        async with characters(hostile) as loaded:
            least = min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)
            await until(lambda: {os.getpriority(os.PRIO_PROCESS, p) for p in of(loaded, "hostile").pids} == {least})

    run(test())


def test_between_its_calls_a_worker_is_stopped(hostile: Path) -> None:
    async def test() -> None:
        async with characters(hostile) as loaded:
            bad = of(loaded, "hostile")
            await attack(bad, "leave_a_thread_running")
            await until(lambda: bad.pids and all(state(pid) == "T" for pid in bad.pids))

    run(test())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENT):
        while not condition():  # noqa: ASYNC110 - these are other processes' doings
            await asyncio.sleep(0.01)


def test_a_worker_has_no_environment_and_no_descriptors_of_ours(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    ours = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(ours, True)

    async def test() -> None:
        async with characters(hostile) as loaded:
            seen = json.loads((await attack(of(loaded, "hostile"), "see")).text)
            assert seen["environment"] == ["LANG", "MALLOC_ARENA_MAX", "PATH"]
            assert len(seen["descriptors"]) == 5  # three, the connection, and the directory that it looks at

    run(test())
    os.close(ours)


def test_what_is_wrong_with_a_call_is_told_in_the_model_s_words(tmp_path: Path) -> None:
    write(tmp_path, "c", "return 'gone'")
    file = tmp_path / "c.py"
    schema = "{'type': 'object', 'properties': {'where': {'type': 'string'}}, 'required': ['where']}"
    file.write_text(file.read_text().replace("'Go'", f"'Go', 'parameters': {schema}"))

    async def test() -> None:
        async with characters(tmp_path) as loaded:
            c = of(loaded, "c")
            for name, arguments, text, outcome in (
                ("go", '{"where": "x"}', "gone", "ok"),
                ("fly", "{}", "Error: Unknown tool: fly", "unknown_tool"),
                ("fly", "{", "Error: Unknown tool: fly", "unknown_tool"),
                ("x" * 5000, "", f"Error: Unknown tool: {'x' * 969}... [cut]", "unknown_tool"),
                ("go", "{", "Error: Invalid JSON arguments - ", INVALID),
                ("go", "", "Error: Invalid JSON arguments - ", INVALID),
                ("go", "[]", "Error: Invalid JSON arguments - expected an object", INVALID),
                ("go", '{"where": NaN}', "Error: Invalid JSON arguments - NaN is no JSON", INVALID),
                ("go", "[" * 2000, "Error: Invalid JSON arguments - ", INVALID),
                ("go", f'{{"where": "{"x" * 2035}"}}', "gone", "ok"),
                ("go", f'{{"where": "{"x" * 2036}"}}', "Error: Invalid JSON arguments - they have 2049 bytes", INVALID),
                ("go", f'{{"where": "{"ü" * 1020}"}}', "Error: Invalid JSON arguments - they have 2053 bytes", INVALID),
                ("go", '{"where": "\ud800"}', "gone", "ok"),
                ("go", "{}", "Error: Invalid parameters - where: Field required", INVALID),
                ("go", '{"where": 5}', "Error: Invalid parameters - where: Input should be a valid string", INVALID),
            ):
                result = await c.call(name, arguments)
                assert result.text.startswith(text), result
                assert result.outcome == outcome
                result.text.encode()

    run(test())


def test_a_call_that_is_cancelled_takes_its_worker_along(tmp_path: Path) -> None:
    write(tmp_path, "c", "while True: pass", top="TIME_LIMIT = 60")

    async def test() -> None:
        async with characters(tmp_path) as loaded:
            c = of(loaded, "c")
            await until(lambda: len(c.pids) == pools.WARM)
            before = set(c.pids)
            call = asyncio.create_task(c.call("go", "{}"))
            await asyncio.sleep(0.05)
            call.cancel()
            began = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda: before - set(c.pids))
            assert time.monotonic() - began < 30  # milliseconds, on a machine that has nothing else to do

    run(test())


def test_calls_run_at_once_and_more_of_them_wait(hostile: Path) -> None:
    async def test() -> None:
        async with characters(hostile) as loaded:
            calm = of(loaded, "calm")
            results = await asyncio.gather(*(calm.call("wait", '{"seconds": 0.1}') for _ in range(pools.MOST + 2)))
            assert [result.outcome for result in results] == ["ok"] * len(results)
            assert len(calm.pids) <= pools.MOST
            await until(lambda: len(calm.pids) >= pools.WARM)  # on a busy machine one may have done it all

    run(test())


def test_who_waits_too_long_for_a_worker_is_told(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "_LONGEST_WAIT", 0.1)
    monkeypatch.setattr(pools, "MOST", 1)

    async def test() -> None:
        async with characters(hostile) as loaded:
            calm = of(loaded, "calm")
            busy = asyncio.create_task(calm.call("wait", '{"seconds": 3}'))
            await asyncio.sleep(0)
            assert await calm.call("count", "{}") == ToolResult("Error: Tool is busy", "unavailable")
            assert await busy == ToolResult("1")

    run(test())


def test_a_worker_that_somebody_kills_is_replaced(hostile: Path) -> None:
    async def test() -> None:
        async with characters(hostile) as loaded:
            calm = of(loaded, "calm")
            await until(lambda: len(calm.pids) == pools.WARM)
            before = set(calm.pids)
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            await until(lambda: set(calm.pids) - before)
            assert await calm.call("count", "{}") == ToolResult("1")

    run(test())


def test_a_file_that_fails_the_second_time_is_not_tried_without_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flag = tmp_path / "fails"
    write(tmp_path, "c", "return 'x'", top=f"import os\nif os.path.exists({str(flag)!r}): os._exit(1)")

    async def test() -> None:
        async with characters(tmp_path) as loaded:
            c = of(loaded, "c")
            await until(lambda: len(c.pids) == pools.WARM)
            flag.touch()
            for pid in c.pids:
                os.kill(pid, signal.SIGKILL)
            tries = list[float]()

            def thrice() -> bool:
                failed = [each for each in caplog.records if "no worker could be started" in each.getMessage()]
                tries[:] = [each.created for each in failed]
                return len(tries) >= 3

            await until(thrice)
            waits = [later - earlier for earlier, later in pairwise(tries)]
            assert waits[0] >= pools._FIRST_DELAY
            assert waits[1] >= 2 * pools._FIRST_DELAY
            flag.unlink()
            await until(lambda: c.pids)

    run(test())


LOADS = {
    "an exit": ("import os\nos._exit(0)", "exit status 0"),
    "a crash": ("import os\nos.abort()", "killed by SIGABRT"),
    "too much memory": ("x = bytearray(10 << 30)", "MemoryError"),
    "a fork": ("import os\nos.fork()", "PermissionError"),
    "no descriptors": ("import os\nos.closerange(0, 1000)", ""),
    "garbage": ("import os\nfor n in range(3, 20):\n try: os.write(n, b'garbage')\n except OSError: pass", "broken"),
    "a huge system prompt": ("SYSTEM_PROMPT = 'x' * 10 ** 6", "more than"),
    "an import that there isn't": ("import no_such_module", "ModuleNotFoundError"),
}


def test_what_is_wrong_with_a_file_disables_its_own_character(tmp_path: Path) -> None:
    for number, (content, _) in enumerate(LOADS.values()):
        (tmp_path / f"c{number}.py").write_text(content)
    (tmp_path / "bad name.py").write_text("")
    (tmp_path / "_helper.py").write_text("1 / 0")
    (tmp_path / ".hidden.py").write_text("1 / 0")
    (tmp_path / "notes.txt").write_text("1 / 0")
    (tmp_path / "directory.py").mkdir()
    (tmp_path / "large.py").write_bytes(b"#" * (2 << 20))
    os.mkfifo(tmp_path / "pipe.py")
    write(tmp_path, "sound", "return 'sound'")

    async def test() -> None:
        async with characters(tmp_path) as loaded:
            for number, (what, (_, words)) in enumerate(LOADS.items()):
                character = loaded.get(f"c{number}")
                assert character is not None
                assert character.state is State.FAILED_VALIDATION, what
                assert words in tell(character)[0], what
                assert await character.call("go", "{}") == ToolResult("Error: Unknown tool: go", "unknown_tool")
            assert loaded.get("_helper") is loaded.get(".hidden") is loaded.get("notes") is None
            assert "pipe.py: LoadError: isn't a regular file" in loaded.problems
            assert "directory.py: LoadError: isn't a regular file" in loaded.problems
            assert "large.py: LoadError: has more than 1048576 bytes" in loaded.problems
            assert any(line.startswith("bad name.py: InvalidName: ") for line in loaded.problems)
            assert await go(of(loaded, "sound")) == "sound"

    run(test())


def test_a_file_that_never_comes_to_its_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LOAD", 1.0)
    (tmp_path / "endless.py").write_text("while True: pass")

    async def test() -> None:
        async with characters(tmp_path) as loaded:
            endless = loaded.get("endless")
            assert endless is not None
            assert endless.state is State.FAILED_VALIDATION
            assert "takes longer than 1 s to be imported" in tell(endless)[0]

    run(test())


def test_a_character_says_what_its_file_says(hostile: Path) -> None:
    async def test() -> None:
        async with characters(hostile) as loaded:
            calm = of(loaded, "calm")
            assert (calm.character_name, calm.name, calm.file) == ("calm", "character/calm", hostile / "calm.py")
            assert calm.state is State.LOADED_WITH_TOOLS
            assert calm.system_prompt == "You are calm."
            assert calm.time_limit == 20
            assert [tool["function"]["name"] for tool in calm.definitions] == ["count", "wait"]
            assert calm.runs("count")
            assert [character.character_name for character in loaded] == ["calm", "hostile"]

    run(test())


def test_a_changed_file_is_for_conversations_to_come(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    write(tmp_path, "c", "return 'old'")

    async def test() -> None:
        async with characters(tmp_path) as loaded:
            watch = asyncio.create_task(loaded.run(0.02))
            old = of(loaded, "c")
            with old.used():
                write(tmp_path, "c", "return 'new'")
                write(tmp_path, "d", "return 'added'")
                await until(lambda: loaded.get("c") is not old and loaded.get("d"))
                assert await go(of(loaded, "c")) == "new"
                assert await go(of(loaded, "d")) == "added"
                assert await go(old) == "old"
                killed = set(old.pids)
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)
                await until(lambda: not killed & set(old.pids))  # those that are started later have the old code
                assert await go(old) == "old"
            await until(lambda: not old.pids)
            assert await old.call("go", "{}") == ToolResult("Error: Tool is busy", "unavailable")

            same = loaded.get("d")
            (tmp_path / "d.py").touch()
            put(tmp_path / "c.py", "TOOLS = 5")
            await until(lambda: (c := loaded.get("c")) and c.state is State.FAILED_VALIDATION)
            assert "c.py: TOOLS: TypeError: expected a list or None, got int" in caplog.text
            assert loaded.get("d") is same  # its content is what it was
            (tmp_path / "c.py").unlink()
            await until(lambda: loaded.get("c") is None)
            watch.cancel()
            await asyncio.wait((watch,))

    run(test())


def test_what_a_tool_prints_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    write(tmp_path, "c", "import sys\nprint('to stdout')\nprint('to stderr', file=sys.stderr)\n1 / 0")

    async def test() -> None:
        async with characters(tmp_path) as loaded:
            assert await go(of(loaded, "c")) == "Error: division by zero"
            for words in ("to stdout", "to stderr", "ZeroDivisionError: division by zero"):
                assert f"character c: {words}" in caplog.text

    run(test())


def test_a_look_tells_all_and_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path, "sound", "return 'x'")
    (tmp_path / "broken.py").write_text(f"TOOLS = [{TOOL}, {TOOL}]")

    async def test() -> None:
        others = processes()
        broken, sound = await look(tmp_path, MEMORY)
        assert tell(sound) == []
        assert tell(broken) == [
            "broken.py: tools[1].function.name: DuplicateName: 'go' is used twice",
            "broken.py: PromptGenerator.handle_tool_call: MissingMethod: there are tools, so it has to be there",
        ]
        assert processes() <= others

    run(test())


def test_a_directory_that_is_not_there_is_an_error_at_the_start_and_none_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "characters"

    async def test() -> None:
        with pytest.raises(FileNotFoundError):
            await Characters(directory, MEMORY).start()
        directory.mkdir()
        write(directory, "c", "return 'x'")
        async with characters(directory) as loaded:
            watch = asyncio.create_task(loaded.run(0.01))
            directory.rename(tmp_path / "elsewhere")
            await until(lambda: "the characters stay as they are" in caplog.text)
            assert await go(of(loaded, "c")) == "x"
            watch.cancel()
            await asyncio.wait((watch,))
        assert caplog.text.count("the characters stay as they are") == 1

    run(test())


ORPHANS = """
import asyncio, os, signal, sys
from pathlib import Path
from extproc.runner.characters import Characters, worker

worker.LOAD = 60.0

async def main():
    characters = Characters(Path(sys.argv[1]), 256 << 20)
    await characters.start()
    await characters.get("calm").call("count", "{}")
    print(*characters.get("calm").pids, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_workers_end_with_the_gateway_however_that_ends(hostile: Path) -> None:
    async def test() -> None:
        gateway = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ORPHANS, str(hostile), stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await gateway.communicate()
        pids = [int(pid) for pid in printed.split()]
        assert pids
        await until(lambda: all(state(pid) in "ZX" for pid in pids))

    run(test())


def test_what_the_system_lacks_is_told_once(
    hostile: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sandbox = tmp_path_factory.mktemp("programs") / "sandbox.py"
    known = Path(workers._PROGRAMS[0]).read_text()
    sandbox.write_text(known.replace('_ARCHITECTURES = {"x86_64"', '_ARCHITECTURES = {"another"'))
    monkeypatch.setattr(workers, "_PROGRAMS", (str(sandbox), workers._PROGRAMS[1]))

    async def test() -> None:
        async with characters(hostile) as loaded:
            assert await attack(of(loaded, "hostile"), "fine") == ToolResult("fine")
        assert caplog.text.count("this system has no seccomp") == 1

    run(test())


def test_a_character_runs_in_the_least_memory_that_can_be_configured(hostile: Path) -> None:
    async def test() -> None:
        loaded = Characters(hostile, 64 << 20)
        await loaded.start()
        assert await of(loaded, "calm").call("count", "{}") == ToolResult("1")
        await loaded.close()

    run(test())
