"""What is asked and told in between: which model, which command, which keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from extproc.watch.tui.words import FAINT, HEADING, Part, content_of

_CSS = """
{name} {{ align: center middle; }}
{name} > .box {{ width: 90%; max-width: 110; height: auto; max-height: 90%; }}
{name} > .box {{ border: round $accent; padding: 0 1; background: $surface; }}
"""


class Choose(ModalScreen[str | None]):
    """One of several values; comes to None if it is left as it was."""

    CSS = (
        _CSS.format(name="Choose")
        + "Choose > .box { max-width: 50; } OptionList { border: none; height: auto; max-height: 20; }"
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", show=False),
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
    ]

    def __init__(self, title: str, values: Sequence[tuple[str, str]], now: str) -> None:
        """`values`: each with what it is called."""
        super().__init__()
        self._title = title
        self._values = values
        self._now = now

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = self._title
            yield OptionList(*(Option(content_of([(name, "")])) for _, name in self._values))

    def on_mount(self) -> None:
        places = [value for value, _ in self._values]
        self.query_one(OptionList).highlighted = places.index(self._now) if self._now in places else 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._values[event.option_index][0])

    def action_down(self) -> None:
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        self.query_one(OptionList).action_cursor_up()


class Command(ModalScreen[bool]):
    """A command that was sent to the clipboard, to be seen; comes to whether it is to be saved in a file too."""

    CSS = _CSS.format(name="Command")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,c", "dismiss(False)", show=False),
        Binding("s", "dismiss(True)", show=False),
    ]

    def __init__(self, command: str) -> None:
        super().__init__()
        self._command = command

    def compose(self) -> ComposeResult:
        told = (
            "It was sent to the terminal's clipboard, which not every terminal has (OSC 52). Keys are not in it. "
            "`s` saves it in a file, `Esc` closes this.\n\n"
        )
        with VerticalScroll(classes="box") as box:
            box.border_title = "The request as a command"
            yield Static(content_of([(told, FAINT), (self._command, "")]))


class Told(ModalScreen[None]):
    """Something to be read."""

    CSS = _CSS.format(name="Told")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", show=False)]

    def __init__(self, title: str, parts: list[Part]) -> None:
        super().__init__()
        self._title = title
        self._parts = parts

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as box:
            box.border_title = self._title
            yield Static(content_of(self._parts))


def keys_told(keys: Sequence[tuple[str, str]], url: str | None) -> list[Part]:
    """All keys, and where the page is, if there is one."""
    parts: list[Part] = []
    for key, words in keys:
        parts += [(f"{key:12}", "bold"), (f"{words}\n", "")]
    return [*parts, ("\nThe page\n", HEADING), (url, "")] if url is not None else parts
