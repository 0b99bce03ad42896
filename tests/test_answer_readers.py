"""What a reader of native calls makes of an output that ends early, and how much it keeps until then."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Event, Text
from extproc.toolcalls.events import collect
from extproc.turn.readers import Reader, reader_for
from extproc.turn.spec import ResponseSpec


def reader(*, native: bool = True, repair: bool = False, form: str = "hermes") -> Reader:
    return reader_for(ResponseSpec(form, [], True, False, native=native, repair=repair))


def piece(number: int, name: str | None = None, arguments: str | None = None) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"tool_calls": [{"index": number, "function": function}]}


def told(*deltas: dict[str, Any], cut_off: bool, repair: bool = False) -> list[Event]:
    made = reader(repair=repair)
    return [event for delta in deltas for event in made.feed(delta)] + made.close(cut_off=cut_off)


@pytest.mark.parametrize("repair", [False, True])
class TestTheEnd:
    def test_a_call_that_is_cut_off_before_its_arguments_has_none(self, repair: bool) -> None:
        events = told(piece(0, "look"), cut_off=True, repair=repair)
        assert events == [CallStart(0, "look"), CallEnd(0, whole=False)]

    def test_one_that_is_cut_off_within_them_has_what_came(self, repair: bool) -> None:
        events = told(piece(0, "look"), piece(0, arguments='{"at": "a'), cut_off=True, repair=repair)
        assert events == [CallStart(0, "look"), ArgumentsDelta(0, '{"at": "a'), CallEnd(0, whole=False)]

    def test_one_that_was_complete_when_the_output_was_cut_off_is_complete(self, repair: bool) -> None:
        assert told(piece(0, "look", "{}"), cut_off=True, repair=repair)[-1] == CallEnd(0)

    def test_a_call_without_arguments_that_has_something_behind_it_has_an_empty_object(self, repair: bool) -> None:
        made = collect(told(piece(0, "look"), piece(1, "find"), cut_off=True, repair=repair)).calls
        assert [(call.name, call.arguments) for call in made] == [("look", "{}"), ("find", "")]

    def test_and_so_has_the_last_one_of_an_output_that_ended_by_itself(self, repair: bool) -> None:
        made = collect(told(piece(0, "look"), piece(1, "find"), cut_off=False, repair=repair)).calls
        assert [(call.name, call.arguments) for call in made] == [("look", "{}"), ("find", "{}")]


class TestHeld:
    def test_what_waits_behind_an_unfinished_call_is_held_and_what_was_given_on_is_not(self) -> None:
        made = reader()
        made.feed({"content": "Hello."})
        made.feed(piece(0, "look", '{"at":'))
        assert made.held == 0
        made.feed({"content": "x" * 1000})
        made.feed(piece(1, "find", "y" * 500))
        assert made.held == 1500
        made.feed(piece(0, arguments=" 1}"))
        made.feed({"content": "z"})
        assert made.held == 1  # behind the second call, whose arguments are no JSON
        made.close()
        assert made.held == 0

    def test_arguments_of_a_call_that_has_no_name_yet_are_held(self) -> None:
        made = reader()
        made.feed(piece(0, arguments="x" * 100))
        assert made.held == 100
        made.feed(piece(0, "look"))
        assert made.held == 0

    @pytest.mark.parametrize("native", [False, True])
    def test_text_that_may_become_a_call_is_held(self, native: bool) -> None:
        made = reader(native=native, repair=True)
        made.feed({"content": "<tool_call>"})
        for _ in range(10):
            made.feed({"content": " " * 100})
        assert made.held == 1011
        made.close()
        assert made.held == 0

    def test_thousands_of_pieces_behind_a_call_that_never_ends_come_in_their_order(self) -> None:
        words = [f"{number} " for number in range(5000)]
        events = told(piece(0, "look", "{"), *({"content": word} for word in words), cut_off=False)
        assert events[:3] == [CallStart(0, "look"), ArgumentsDelta(0, "{"), CallEnd(0)]
        assert events[3:] == [Text(word) for word in words]
