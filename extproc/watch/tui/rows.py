"""The list: one line for each exchange, of which only those that can be seen are drawn, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from extproc.watch.listing import Line, outcome_of
from extproc.watch.tui.words import count, duration, one_line, plain

_SIGNS = {"running": "▶", "failed": "✗", "invalid": "!", "left": "↩", "called": "✓", "answered": "·", "passed": "→"}


class Rows(ScrollView, can_focus=True):
    """The list, and which of it is selected."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"rows--{name}" for name in (*_SIGNS, "faint", "plain", "selected")}
    DEFAULT_CSS = """
    Rows { background: $surface; }
    Rows > .rows--plain { color: $foreground; }
    Rows > .rows--faint { color: $foreground-muted; }
    Rows > .rows--running { color: $accent; text-style: bold; }
    Rows > .rows--failed { color: $error; text-style: bold; }
    Rows > .rows--invalid, Rows > .rows--left { color: $warning; text-style: bold; }
    Rows > .rows--called { color: $success; }
    Rows > .rows--answered, Rows > .rows--passed { color: $foreground-muted; }
    Rows > .rows--selected { background: $primary-muted; }
    Rows:focus > .rows--selected { background: $primary 60%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
        Binding("enter", "open", show=False),
    ]

    class Opened(Message):
        """This exchange is to be shown."""

        def __init__(self, identity: str) -> None:
            super().__init__()
            self.identity = identity

    def __init__(self) -> None:
        super().__init__(id="rows")
        self.lines: Sequence[Line] = ()
        self.selected: str | None = None
        self._places: dict[str, int] = {}

    def show(self, lines: Sequence[Line]) -> None:
        """Show these."""
        self.lines = lines
        self._places = {line.summary.id: place for place, line in enumerate(lines)}
        self.virtual_size = Size(0, len(lines))
        self.refresh()

    def move(self, by: int) -> str | None:
        """Select the one so many lines on; its id, or None in an empty list."""
        if not self.lines:
            return None
        now = self._places.get(self.selected or "")
        place = now + by if now is not None else 0 if by > 0 else len(self.lines) - 1
        place = max(0, min(place, len(self.lines) - 1))
        self.select(self.lines[place].summary.id)
        return self.selected

    def select(self, identity: str) -> None:
        """Select this one, and have it in sight."""
        self.selected = identity
        if (place := self._places.get(identity)) is not None:
            self.scroll_to_region(Region(0, place, 1, 1), animate=False, force=True)
        self.refresh()

    def action_move(self, by: int) -> None:
        self.move(by)

    def action_page(self, pages: int) -> None:
        self.move(pages * max(self.size.height - 1, 1))

    def action_open(self) -> None:
        if self.selected not in self._places:
            self.move(1)
        if self.selected in self._places:
            self.post_message(self.Opened(self.selected))

    def on_click(self, event: object) -> None:
        place = round(self.scroll_y) + getattr(event, "y", 0)
        if 0 <= place < len(self.lines):
            self.select(self.lines[place].summary.id)
            self.action_open()

    def render_line(self, y: int) -> Strip:
        """The line that stands there now."""
        place, width = round(self.scroll_y) + y, self.size.width
        background = self.rich_style
        if place >= len(self.lines):
            return Strip.blank(width, background)
        line = self.lines[place]
        if line.summary.id == self.selected:
            background += self._style("selected", background=True)
        segments = [Segment(text, background + self._style(name)) for text, name in columns(line, width)]
        return Strip(segments).adjust_cell_length(width, background)

    def _style(self, name: str, *, background: bool = False) -> Style:
        """Without its background, which is the line's, or that alone."""
        style = self.get_component_rich_style(f"rows--{name}", partial=True)
        return Style(bgcolor=style.bgcolor) if background else Style(color=style.color, bold=style.bold)


def columns(line: Line, width: int) -> list[tuple[str, str]]:
    """The texts of a line of so many columns, as a terminal may have them, each with the name of its style."""
    summary = line.summary
    model = plain(f"└ round {summary.round}" if line.under else summary.model or "?")
    took = "…" if summary.state == "running" else duration(summary.ms)
    room = max(min(24, width // 5), 8)
    texts = [
        (f"{_SIGNS[summary.state]} ", summary.state),
        (f"{_time(summary.began)} ", "faint"),
        (f"{_column(model, room)} ", "plain"),
        (f"{outcome_of(summary):9} ", summary.state),
    ]
    said = summary.error if summary.error and summary.state == "failed" else summary.words
    middle = [(plain(", ".join(summary.calls[:3])), "called"), (count(summary.repairs, "repair"), "invalid")]
    middle = [
        (text, style) for (text, style), there in zip(middle, (summary.calls, summary.repairs), strict=True) if there
    ]
    left = width - sum(cell_len(text) for text, _ in texts) - 9
    for text, style in [*middle, (plain(one_line(said)), "plain")]:
        cut = _cut(text, max(left - 1, 0))
        texts.append((f"{cut} ", style))
        left -= cell_len(cut) + 1
    return [*texts, (" " * max(left, 0), "plain"), (f"{took:>8} ", "faint")]


def _cut(text: str, room: int) -> str:
    """Of so many columns at most: some characters take two."""
    return text if cell_len(text) <= room else f"{set_cell_size(text, room - 1)}…" if room > 0 else ""


def _column(text: str, room: int) -> str:
    return set_cell_size(_cut(text, room), room)


def _time(began: str) -> str:
    """Of the day, where the terminal is."""
    return f"{datetime.fromisoformat(began).astimezone():%H:%M:%S}"
