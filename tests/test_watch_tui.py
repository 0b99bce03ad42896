"""`extproc watch --tui`: the list, each lane, the keys, and what is taken along; in a terminal that nobody sees."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input

from extproc.cli import main
from extproc.installing import by_pip
from extproc.recording.document import Document
from extproc.recording.frames import Frames, Tag, told
from extproc.watch.lanes import Lanes
from extproc.watch.listing import OUTCOMES, Filter, arranged
from extproc.watch.page import content
from extproc.watch.repairs import Repair
from extproc.watch.spans import Span
from extproc.watch.summary import Summary
from extproc.watch.tui.about import about
from extproc.watch.tui.app import KEYS, WatchApp
from extproc.watch.tui.exchange import Lane
from extproc.watch.tui.lane_text import spans_text
from extproc.watch.tui.rows import Rows, columns
from extproc.watch.tui.words import plain
from extproc.watch.viewed import Viewed
from extproc.watch.watched import Exchanges
from extproc.watch.written import Written
from tests.gateway import EXTPROC
from tests.test_cli import run
from tests.test_reports import REPORTS
from tests.watch_stage import Feeder, frames_of, kept_of

DOCUMENTS = {path.stem: Document.read(path.read_bytes()) for path in REPORTS}
STREAM = "stream-in-many-pieces"
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
WIDE, NARROW = (160, 45), (80, 30)


class Scene:
    """A terminal with these exchanges in it."""

    def __init__(self, app: WatchApp, pilot: Pilot[None], kept: Exchanges, connection: int) -> None:
        self.app = app
        self.pilot = pilot
        self.kept = kept
        self._connection = connection
        self._number = 0

    def take(self, data: bytes) -> None:
        for frame in Frames().feed(data):
            self.kept.take(self._connection, frame)

    def add(self, name: str, *, client: str = "alice", ends: bool = True) -> str:
        """One more; its id."""
        self._number += 1
        began = f"2026-01-31T12:00:{self._number % 60:02}.000+00:00"
        self.take(frames_of(DOCUMENTS[name], self._number, began=began, client=client, ends=ends))
        return f"{self._connection}-{self._number}"

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await self.pilot.pause(0.01)

    async def press(self, *keys: str) -> None:
        """Each when the one before has come where it goes. (The pilot's own waits until the process seems idle.)"""
        for key in keys:
            self.app.post_message(Key(key, {"space": " "}.get(key, key if len(key) == 1 else None)))
            for _ in range(3):  # by the app and the widget to whose binding it is
                await self.pilot.pause(0)

    @property
    def rows(self) -> Rows:
        return self.app.screen_stack[0].query_one(Rows)

    @property
    def ids(self) -> list[str]:
        return [line.summary.id for line in self.rows.lines]

    def lane(self, number: int) -> Lane:
        return self.app.screen_stack[0].query_one(f"#lane-{number}", Lane)

    @property
    def shown(self) -> list[int]:
        """The lanes that can be seen."""
        return [number for number in range(1, 5) if self.lane(number).size.width > 0]

    def picture(self, name: str) -> str:
        """The terminal as an SVG that loads nothing; kept for docs/watch.md, when pictures are made (PICTURES=1)."""
        svg = re.sub(r"@font-face \{[^}]*\}\s*", "", self.app.export_screenshot(title="extproc watch --tui"))
        if os.environ.get("PICTURES"):
            (PICTURES / f"watch-{name}.svg").write_text(svg)
        return svg

    @property
    def screen(self) -> str:
        """All that can be read now."""
        width, height = self.app.size
        lines = self.app.screen._compositor.render_strips(self.app.size)
        assert (len(lines), width) == (height, self.app.size.width)
        return "\n".join(strip.text for strip in lines)

    async def opened(self, identity: str) -> None:
        """Open it by keys alone, and wait for its lanes."""
        await self.until(lambda: identity in self.ids)
        await self.press("escape", "g")
        for _ in range(self.ids.index(identity)):
            await self.press("j")
        await self.press("enter")
        await self.until(lambda: self.lane(4).text)


@asynccontextmanager
async def terminal(folder: Path, size: tuple[int, int] = WIDE) -> AsyncIterator[Scene]:
    kept = Exchanges(1 << 30, 60, lambda _: None)
    app = WatchApp(kept, "http://127.0.0.1:10000", folder)
    async with app.run_test(size=size, notifications=True) as pilot:
        yield Scene(app, pilot, kept, kept.connected())


def played(scene: Callable[[], Any]) -> None:
    asyncio.run(scene())


# The list


def summaries(*states: str, **fields: Any) -> Iterator[Summary]:
    for number, state in enumerate(states):
        yield Summary(f"1-{number}", "2026-01-31T12:00:00.000+00:00", state, **fields)  # type: ignore[arg-type]


def test_running_and_failed_ones_come_first_and_then_the_newest() -> None:
    rows = list(summaries("called", "failed", "answered", "running", "failed"))
    assert [line.summary.id for line in arranged(rows, Filter())] == ["1-3", "1-4", "1-1", "1-2", "1-0"]


def test_rounds_stand_under_their_run_unless_it_is_filtered_out() -> None:
    run, one, other, alone = summaries("passed", "called", "answered", "called", request_id="a", model="narrator")
    run.is_run, one.round, other.round, alone.request_id = True, 1, 2, "b"
    one.model = "coder"
    lines = arranged([run, one, other, alone], Filter())
    assert [(line.summary.id, line.under) for line in lines] == [
        ("1-3", False),
        ("1-0", False),
        ("1-1", True),
        ("1-2", True),
    ]
    assert [(line.summary.id, line.under) for line in arranged([run, one, other], Filter(model="coder"))] == [
        ("1-1", False)
    ]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(), 3),
        (Filter(search="ZÜRICH wetter"), 1),
        (Filter(search="get_w"), 1),
        (Filter(search="alice"), 2),
        (Filter(search="503"), 1),
        (Filter(outcome="failed"), 1),
        (Filter(model="thinker"), 1),
        (Filter(client="bob"), 1),
        (Filter(client="bob", outcome="failed"), 0),
    ],
)
def test_what_is_wanted(wanted: Filter, found: int) -> None:
    rows = list(summaries("called", "failed", "answered", client="alice", model="coder"))
    rows[0].words, rows[0].calls = "Wetter in Zürich?", ["get_weather"]
    rows[1].status = 503
    rows[2].client, rows[2].model = "bob", "thinker"
    assert len(arranged(rows, wanted)) == found


def test_the_page_has_the_same_words_for_how_it_ended() -> None:
    script = content("dom.js").decode()
    words = script.partition("const OUTCOMES = {")[2].partition("}")[0]
    pairs = (line.strip(" ,").split(": ") for line in words.strip().splitlines())
    assert {name: json.loads(value) for name, value in pairs} == OUTCOMES


@pytest.mark.parametrize("width", [1, 20, 64, 160])
def test_a_line_of_the_list_fits(width: int) -> None:
    [line] = arranged(
        list(summaries("called", words="天気は" * 40, model="宇宙" * 20, calls=["a", "b"], repairs=2)), Filter()
    )
    assert "\n" not in "".join(text for text, _ in columns(line, width))


def test_the_list_is_in_the_terminal_and_grows(tmp_path: Path) -> None:
    async def scene() -> None:
        async with terminal(tmp_path) as view:
            await view.until(lambda: "Nothing has come yet" in view.screen)
            first = view.add(STREAM)
            await view.until(lambda: view.ids == [first])
            failed = view.add("backend-error")
            running = view.add("native-mode-repaired", client="bob", ends=False)
            await view.until(lambda: view.ids == [running, failed, first])
            await view.until(lambda: "3 exchanges · 1 running · 1 failed · 1 process" in view.screen)
            lines = view.screen.splitlines()
            assert "failed" in lines[2]
            assert "service_unavailable" in lines[2]
            assert "Wetter in Zürich?" in lines[3]
            view.take(told(3, Tag.ENDED, {"complete": True}))
            await view.until(lambda: view.ids == [failed, running, first])

    played(scene)


def test_search_and_filters_by_keys(tmp_path: Path) -> None:
    async def scene() -> None:
        async with terminal(tmp_path) as view:
            stream, failed = view.add(STREAM), view.add("backend-error", client="bob")
            native = view.add("native-mode-repaired")
            await view.until(lambda: len(view.ids) == 3)
            await view.press("slash", *"paris", "enter")
            await view.until(lambda: view.ids == [native])
            await view.until(lambda: "1 of 3 exchanges" in view.screen)
            await view.until(lambda: "search paris" in view.screen)
            await view.press("x")
            await view.until(lambda: len(view.ids) == 3)
            await view.press("o", "down", "down", "enter")
            await view.until(lambda: view.ids == [failed])
            await view.press("o", "home", "enter", "m")
            await view.until(lambda: "native" in view.screen)
            await view.press("j", "j", "enter")
            await view.until(lambda: view.ids == [native])
            await view.press("x", "u", "j", "enter")
            await view.until(lambda: view.ids == [native, stream])
            await view.until(lambda: "key alice" in view.screen)

    played(scene)


# One exchange


def test_the_four_lanes_stand_side_by_side(tmp_path: Path) -> None:
    async def scene() -> None:
        async with terminal(tmp_path) as view:
            await view.opened(view.add(STREAM))
            await view.until(lambda: view.shown == [1, 2, 3, 4])
            asked, shown, wrote, got = (view.lane(number).text for number in range(1, 5))
            assert "Wetter in Zürich?" in asked
            assert "1 tool\nget_weather" in asked
            assert shown.startswith("backend qwen · prompt mode · hermes")
            assert "# Tools" in shown
            assert "user · as the client sent it" in shown
            assert '<tool_call>↵\n{"name": "get_weather ⟨call start⟩ "' in wrote
            assert "call end" in wrote
            assert '"city": "Zürich"' in got
            assert "finish_reason: tool_calls" in got
            wanted = (
                "coder  called  POST /v1/chat/completions",
                "status 200",
                "the model writes",
                "1 The client asked",
            )
            await view.until(lambda: all(words in view.screen for words in wanted))

    played(scene)


def test_what_was_wrong_is_said(tmp_path: Path) -> None:
    async def scene() -> None:
        async with terminal(tmp_path) as view:
            await view.opened(view.add("second-try"))
            await view.until(lambda: "Diagnosis" in view.screen)
            await view.until(lambda: "✗ The request demands a call, and the model made none" in view.screen)
            await view.until(lambda: "asked once more" in view.lane(3).text)
            picture = view.picture("tui")
            assert "url(http" not in picture.replace(chr(34), ""), "it loads nothing"
            assert len(picture.encode()) < 150_000
            await view.opened(view.add("backend-error"))
            await view.until(lambda: "error: There is no connection to the backend" in view.screen)
            await view.until(lambda: "service_unavailable" in view.lane(4).text)

    played(scene)


def test_what_was_repaired_is_said_where_it_was_written() -> None:
    spans = [Span("arguments", "{'a': 1}", '{"a": 1}', 0, {"arguments": 2}), Span("marker", "\n", None, 0)]
    repair = Repair(0, "`arguments` with single quotes: repaired", "{'a': 1}", '{"a": 1}')
    written = Written(0, spans, repairs=[repair])
    assert "".join(text for text, _ in spans_text(spans)) == "{'a': 1}→{\"a\": 1} ⟨arguments ×2⟩ ↵\n"
    [row] = summaries("called")
    said = "".join(text for text, _ in about(Viewed(row, Lanes(written=[written]), [], ended=True), [row], 100))
    assert "✓ The model wrote arguments with single quotes: repaired. {'a': 1} → {\"a\": 1}" in said
    assert "Rounds of this run" in said


def test_the_open_one_grows_while_its_model_writes(tmp_path: Path) -> None:
    async def scene() -> None:
        async with terminal(tmp_path) as view:
            number, document = 7, DOCUMENTS[STREAM]
            data = frames_of(document, number, began="2026-01-31T12:00:00.000+00:00", ends=False)
            frames = list(Frames().feed(data))
            terms = [frame for frame in frames if frame.tag is Tag.TERMS]
            rest = [frame for frame in frames if frame.tag not in (Tag.TERMS, Tag.BEGAN)]
            head = len(list(kept_of(document))) // 3
            for frame in [frames[0], *terms, *rest[:head]]:
                view.kept.take(1, frame)
            await view.until(lambda: len(view.ids) == 1)
            await view.press("j", "enter")
            await view.until(lambda: view.lane(3).text not in ("", "nothing yet\n"))
            lengths = [len(view.lane(3).text)]
            for frame in rest[head:]:
                view.kept.take(1, frame)
            await view.until(lambda: len(view.lane(3).text) > lengths[0])
            await view.until(lambda: "running" in view.screen)
            view.take(told(number, Tag.ENDED, {"complete": True}))
            await view.until(lambda: "coder  called" in view.screen)

    played(scene)


def test_one_lane_alone_and_all_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with terminal(tmp_path) as view:
            await view.opened(view.add(STREAM))
            await view.press("2")
            await view.until(lambda: view.shown == [2])
            await view.press("4")
            await view.until(lambda: view.shown == [4])
            await view.press("4")
            await view.until(lambda: view.shown == [1, 2, 3, 4])
            await view.press("tab")
            await view.until(lambda: view.lane(1).has_focus)
            await view.press("left")
            await view.until(lambda: view.lane(4).has_focus)

    played(scene)


def test_in_a_narrow_terminal_lanes_take_turns(tmp_path: Path) -> None:
    async def scene() -> None:
        async with terminal(tmp_path, NARROW) as view:
            await view.opened(view.add(STREAM))
            await view.until(lambda: view.shown == [3])
            await view.until(lambda: "2 The model was shown" in view.screen)
            await view.press("1")
            await view.until(lambda: view.shown == [1])
            await view.press("right")
            await view.until(lambda: view.shown == [2])
            await view.press("shift+tab", "shift+tab")
            await view.until(lambda: view.shown == [4])
            await view.until(lambda: view.rows.size.width == 0)
            await view.press("escape")
            await view.until(lambda: view.rows.size.width > 70)
            await view.pilot.resize_terminal(220, 45)
            await view.press("enter")
            await view.until(lambda: view.shown == [1, 2, 3, 4])
            await view.until(lambda: view.rows.size.width > 50)

    played(scene)


def test_the_next_one_opens_where_one_is_open(tmp_path: Path) -> None:
    async def scene() -> None:
        async with terminal(tmp_path) as view:
            older, newer = view.add(STREAM), view.add("native-mode-repaired")
            await view.opened(newer)
            await view.press("j")
            await view.until(lambda: view.rows.selected == older)
            await view.until(lambda: "mode prompt" in view.screen)
            await view.press("k")
            await view.until(lambda: "mode native" in view.screen)

    played(scene)


def test_every_recording_can_be_opened_however_small_the_terminal(tmp_path: Path) -> None:
    async def scene() -> None:
        async with terminal(tmp_path, (20, 5)) as view:
            for name in DOCUMENTS:
                await view.opened(view.add(name))

    played(scene)


def test_what_was_said_is_text_and_never_a_command_to_the_terminal(tmp_path: Path) -> None:
    assert plain("\x1b]52;c;AAAA\x07 [bold]a[/] \u202eb\x9b2J\x7f\n\tc") == (
        "␛]52;c;AAAA␇ [bold]a[/] <U+202E>b<U+009B>2J␡\n\tc"
    )

    async def scene() -> None:
        async with terminal(tmp_path) as view:
            view.add(STREAM, client="\x1b[2Jalice[red]")
            row = view.kept.all()[0].summary
            row.words, row.model, row.calls = "\x1b]0;evil\x07[/]", "\x1b[31mcoder", ["\x9bcall"]
            await view.opened(row.id)
            await view.until(lambda: "␛[31mcoder  called" in view.screen)
            both = view.screen
            await view.press("escape")
            await view.until(lambda: "␛]0;evil␇[/]" in view.screen)
            both += view.screen
            await view.press("u")
            await view.until(lambda: "␛[2Jalice[red]" in view.screen)
            both += view.screen
            assert not set(both) & {"\x1b", "\x07", "\x9b"}
            assert "␛[31mcoder" in both
            assert "␛]0;evil␇[/]" in both
            assert "␛[2Jalice[red]" in both

    played(scene)


# What is taken along


def test_a_recording_a_report_and_a_command_are_saved(tmp_path: Path) -> None:
    async def scene() -> None:
        async with terminal(tmp_path) as view:
            await view.press("s")
            await view.until(lambda: "Choose an exchange first" in view.screen)
            await view.opened(view.add(STREAM))
            await view.press("s", "s", "e", "c")
            await view.until(lambda: "curl -sSN http://127.0.0.1:10000/v1/chat/completions" in view.screen)
            assert view.app.clipboard.startswith("curl -sSN")
            await view.press("s")
            await view.until(lambda: len(list(tmp_path.iterdir())) == 4)
            await view.until(lambda: "The command is saved" in view.screen)

    played(scene)
    files = {path.suffix: path for path in sorted(tmp_path.iterdir(), reverse=True)}
    assert {path.stat().st_mode & 0o777 for path in files.values()} == {0o600}
    document = DOCUMENTS[STREAM]
    assert Document.read(files[".json"].read_bytes()).entries == document.entries
    assert len(list(tmp_path.glob("*.json"))) == 2, "nothing is written over"
    assert b"alice" not in files[".html"].read_bytes()
    assert "$API_KEY" in files[".sh"].read_text() or "authorization" not in str(document.entries)


def test_where_nothing_can_be_saved_it_says_so(tmp_path: Path) -> None:
    async def scene() -> None:
        async with terminal(tmp_path / "not" / "there") as view:
            await view.opened(view.add(STREAM))
            await view.press("s")
            await view.until(lambda: "It can't be saved" in view.screen)

    played(scene)


def test_a_replay_says_whether_it_is_the_same(tmp_path: Path) -> None:
    async def scene() -> None:
        async with terminal(tmp_path) as view:
            await view.opened(view.add(STREAM))
            await view.press("r")
            await view.until(lambda: "The same as recorded, byte by byte" in view.screen)
            identity = view.add("native-mode-repaired", ends=False)
            await view.opened(identity)
            await view.press("r")
            await view.until(lambda: "It hasn't ended yet." in view.screen)

    played(scene)


def test_the_keys_are_told_and_every_one_of_them_is_there(tmp_path: Path) -> None:
    async def scene() -> None:
        async with terminal(tmp_path) as view:
            view.add(STREAM)
            await view.press("question_mark")
            await view.until(lambda: "one lane alone, and all again" in view.screen)
            await view.press("escape")
            await view.until(lambda: len(view.app.screen_stack) == 1 and isinstance(view.app.focused, Rows | Input))
            await view.press("q")
            await view.until(lambda: not view.app.is_running)

    played(scene)
    bound = {key for binding in WatchApp.BINDINGS for key in getattr(binding, "key", "").split(",")}
    names = {"/": "slash", "?": "question_mark"}
    told_of = {names.get(word, word) for keys, _ in KEYS for word in keys.split() if len(word) == 1 and word.isascii()}
    assert told_of - {"1", "4"} <= bound


# In a real terminal


@contextmanager
def in_terminal(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[bytes], bytes], int]]:
    """A program that has a terminal; yields it, what reads from there until something was written, and the terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    said = bytearray()

    def until(wanted: bytes) -> bytes:
        while wanted not in said or select.select([ours], [], [], 0)[0]:
            assert select.select([ours], [], [], 60)[0], f"it never wrote {wanted!r}: {bytes(said[-2000:])!r}"
            said.extend(os.read(ours, 1 << 16))
        return bytes(said)

    environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    command = [*EXTPROC, "watch", "--sockets", str(folder), "--tui"]
    try:
        with subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=folder, start_new_session=True
        ) as process:
            try:
                yield process, until, ours
            finally:
                if process.poll() is None:
                    process.kill()
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("ends", ["by its key", "by a signal"])
def test_a_terminal_is_left_as_it_was(tmp_path: Path, ends: str) -> None:
    with in_terminal(tmp_path) as (process, until, terminal_):
        before = termios.tcgetattr(terminal_)
        until(b"Nothing has come yet")
        assert termios.tcgetattr(terminal_) != before, "it has keys for itself"
        feeder = Feeder(tmp_path)
        feeder.say(frames_of(DOCUMENTS[STREAM], 1, began="2026-01-31T12:00:00.000+00:00"))
        if ends == "by its key":
            os.write(terminal_, b"q")
        else:
            process.send_signal(signal.SIGTERM)
        until(b"\x1b[?1049l")
        assert process.wait(30) == 0
        said = until(b"\x1b[?1049l")  # all of it, now that nothing more comes
        feeder.close()
        assert termios.tcgetattr(terminal_) == before
        assert said.rindex(b"\x1b[?1049h") < said.rindex(b"\x1b[?1049l"), "the other screen is left"
        assert said.rindex(b"\x1b[?25h") > said.rindex(b"\x1b[?25l"), "the cursor is there"
        assert b"Traceback" not in said
    assert list(tmp_path.iterdir()) == [], "and its socket is gone"


def test_without_a_terminal_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    refused = run("watch", "--sockets", tmp_path, "--tui")
    assert refused.status == 2
    assert "--tui needs a terminal" in refused.stderr


def test_without_its_package_it_says_which(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in [name for name in sys.modules if name.startswith(("extproc.watch.tui", "textual"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["watch", "--sockets", ".", "--tui"]) == 1
    assert f"--tui needs textual; install it with {by_pip('tui')}" in capsys.readouterr().err
