"""The parser's public door: a model's output in pieces, and what its end means.

Up to the end the machine decides (`machine.py`). The end decides what nothing else has: a call whose closing marker is
a stop token is whole, one that was cut off stands as far as it came, the beginning of a marker that announces a call
is markup, and all else is the text that it looks like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from extproc.toolcalls.candidate import is_markup
from extproc.toolcalls.events import Event, Parsed, collect
from extproc.toolcalls.formats import get_format
from extproc.toolcalls.machine import Machine
from extproc.toolcalls.special_tokens import stripping
from extproc.toolcalls.table import Body, Format, Gap, Header, Name, Prose, Verdict, left_by

Tools: TypeAlias = Sequence[Mapping[str, Any]] | Mapping[str, Mapping[str, Any]]


class Parser(Machine):
    """Takes one model output apart: `feed` its text in pieces of any size, then `close`.

    `format` is how the model writes calls, or its name (UnknownFormatError lists near names); `tools` are the request's
    OpenAI tool definitions, or a mapping that has them by name; `reasoning="open"` says that the output begins inside
    thinking, None lets the format's own thinking tags decide; `hidden` are tokens that are no text wherever they stand
    in it.

    ValueError for tools that are no such definitions. RuntimeError when it is fed more after `close`.
    """

    __slots__ = ()

    def __init__(
        self,
        *,
        format: Format | str,  # noqa: A002 - the public name; nothing here formats a string
        tools: Tools | None = None,
        reasoning: Literal["open"] | None = None,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        table = get_format(format) if isinstance(format, str) else format
        table = stripping(table, hidden) if hidden else table
        thinking = table.thinking if reasoning == "open" else None
        super().__init__(table, _by_name(tools or ()), thinking or table.start)

    def close(self, *, cut_off: bool = False) -> list[Event]:
        """The output has ended; returns what was still held. Once more, it returns nothing.

        `cut_off`: it is known that the model would have gone on. Else the output's end may be that of a call.
        """
        if self._step is _closed:
            return []
        self._end(cut_off=cut_off)
        self._step = _closed
        return self._output.take()

    def _end(self, *, cut_off: bool) -> None:
        held, self._held = self._held, ""
        call = self._call
        match self._state:
            case Prose() as state:
                if not is_markup(held, state.transitions, self._format):
                    self._output.text(state.sink, held)
            case Body() as state:
                if left := self._close_body(state, held, cut_off=cut_off):
                    self._read_again(left, "", 0)
                    self._end(cut_off=cut_off)
                    return
            case Name(ends_with_output=True) if not cut_off and call.word.strip() in self._tools and not held:
                call.set_name(call.word.strip())
                call.finish()
            case Gap(ends_with_output=True) if not cut_off and call.name is not None and not held:
                call.finish()
            case Gap() as state if not cut_off and (again := call.read_again(state)):
                self._next_call(state, again, held, 0)
                self._end(cut_off=False)
                return
            case _ if self._output.in_call:
                call.end_with_output(self._state, held, cut_off=cut_off)
            case _:
                self._close_candidate(held)
        self._output.end()

    def _close_body(self, state: Body, held: str, *, cut_off: bool) -> str:
        call, reader = self._call, self._call.reader
        assert reader is not None  # made on entering the state
        reader.end_of_input()
        call.candidate.marked |= reader.verdict is Verdict.MARKUP
        shown = reader.verdict is Verdict.CALL or call.candidate.marked
        if shown and reader.name is not None:
            call.begin(reader.name)
            self._output.arguments(reader.take())
            call.end_as_it_is(whole=reader.whole and not cut_off)
            call.forget()
            self._go(self._format.states[state.then])
            return left_by(reader)
        call.candidate.add(held)
        self._close_candidate("")
        return ""

    def _close_candidate(self, held: str) -> None:
        """The output ends before it is clear whether this is a call. Behind a marker that says so, it was to be one."""
        call, candidate = self._call, self._call.candidate
        name = call.name_at_end(self._state, held)
        state = self._state
        if isinstance(state, Header):
            candidate.marked = name is not None or candidate.marked  # a recipient says it as well as any marker
            candidate.add_unfinished(call.word, hidden=state.hidden)
        if not (candidate.was_to_be_call(state, held, self._format) and call.may_be_name(state)):
            # Its text is what it looks like, but no marker shows beside other calls.
            candidate.add_marker(held)
            self._output.text(candidate.sink, candidate.text(markers=not self._output.calls))
            candidate.clear()
        elif name is not None:
            call.begin(name)
            call.end_as_it_is(whole=False)


def _closed(_machine: Machine, _state: Any, _text: str, _position: int) -> int:
    """The step of a parser that is closed."""
    raise RuntimeError("this parser is closed: each output needs a Parser of its own")


def _by_name(tools: Tools) -> Mapping[str, Mapping[str, Any]]:
    """Raises ValueError."""
    if isinstance(tools, Mapping):
        return tools
    found: dict[str, Mapping[str, Any]] = {}
    for index, tool in enumerate(tools):
        try:
            found[tool["function"]["name"]] = tool
        except (KeyError, TypeError):
            raise ValueError(
                f"tools[{index}]: expected a tool as OpenAI defines it, "
                '{"type": "function", "function": {"name": ..., "parameters": {...}}}'
            ) from None
    return found


def parse(
    text: str,
    *,
    format: Format | str,  # noqa: A002 - the public name; nothing here formats a string
    tools: Tools | None = None,
    reasoning: Literal["open"] | None = None,
) -> Parsed:
    """What a `Parser`, which takes the same, makes of a whole output."""
    parser = Parser(format=format, tools=tools, reasoning=reasoning)
    return collect([*parser.feed(text), *parser.close()])
