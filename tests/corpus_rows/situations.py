"""Situations: what a model wants to say and call. A writer turns each into a text, in the format that it writes.

Each is a function that gets a writer and material, and returns what is to be written, or None where the format can't
express it. `EVERY_WRITER` are those that variants of a format get too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.corpus_rows.material import Material, offered
from tests.format_writers import WRITERS, Call, Output, Place, Spelled, Types, Writer

Named: TypeAlias = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Situation:
    """What is to be written, and for which tools."""

    output: Output
    tools: list[dict[str, Any]] = field(default_factory=list)


Maker: TypeAlias = Callable[[Writer, Material], Situation | None]


def opening_markup(writer: Writer) -> list[str]:
    """The markers of a call, in the order in which they come in one."""
    text = writer.write(Output((Call("get_weather", {"city": "Oslo"}),)))
    return sorted((marker for marker in writer.markup if marker in text), key=text.index)


def calling(*calls: Named, **more: Any) -> Situation:
    """These calls, and their tools offered."""
    written = tuple(Call(name, arguments, number) for number, (name, arguments) in enumerate(calls))
    return Situation(Output(written, **more), offered(*(name for name, _ in calls)))


def fits(writer: Writer, situation: Situation) -> bool:
    """Whether the format can express it."""
    output = situation.output
    said = {Place.BEFORE: output.before, Place.BETWEEN: output.between, Place.AFTER: output.after}
    return (
        len(output.calls) <= writer.most_calls
        and not (output.reasoning and not writer.thinks)
        and all(place in writer.places and writer.can_say(text) for place, text in said.items() if text)
        and (not output.reasoning or writer.can_say(output.reasoning))
        and all(writer.holds(text) for call in output.calls for text in _strings(call.arguments))
        and all(writer.names(key) for call in output.calls for key in call.arguments)
    )


def _strings(value: object) -> Iterable[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for part in value.values():
                yield from _strings(part)
        case list():
            for part in value:
                yield from _strings(part)


# Well-formed


def one_call(_: Writer, made: Material) -> Situation:
    return calling(made.weather())


def no_arguments(_: Writer, made: Material) -> Situation:
    return calling((made.pick(("get_time", "list_users")), {}), before=made.before())


def no_arguments_alone(_: Writer, made: Material) -> Situation:
    name = made.pick(("get_time", "list_users"))
    return Situation(
        Output((Call(name, {}),)), offered(name, made.pick(("search", "convert", "write_file", "book_room")))
    )


def text_before(_: Writer, made: Material) -> Situation:
    return calling(made.weather(), before=made.before())


def text_after(_: Writer, made: Material) -> Situation:
    return calling(made.weather(), before=made.before(), after=made.after())


def text_between(_: Writer, made: Material) -> Situation:
    return calling(made.weather(), made.message(made.clause()), before=made.before(), between=made.between())


def two_calls(_: Writer, made: Material) -> Situation:
    return calling(made.weather(), made.weather())


def five_calls(_: Writer, made: Material) -> Situation:
    search = ("search", {"query": made.sentence(), "limit": made.number(), "exact": True})
    return calling(made.weather(), ("get_time", {}), search, ("get_time", {}), made.weather())


def thinking(_: Writer, made: Material) -> Situation:
    return calling(made.weather(), reasoning=made.thought())


def thinking_opened_by_the_prompt(_: Writer, made: Material) -> Situation:
    return calling(made.weather(), reasoning=made.thought(), thinking_is_open=True, before=made.before())


def thinking_and_an_answer(_: Writer, made: Material) -> Situation:
    output = Output(reasoning=made.thought(), before=made.answer())
    return Situation(output, offered("get_weather"))


def an_answer(_: Writer, made: Material) -> Situation:
    return Situation(Output(before=made.answer()), offered("get_weather", "get_time"))


def unicode_strings(_: Writer, made: Material) -> Situation:
    odd = made.pick(("é😀 ß", "日本語のテキスト", "Привет, мир", "مرحبا", "𝒳 ≠ 𝒴", "naïve café ☕"))
    return calling(made.message(f"{odd} {made.city()} {odd}"))


def unicode_keys(_: Writer, made: Material) -> Situation:
    return calling(("describe", {"größe": made.noun(), "城市": made.city()}))


def escaped_unicode(writer: Writer, made: Material) -> Situation | None:
    return calling(made.message(f"Grüße 😀 aus {made.city()}"), ascii_only=True) if writer.verbatim else None


def quotes_and_backslashes(_: Writer, made: Material) -> Situation:
    hard = made.pick(
        ('C:\\temp\\new "x"', "say \"hi\", then 'bye'", "\\d+\\.\\w* and \\\\", 'a "b\\" c', "it's \\n no line")
    )
    return calling(made.file(f"{made.person()}: {hard} end"))


def lines(_: Writer, made: Material) -> Situation:
    text = f"def {made.noun()}(x):\n    if x < {made.number()} and x > 1:\n\treturn x\n\n# {made.city()}"
    return calling(made.file(text))


def nested(_: Writer, made: Material) -> Situation:
    place = {"city": made.city(), "floor": made.number()}
    guests = [made.person(), made.person()]
    return calling(("book_room", {"place": place, "guests": guests, "price": made.number() + 0.5, "refundable": False}))


def empty_list_and_text(writer: Writer, made: Material) -> Situation | None:
    if writer.types is Types.ELEMENTS:  # an empty element may be either
        return None
    return calling(("book_room", {"guests": [], "price": made.number()}), made.message(""))


def null_and_boolean(_: Writer, made: Material) -> Situation:
    return calling(("set_reminder", {"text": made.sentence(), "note": None, "repeat": True}))


def numbers_as_strings(_: Writer, made: Material) -> Situation:
    word = made.pick(("null", "true", "0042", "1e5", "-7", "3.0"))
    return calling(made.message(word), ("write_file", {"path": str(made.number(9999)), "text": "1.50"}))


def spelled_numbers(_: Writer, made: Material) -> Situation:
    amount = Spelled(f"{made.number()}.{made.pick(('0', '50', '125'))}")
    return calling(("convert", {"amount": amount, "digits": 10**18 + made.number()}))


def negative_numbers(_: Writer, made: Material) -> Situation:
    return calling(("convert", {"amount": Spelled(f"-{made.number()}e-3"), "digits": -made.number()}))


def compact_json(writer: Writer, made: Material) -> Situation | None:
    return calling(made.weather(), compact=True, before=made.before()) if writer.verbatim else None


def odd_tool_name(_: Writer, made: Material) -> Situation | None:
    return calling(("get-user_Profile2", {"id": f"{made.person()}-{made.number()}"}))


def long_string(_: Writer, made: Material) -> Situation:
    return calling(made.file(" ".join(made.sentence() for _ in range(14))))


# Adversarial


def keys_that_are_markup_words(_: Writer, made: Material) -> Situation:
    values = {"from": made.city(), "class": made.noun(), "name": made.person(), "arguments": made.sentence()}
    return calling(("query_table", values))


def white_space_at_the_edges(_: Writer, made: Material) -> Situation | None:
    return calling(made.message(f"  {made.sentence()}  "))


def json_in_a_string(_: Writer, made: Material) -> Situation:
    inside = f'{{"name": "get_weather", "arguments": {{"city": "{made.city()}"}}}}'
    return calling(made.file(f"Example: {inside}"))


def only_json_in_a_string(_: Writer, made: Material) -> Situation:
    return calling(made.file(f'{{"{made.noun()}": [{made.number()}, "{made.city()}"]}}'))


def brackets_in_a_string(_: Writer, made: Material) -> Situation:
    return calling(made.message(f"}}]) {made.city()} ([{{ '\"}}] </p> {made.noun()} }}}}"))


def code_fence_in_a_string(_: Writer, made: Material) -> Situation:
    return calling(made.file(f'Run:\n```json\n{{"a": {made.number()}}}\n```\nin {made.city()}'))


def closing_markup_in_a_string(writer: Writer, made: Material) -> Situation | None:
    markers = [one for one in reversed(writer.markup) if writer.holds(f"a {one} b")]
    return calling(made.message(f"{made.city()} {markers[0]} {made.noun()} goes on")) if markers else None


def opening_markup_in_a_string(writer: Writer, made: Material) -> Situation | None:
    markers = [one for one in opening_markup(writer) if writer.holds(f"a {one} b")]
    return calling(made.message(f"Write {markers[0]} before the {made.noun()}.")) if markers else None


def all_markup_in_a_string(writer: Writer, made: Material) -> Situation | None:
    text = f"{made.noun()}: {' and '.join(writer.markup)} are {made.noun()}s"
    return calling(made.file(text)) if len(writer.markup) > 1 else None


def another_formats_call_in_a_string(writer: Writer, made: Material) -> Situation | None:
    others = [other for other in WRITERS if other.markup and other.format != writer.format]
    made.source.shuffle(others)
    for other in others:
        quoted = other.write(calling(made.weather()).output)
        if writer.holds(f"See: {quoted} end") and not any(marker in quoted for marker in writer.markup):
            return calling(made.file(f"See: {quoted} end"))
    return None


def another_formats_markup_in_text(writer: Writer, made: Material) -> Situation | None:
    others = [other.markup[0] for other in WRITERS if other.markup and other.format != writer.format]
    made.source.shuffle(others)
    for marker in others:
        text = f"Elsewhere a call begins with {marker} and ends; so it is in {made.city()}."
        if writer.can_say(text):
            return Situation(Output(before=text), offered("get_weather"))
    return None


def nearly_markup_in_text(writer: Writer, made: Material) -> Situation | None:
    markers = [one[:-1] for one in writer.markup if len(one) > 3 and writer.can_say(one[:-1] + " x")]
    if not markers:
        return None
    text = f"Almost {made.pick(markers)} but {made.city()} is no call."
    return Situation(Output(before=text), offered("get_weather"))


def an_answer_in_json(_: Writer, made: Material) -> Situation:
    text = f'Result: {{"city": "{made.city()}", "{made.noun()}": {made.number()}}}'
    return Situation(Output(before=text), offered("get_weather"))


def the_tools_name_in_text(_: Writer, made: Material) -> Situation:
    text = f"I could use get_weather for {made.city()}, but I know the answer: {made.number()} degrees."
    return Situation(Output(before=text), offered("get_weather"))


WELL_FORMED: tuple[Maker, ...] = (
    *(one_call, no_arguments, no_arguments_alone, text_before, text_after, text_between, two_calls, five_calls),
    *(thinking, thinking_opened_by_the_prompt, thinking_and_an_answer, an_answer),
    *(unicode_strings, unicode_keys, escaped_unicode, quotes_and_backslashes, lines, nested, empty_list_and_text),
    *(
        null_and_boolean,
        numbers_as_strings,
        spelled_numbers,
        negative_numbers,
        compact_json,
        odd_tool_name,
        long_string,
    ),
)
ADVERSARIAL: tuple[Maker, ...] = (
    *(keys_that_are_markup_words, white_space_at_the_edges, json_in_a_string, only_json_in_a_string),
    *(brackets_in_a_string, code_fence_in_a_string, closing_markup_in_a_string, opening_markup_in_a_string),
    *(all_markup_in_a_string, another_formats_call_in_a_string, another_formats_markup_in_text),
    *(nearly_markup_in_text, an_answer_in_json, the_tools_name_in_text),
)
EVERY_WRITER = frozenset({one_call, two_calls, text_between, lines, nested, thinking, all_markup_in_a_string})
EVERY_FORMAT = EVERY_WRITER | {
    *(no_arguments, text_before, an_answer, unicode_strings, quotes_and_backslashes, numbers_as_strings),
    *(closing_markup_in_a_string, opening_markup_in_a_string, brackets_in_a_string),
}
