"""The terminal's view: the list, one exchange beside it or in its place, and the keys."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from extproc.recording.document import RecordingError
from extproc.watch.curl import curl
from extproc.watch.following import changes, followed
from extproc.watch.listing import OUTCOMES, URGENT, Filter, arranged, rounds_of
from extproc.watch.summary import Summary
from extproc.watch.tui.dialogs import Choose, Command, Told, keys_told
from extproc.watch.tui.exchange import ExchangeView
from extproc.watch.tui.rows import Rows
from extproc.watch.tui.saving import save
from extproc.watch.tui.words import FAINT, Part, content_of, count
from extproc.watch.viewed import name_of, replayed, report
from extproc.watch.watched import Exchanges, Watched

_COSTLY = 4
"""The list is arranged again after so many times as long as it took."""
_WITH_LIST = 200
"""Columns from which on the list stands beside an exchange."""

_EMPTY = (
    "Nothing has come yet. Send a request: a processor connects with its first one, if its configuration says "
    "watch: true."
)

KEYS = (
    ("j k", "next and previous exchange; ↓ ↑ in the list, PgDn PgUp by pages"),
    ("g G", "first, last"),
    ("Enter, Esc", "open; back to the list, or out of what is asked"),
    ("1 to 4", "one lane alone, and all again; in a narrow terminal that lane"),
    ("Tab, ← →", "the next lane, the one before; ↓ ↑ scroll it"),
    ("/", "search: words of what was said last, model, path, id, error, key, called tools"),
    ("o m u", "filter by outcome, by model, by whose key it was"),
    ("x", "without search and filters"),
    ("r", "replay: this version reads it again, byte by byte, and says whether the same comes of it"),
    ("s", "save a recording, for `extproc replay` and `extproc diagnose`"),
    ("e", "save one HTML file, for a bug report"),
    ("c", "copy the request as a curl command, and show it"),
    ("?", "these keys"),
    ("q", "quit; with the program, all that was kept is gone"),
)
_FOOTER: list[Part] = [
    part
    for key, words in (
        ("Enter", "open"),
        ("Esc", "list"),
        ("/", "search"),
        ("o m u", "filters"),
        ("1-4", "lanes"),
        ("s", "save"),
        ("e", "HTML"),
        ("c", "curl"),
        ("r", "replay"),
        ("?", "keys"),
        ("q", "quit"),
    )
    for part in ((f"{key} ", "bold $accent"), (f"{words}  ", ""))
]


class WatchApp(App[None]):
    """All of it."""

    TITLE = "extproc watch"
    HORIZONTAL_BREAKPOINTS = [(0, "-one"), (_WITH_LIST, "-both")]  # noqa: RUF012 - the base class has it as its own
    CSS = """
    #status, #keys { height: 1; padding: 0 1; background: $panel; }
    #search { display: none; height: 1; border: none; padding: 0 1; }
    #search.asked { display: block; }
    #list { width: 1fr; }
    #empty { display: none; padding: 1 2; color: $foreground-muted; height: auto; }
    #exchange { display: none; width: 1fr; }
    .open #list { display: none; }
    .open #exchange { display: block; }
    Screen.-both .open #list { display: block; width: 64; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
        Binding("g", "move(-1000000)", show=False),
        Binding("G", "move(1000000)", show=False),
        Binding("escape", "leave", show=False),
        Binding("slash", "search", show=False),
        Binding("o", "choose('outcome')", show=False),
        Binding("m", "choose('model')", show=False),
        Binding("u", "choose('client')", show=False),
        Binding("x", "all", show=False),
        *(Binding(str(number), f"lane({number})", show=False) for number in range(1, 5)),
        Binding("r", "replay", show=False),
        Binding("s", "save", show=False),
        Binding("e", "report", show=False),
        Binding("c", "curl", show=False),
        Binding("question_mark", "keys", show=False),
        Binding("q,ctrl+c", "quit", show=False),
    ]

    def __init__(self, exchanges: Exchanges, gateway: str, folder: Path, url: str | None = None) -> None:
        """`gateway` is its URL, for commands; `folder` is where files are saved; `url` is that of the page, if there
        is one too."""
        super().__init__()
        self._exchanges = exchanges
        self._gateway = gateway
        self._folder = folder
        self._url = url
        self._filter = Filter()
        self._shown: Watched | None = None
        # Held, for what asks something in between is a screen of its own, and what is found on the screen its parts.
        self._status = Static(id="status")
        self._search = Input(placeholder="search", id="search", compact=True)
        self._empty = Static(_EMPTY, id="empty")
        self._rows = Rows()
        self._exchange = ExchangeView()
        self._panes = Horizontal(Vertical(self._empty, self._rows, id="list"), self._exchange)

    def compose(self) -> ComposeResult:
        yield self._status
        yield self._search
        yield self._panes
        yield Static(content_of(_FOOTER), id="keys")

    def on_mount(self) -> None:
        self._rows.focus()
        self.run_worker(self._follow_list(), group="list")
        if self._url is not None:
            self._say(f"The page is at {self._url}", seconds=30)

    # What changes

    async def _follow_list(self) -> None:
        async with aclosing(changes(self._exchanges)) as all_changes:
            async for some in all_changes:
                if some is not None:
                    began = time.monotonic()
                    self._arrange()
                    await asyncio.sleep(_COSTLY * (time.monotonic() - began))
                    self._draw_again({watched.summary.id for watched in some.changed})

    async def _follow(self, watched: Watched) -> None:
        try:
            async with aclosing(followed(self._exchanges, watched)) as views:
                async for view in views:
                    if view is not None:
                        self._exchange.show(view, self._rounds(watched))
        except (RecordingError, ValueError) as error:
            self._exchange.trouble(f"It can't be shown: {error}")

    def _arrange(self) -> None:
        summaries = [watched.summary for watched in self._exchanges.all()]
        lines = arranged(summaries, self._filter)
        self._rows.show(lines)
        self._empty.display = not summaries
        numbers = self._exchanges.numbers()
        shown, there = len(lines), count(len(summaries), "exchange")
        told = [there if shown == len(summaries) else f"{shown:,} of {there}"]
        states = Counter[str](summary.state for summary in summaries)
        told += [f"{states[state]} {OUTCOMES[state]}" for state in URGENT if states[state]]
        told += [
            f"{numbers[each]} {words}"
            for each, words in (("lost", "not shown"), ("forgotten", "forgotten"))
            if numbers[each]
        ]
        told.append(count(numbers["processors"], "process", "processes"))
        self._status.update(content_of([("extproc watch  ", "bold"), (" · ".join(told), ""), *self._wanted_parts()]))

    def _wanted_parts(self) -> list[Part]:
        wanted = self._filter
        told = {
            "search": wanted.search,
            "outcome": OUTCOMES[wanted.outcome] if wanted.outcome else "",
            "model": wanted.model,
            "key": wanted.client,
        }
        return [
            part for name, value in told.items() if value for part in ((f"   {name} ", FAINT), (value, "bold $accent"))
        ]

    def _rounds(self, watched: Watched) -> Sequence[Summary]:
        if not watched.summary.is_run:
            return ()
        return rounds_of(watched.summary, (each.summary for each in self._exchanges.all()))

    def _draw_again(self, changed: set[str]) -> None:
        """What the open one's summary tells may be found out after its end; a run's rounds come after it."""
        watched, exchange = self._shown, self._exchange
        if watched is None or exchange.view is None or exchange.view.summary is not watched.summary:
            return
        if watched.summary.id in changed or watched.summary.is_run:
            exchange.show(exchange.view, self._rounds(watched))

    # Moving about

    def on_rows_opened(self, event: Rows.Opened) -> None:
        self._open(event.identity)
        self.call_after_refresh(self._exchange.focus_lane)

    def _open(self, identity: str) -> None:
        watched = self._exchanges.get(identity)
        if watched is None:
            self._say("That exchange isn't here any more.")
            return
        self._shown = watched
        self._panes.add_class("open")
        self._exchange.begin()
        self.run_worker(self._follow(watched), group="one", exclusive=True)

    def action_move(self, by: int) -> None:
        """In the list; where an exchange is open, to the one there."""
        identity = self._rows.move(by)
        if identity is not None and self._panes.has_class("open"):
            self._open(identity)

    def action_leave(self) -> None:
        """Out of the search, or to the list."""
        search = self._search
        if not search.has_focus:
            self.workers.cancel_group(self, "one")
            self._shown = None
            self._panes.remove_class("open")
        search.set_class(bool(search.value), "asked")
        self._rows.focus()

    def action_lane(self, number: int) -> None:
        if self._shown is not None:
            self._exchange.alone(number)

    # What is wanted

    def action_search(self) -> None:
        self._panes.remove_class("open")
        search = self._search
        search.add_class("asked")
        search.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._want(replace(self._filter, search=event.value))

    def on_input_submitted(self) -> None:
        self.action_leave()

    def action_choose(self, name: str) -> None:
        """Ask which outcome, model or key."""
        title = {"outcome": "outcome", "model": "model", "client": "key"}[name]
        values: list[tuple[str, str]] = [("", f"any {title}")]
        if name == "outcome":
            values += list(OUTCOMES.items())
        else:
            found = {getattr(watched.summary, name) for watched in self._exchanges.all()}
            values += [(value, value) for value in sorted(filter(None, found))]

        def chosen(value: str | None) -> None:
            if value is not None:
                self._want(replace(self._filter, **{name: value}))

        self.push_screen(Choose(title, values, getattr(self._filter, name)), chosen)

    def action_all(self) -> None:
        self._search.value = ""
        self._want(Filter())
        self.action_leave()

    def _want(self, wanted: Filter) -> None:
        self._filter = wanted
        self._arrange()

    # What one can do with it

    def _chosen(self) -> Watched | None:
        """The open one, or the selected one."""
        watched = self._shown or self._exchanges.get(self._rows.selected or "")
        if watched is None:
            self._say("Choose an exchange first: j, k.")
        return watched

    async def action_save(self) -> None:
        await self._take_along(lambda watched: watched.document().written(), ".json", "The recording is saved")

    async def action_report(self) -> None:
        await self._take_along(report, ".html", "The report is saved, one file, to be opened anywhere")

    async def _take_along(self, make: Callable[[Watched], bytes], suffix: str, words: str) -> None:
        if (watched := self._chosen()) is not None:
            self._save(watched, suffix, await asyncio.to_thread(make, watched), words)

    def _save(self, watched: Watched, suffix: str, data: bytes, words: str) -> None:
        try:
            path = save(self._folder, name_of(watched), suffix, data)
        except OSError as error:
            self.notify(f"It can't be saved in {self._folder}: {error.strerror}", severity="error", markup=False)
        else:
            self._say(f"{words}: {path}")

    async def action_curl(self) -> None:
        if (watched := self._chosen()) is None:
            return
        command = curl(await asyncio.to_thread(watched.document), self._gateway)
        self.copy_to_clipboard(command)

        def closed(wanted: bool | None) -> None:
            if wanted:
                self._save(watched, ".sh", f"{command}\n".encode(), "The command is saved")

        self.push_screen(Command(command), closed)

    async def action_replay(self) -> None:
        if (watched := self._chosen()) is None:
            return
        found = await asyncio.to_thread(replayed, watched)
        if found.trouble:
            self._say(found.trouble)
        elif not found.place:
            self._say(f"The same as recorded, byte by byte, by this version ({count(found.steps, 'step')}).")
        else:
            parts: list[Part] = [
                (f"{found.place}\n\n", "bold"),
                (found.recorded, "$error"),
                ("\n→\n", FAINT),
                (found.now, "$success"),
            ]
            self.push_screen(Told("Not the same by this version", parts))

    def action_keys(self) -> None:
        self.push_screen(Told("Keys", keys_told(KEYS, self._url)))

    def _say(self, words: str, seconds: float | None = None) -> None:
        self.notify(words, timeout=seconds, markup=False)
