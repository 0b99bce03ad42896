"""What may become a call: its text and what is known of it, until it has shown what it is."""

from __future__ import annotations

import re

from extproc.toolcalls.line import Line
from extproc.toolcalls.table import (
    Behind,
    Body,
    Format,
    Gap,
    Header,
    Marker,
    Prose,
    Rules,
    Sink,
    Transition,
    Transitions,
)

_LONGEST_HEAD, _MOST_WORDS = 200, 4
"""Of a call that is cut off before its first argument, without its markers: a name, a key, and what pads them."""

_TOKEN = re.compile(r"<[|｜]|\]<\]")  # nobody writes such a marker but to make a call

_LONGEST_LANGUAGE = 20

# The beginning of a marker that nobody writes for another reason: `<|t`, `<tool_`; but not `<`, `<tool` or `fun`.
_UNMISTAKABLE = re.compile(r"[^\w\s]{2,}\w|[^\w\s][^\W_]+[^\sa-zA-Z0-9]")


class Candidate:
    """The text from the first marker on, as (piece, whether it is a marker), and where it stands."""

    __slots__ = ("_behind_blank", "_pieces", "behind_call", "marked", "origin")

    def __init__(self) -> None:
        self.origin: Prose | None = None
        """The text that it stands in."""
        self.marked = False
        """A marker since then announces a call."""
        self.behind_call = False
        """Nothing but what parts calls stands between it and the call before it."""
        self._behind_blank = False
        self._pieces: list[tuple[str, bool]] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def begin(self, origin: Prose | None, line: Line, *, behind_call: bool) -> None:
        """`origin` is None where the text before it is over."""
        self.origin = origin
        self.marked = False
        self.behind_call = behind_call
        self._behind_blank = line.last == " " and not line.blank

    def add(self, text: str) -> None:
        self._pieces.append((text, False))

    def add_marker(self, text: str) -> None:
        self._pieces.append((text, True))

    def cut(self, size: int) -> None:
        """Take away so much of its end, which is no marker."""
        while size > 0:
            text, _ = self._pieces.pop()
            if len(text) > size:
                self.add(text[: len(text) - size])
            size -= len(text)

    def add_unfinished(self, header: str, *, hidden: bool) -> None:
        """A header with which the output ends. Behind a fence, one word is the language of what never came."""
        is_text = not hidden and (len(header.split()) > 1 or len(header) > _LONGEST_LANGUAGE)
        (self.add if is_text else self.add_marker)(header)

    def clear(self) -> None:
        self._pieces.clear()

    def text(self, *, markers: bool = True) -> str:
        return "".join(piece for piece, is_marker in self._pieces if markers or not is_marker)

    def may_be_head(self, held: str) -> bool:
        """Whether what stands behind the marker is as short as a name and a key: prose can speak of markers."""
        text = self.text(markers=False) + held
        return len(text) <= _LONGEST_HEAD and len(text.split()) <= _MOST_WORDS

    def was_to_be_call(self, state: Rules, held: str, format_: Format) -> bool:
        """Whether the output ends, in `state`, in what a marker said was to be a call, or in markup around calls."""
        match state:
            case Header(hidden=False):
                return self.marked and not self.text(markers=False).strip()
            case Body() if self.behind_call:
                return self.marked or self.may_be_head(held)
            case Header() | Body():
                return self.marked  # a body's own reader has judged the text
            case Gap(behind=Behind.TEXT):
                return True
            case Gap() if not self:
                return is_behind_call(state) or is_markup(held, state.transitions, format_)
            case _:
                return self.marked and self.may_be_head(held)

    @property
    def is_spoken_of(self) -> bool:
        """It stands in a sentence: between blanks, or in front of a comma or a stop."""
        return self._behind_blank and not self.text(markers=False)[:1].isalnum()

    @property
    def has_token(self) -> bool:
        """One of its markers is a token of the model's vocabulary."""
        return any(is_marker and _TOKEN.match(piece) for piece, is_marker in self._pieces)

    @property
    def sink(self) -> Sink:
        """Where its text goes if it is none: what only looked like a call doesn't end the thinking."""
        return Sink.CONTENT if self.origin is None else self.origin.sink


def announces(transition: Transition, *between: Rules) -> bool:
    """Whether a marker says that a call comes. A bracket that belongs to the call doesn't, nor does a fence, a closing
    tag, or a word, which is shown if nothing follows it."""
    return transition.marker is Marker.MARKUP and not any(
        (isinstance(state, Header) and not state.hidden) or (isinstance(state, Gap) and state.behind is Behind.TEXT)
        for state in between
    )


def is_markup(held: str, transitions: Transitions, format_: Format) -> bool:
    """Whether `held`, with which the output ends, is a marker that was to be a longer one, or surely the beginning of
    one that announces a call."""
    unmistakable = _UNMISTAKABLE.match(held) is not None
    for marker, transition in transitions.items():
        target = format_.states[transition.to]
        if isinstance(target, Prose):
            if held.startswith(marker) and transition.marker is not Marker.SHOWN:
                return True
        elif announces(transition, target) and (held.startswith(marker) or (unmistakable and marker.startswith(held))):
            return True
    return False


def is_behind_call(state: Rules) -> bool:
    return isinstance(state, Gap) and state.behind is Behind.CALL
