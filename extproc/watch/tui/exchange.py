"""One exchange: what it was and what was found above, and beneath it the four lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from extproc.watch.summary import Summary
from extproc.watch.tui.about import about
from extproc.watch.tui.lane_text import TITLES, lane
from extproc.watch.tui.words import FAINT, Part, content_of
from extproc.watch.viewed import Viewed

SIDE_BY_SIDE = 120
"""Columns from which on the four lanes stand beside each other."""
FIRST = 3
"""The lane that is shown where there is room for one: what the model wrote."""


class Lane(VerticalScroll, can_focus=True):
    """One of the four."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab,right", "beside(1)", show=False),
        Binding("shift+tab,left", "beside(-1)", show=False),
    ]

    def __init__(self, number: int) -> None:
        """`number` is 1 to 4."""
        super().__init__(Static(), id=f"lane-{number}", classes="lane")
        self.border_title = f"{number} {TITLES[number - 1]}"
        self._drawn: list[Part] = []

    def show(self, parts: list[Part], *, follow: bool) -> None:
        """Draw this; `follow`: who looks at its end goes on to do so."""
        if parts == self._drawn:
            return
        at_end = self.scroll_y >= self.max_scroll_y - 1
        self._drawn = parts
        self.query_one(Static).update(content_of(parts))
        if follow and at_end:
            self.scroll_end(animate=False)

    def action_beside(self, by: int) -> None:
        self.query_ancestor(ExchangeView).beside(by)

    @property
    def text(self) -> str:
        """What it says."""
        return "".join(text for text, _ in self._drawn)


class ExchangeView(Vertical):
    """All of it."""

    DEFAULT_CSS = """
    ExchangeView #about { height: auto; max-height: 40%; padding: 0 1; }
    ExchangeView #tabs { height: 1; padding: 0 1; display: none; }
    ExchangeView #lanes { height: 1fr; }
    ExchangeView .lane { width: 1fr; height: 1fr; border: round $surface-lighten-2; }
    ExchangeView .lane { border-title-color: $foreground-muted; }
    ExchangeView .lane:focus { border: round $accent; border-title-color: $accent; }
    ExchangeView.alone .lane { display: none; }
    ExchangeView.alone .lane.chosen { display: block; }
    ExchangeView.narrow #tabs { display: block; }
    ExchangeView.narrow .lane { display: none; }
    ExchangeView.narrow .lane.chosen { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(id="exchange")
        self.chosen = FIRST
        """The lane that is shown where it is shown alone."""
        self.view: Viewed | None = None
        self._rounds: Sequence[Summary] = ()

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="about", can_focus=False):
            yield Static(id="about-text")
        yield Static(id="tabs")
        with Horizontal(id="lanes"):
            for number in range(1, 5):
                yield Lane(number)

    def on_mount(self) -> None:
        self._choose(FIRST)

    def begin(self) -> None:
        """Another one is to be shown: from its beginning."""
        self.view = None
        self.query_one("#about", VerticalScroll).scroll_home(animate=False)
        self.query_one("#about-text", Static).update(content_of([("…", FAINT)]))
        for each in self.query(Lane):
            each.show([], follow=False)
            each.scroll_home(animate=False)

    def show(self, view: Viewed, rounds: Sequence[Summary]) -> None:
        """Draw it, as far as it has come. `rounds` are those of a run."""
        self.view, self._rounds = view, rounds
        self._draw_about()
        for number, each in enumerate(self.query(Lane)):
            each.show(lane(view, number), follow=not view.ended)

    def trouble(self, words: str) -> None:
        """It can't be shown: why."""
        self.query_one("#about-text", Static).update(content_of([(words, "$error")]))

    def on_resize(self) -> None:
        self.set_class(self.size.width < SIDE_BY_SIDE, "narrow")
        if self.view is not None:
            self._draw_about()

    def _draw_about(self) -> None:
        assert self.view is not None  # else there is nothing to draw
        parts = about(self.view, self._rounds, max(self.size.width - 4, 10))
        self.query_one("#about-text", Static).update(content_of(parts))

    def alone(self, number: int) -> None:
        """This lane alone, or all where it is already; where there is room for one, this one."""
        if not self.has_class("narrow"):
            self.set_class(not (self.has_class("alone") and self.chosen == number), "alone")
        self._choose(number)

    def beside(self, by: int) -> None:
        """To the next lane, or to the one before."""
        focused = next((number for number, each in enumerate(self.query(Lane), 1) if each.has_focus), self.chosen)
        self._choose((focused - 1 + by) % len(TITLES) + 1)

    def _choose(self, number: int) -> None:
        self.chosen = number
        for place, each in enumerate(self.query(Lane), 1):
            each.set_class(place == number, "chosen")
        tabs = [
            (f" {place} {title} ", "reverse" if place == number else FAINT) for place, title in enumerate(TITLES, 1)
        ]
        self.query_one("#tabs", Static).update(content_of(tabs))
        if self.is_on_screen:
            self.focus_lane()

    def focus_lane(self) -> None:
        """The keys that scroll are its."""
        self.query_one(f"#lane-{self.chosen}", Lane).focus()
