"""The states of a response template's calls: JSON objects, a name and JSON, or a name and values between tags."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extproc.toolcalls.checkpoint.fields import Field
from extproc.toolcalls.checkpoint.openings import Openings
from extproc.toolcalls.checkpoint.patterns import Atom, Kind, Row, one_row, source, trimmed
from extproc.toolcalls.checkpoint.problems import ResponseTemplateError, in_part
from extproc.toolcalls.notations.delimited_text import StringMarkers
from extproc.toolcalls.notations.json_arguments import JsonArguments
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.notations.lenient_object import LenientArguments
from extproc.toolcalls.notations.tagged import Trim
from extproc.toolcalls.states import State, StateName
from extproc.toolcalls.table import Behind, Body, Gap, Key, Marker, Name, Rules, Transition, Transitions, Value

States = dict[StateName, Rules]

_PLACEHOLDER = re.compile(r"\{(\w+(?:\.\w+)*)\}")
_BRACKETS = re.compile(r"[\s\[,]*")
_BEHIND = re.compile(r"[\s,;}\]]*")


@dataclass(frozen=True, slots=True)
class _Shape:
    """Where a call's parts are."""

    captured: str | None
    """The group of the opening that is the name; None: it is in the JSON."""
    name_keys: frozenset[str] = frozenset({"name", "function"})
    arguments_keys: frozenset[str] = frozenset({"arguments", "parameters"})


def open_calls(calls: Field, openings: Openings) -> States:
    """Adds what opens calls, and returns the states of their names."""
    shape = _shape(calls)
    states: States = {}
    with in_part("open_pattern"):
        for row in calls.opens or ():
            if shape.captured is None:
                _refuse_captures(row)
                openings.add(row, State.CALLS, text=False)
            else:
                head, name = _named(row, shape.captured, calls)
                state = (State.NAME, f"{name.pattern.pattern} {' '.join(name.transitions)}")
                openings.add(head, state, text=False)
                states[state] = name
    return states


def call_states(calls: Field, openings: Openings) -> States:
    """What calls are made of, once everything that opens is known."""
    shape = _shape(calls)
    root = openings.root
    closes = {close[0]: Transition(State.AFTER_CALL) for close in calls.closes}
    tails = {literal: Transition(State.AFTER_CALL) for close in calls.closes for literal in close[1:]}
    # What the opening's tags are closed with, whether the template says so or not.
    inner = {tag: Transition(State.AFTER_CALL) for tag in _closing_tags(calls) if tag not in closes}
    after: Transitions = {**inner, **tails, **closes, **root}
    ends = {marker: Transition(one.to, ends_call=True) for marker, one in {**inner, **tails, **closes}.items()}
    next_call = {marker: Transition(root[marker].to, ends_call=True) for marker in openings.of_calls}
    if calls.content == "xml-inline":
        return {**_tagged(calls, {**ends, **next_call}, next_call), State.AFTER_CALL: _gap(after)}
    if shape.captured is None:
        again = {"{": Transition(State.JSON_CALL, Marker.KEPT)}
        return {
            State.CALLS: Gap(again, junk=_BRACKETS),
            State.JSON_CALL: JsonCall(State.AFTER_CALL, name_keys=shape.name_keys, arguments_keys=shape.arguments_keys),
            State.AFTER_CALL: _gap({**after, **again}),
        }
    return {
        State.BEFORE_ARGUMENTS: Gap({"{": Transition(State.ARGUMENTS, Marker.KEPT), **ends}),
        State.ARGUMENTS: _arguments(calls),
        State.AFTER_CALL: _gap(after),
    }


def _gap(transitions: Transitions) -> Gap:
    return Gap(transitions, junk=_BEHIND, behind=Behind.CALL)


# What a call is made of


def _shape(calls: Field) -> _Shape:
    if calls.content not in ("json", "xml-inline"):
        raise ResponseTemplateError(f"content: {calls.content!r}, where only 'json' and 'xml-inline' can be read")
    with in_part("transform"):
        shape = _transformed(calls)
    if calls.content == "xml-inline" and shape.captured is None:
        raise ResponseTemplateError("transform: the name has to come from the opening where arguments are tags")
    return shape


def _transformed(calls: Field) -> _Shape:
    transform = calls.transform
    if transform is None or transform == "{content}":
        return _Shape(None)
    if not isinstance(transform, Mapping) or not isinstance(transform.get("function"), str | Mapping):
        raise ResponseTemplateError("expected an object with 'function'")
    if unknown := transform.keys() - {"type", "function", "id"}:
        raise ResponseTemplateError(f"{sorted(unknown)[0]}: a call has no such part")
    function = transform["function"]
    if function == "{content}" and not calls.each:
        return _Shape(None)
    if not isinstance(function, Mapping) or function.keys() != {"name", "arguments"}:
        raise ResponseTemplateError("function: expected '{content}', or an object with 'name' and 'arguments'")
    name, arguments = (_path(function[part], part) for part in ("name", "arguments"))
    if arguments == ["content"]:
        if len(name) != 1 or name == ["content"]:
            raise ResponseTemplateError(
                "function.name: only a group of the opening, if all of the content is arguments"
            )
        return _Shape(name[0])
    return _Shape(None, frozenset({_key(name, calls, "name")}), frozenset({_key(arguments, calls, "arguments")}))


def _path(value: Any, part: str) -> list[str]:
    placeholder = _PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    if placeholder is None:
        raise ResponseTemplateError(f"function.{part}: expected one {{placeholder}}")
    return placeholder[1].split(".")


def _key(path: list[str], calls: Field, part: str) -> str:
    """The key of a call's object that a placeholder stands for."""
    *outer, key = path if calls.each else path[1:] or [""]
    if (not calls.each and path[0] != "content") or not key or outer not in ([], ["function"]):
        raise ResponseTemplateError(f"function.{part}: '{{{'.'.join(path)}}}' is no key of the call's object")
    return key


def _arguments(calls: Field) -> Body:
    with in_part("content_args"):
        given = {name: value for name, value in calls.arguments.items() if value}
        if unknown := given.keys() - {"string_delims", "unquoted_keys"}:
            raise ResponseTemplateError(f"{sorted(unknown)[0]}: arguments can only be an object")
        delimiters = given.get("string_delims")
        if delimiters is None:
            return JsonArguments(State.AFTER_CALL)
        match delimiters:
            case [[str(before), str(behind)]] if before and before == behind and calls.closes:
                opening = next(atom.literal for row in calls.opens or () for atom in row if atom.literal)
                markers = StringMarkers(before, opening, calls.closes[0][0])
                return LenientArguments(then=State.AFTER_CALL, markers=markers)
            case _:
                raise ResponseTemplateError(
                    "string_delims: expected one pair, of the same text twice, in a field that a literal ends"
                )


# Names


def _captures(atom: Atom) -> frozenset[str]:
    return frozenset(re.compile(atom.source).groupindex) if atom.kind is Kind.CAPTURE else frozenset()


def _refuse_captures(row: Row) -> None:
    if captured := [name for atom in row for name in _captures(atom)]:
        raise ResponseTemplateError(f"the group {captured[0]!r} is not the name of the call")


def _named(row: Row, group: str, calls: Field) -> tuple[Row, Name]:
    """The literals in front of a name, and the name up to the literal behind it."""
    at = next((at for at, atom in enumerate(row) if group in _captures(atom)), None)
    if at is None:
        raise ResponseTemplateError(f"no group {group!r} in one of its alternatives")
    begin = 0
    while begin < at and row[begin].kind in (Kind.LITERAL, Kind.SPACE):
        begin += 1
    last = next((end for end in range(len(row) - 1, at, -1) if row[end].kind is Kind.LITERAL), None)
    if begin == 0 or (last is None and at != len(row) - 1) or (last is not None and last != len(row) - 1):
        raise ResponseTemplateError("a name has to stand between literals")
    inner = trimmed(row[begin:last])
    then = State.PARAMETERS if calls.content == "xml-inline" else State.BEFORE_ARGUMENTS
    ends = {close[0]: Transition(State.AFTER_CALL, ends_call=True) for close in calls.closes}
    if last is not None:
        ends[row[last].literal] = Transition(then)
    elif then is State.PARAMETERS:
        raise ResponseTemplateError("a name has to stand between literals")
    else:
        ends["{"] = Transition(State.ARGUMENTS, Marker.KEPT)
    pattern = source(inner).replace(f"(?P<{group}>", "(?P<name>")
    possible = _possible(inner)
    return row[:begin], Name(ends, pattern=re.compile(rf"\s*{pattern}\s*", re.DOTALL), possible=possible)


_OF_ONE_CLASS = re.compile(r"\(\?P<\w+>((?:\\[wWdD]|\[(?:\\.|[^\]\\])+\]))[+*]\??\)", re.DOTALL)


def _possible(inner: Row) -> re.Pattern[str]:
    """What the text has to be while it is still being written."""
    characters = _OF_ONE_CLASS.fullmatch(inner[0].source) if len(inner) == 1 else None
    if characters is not None:
        return re.compile(rf"\s*(?:{characters[1]})*\s*", re.DOTALL)
    return re.compile(r"[^\n]*")


_TAG = re.compile(r"<([A-Za-z][\w:.\-]*|｜\w+｜ ?[\w]+)(?=[\s>=]|\Z)")


def _closing_tags(calls: Field) -> list[str]:
    """The closing tags of the tags that an opening has."""
    literals = [atom.literal for row in calls.opens or () for atom in row if atom.literal]
    return list(dict.fromkeys(f"</{tag}>" for literal in literals for tag in _TAG.findall(literal)))


# Values between tags


def _tagged(calls: Field, ends: Transitions, next_call: Transitions) -> States:
    with in_part("content_args"):
        given = {name: value for name, value in calls.arguments.items() if value}
        if unknown := given.keys() - {"tag_pattern", "value_parser"}:
            raise ResponseTemplateError(f"{sorted(unknown)[0]}: can't be told")
        _check_values(given.get("value_parser"))
        with in_part("tag_pattern"):
            opening, key, trim, closing = _tag(given.get("tag_pattern"))
    following = {opening: Transition(State.KEY), **ends}
    unclosed = {marker: Transition(State.AFTER_UNCLOSED_VALUE) for marker in ends if marker not in next_call}
    states: States = {
        State.PARAMETERS: Gap(following),
        State.KEY: key,
        State.VALUE: Value({**unclosed, closing: Transition(State.AFTER_VALUE)}, trim),
        State.AFTER_VALUE: Gap(following, otherwise=State.VALUE, behind=Behind.VALUE),
    }
    if unclosed:
        states[State.AFTER_UNCLOSED_VALUE] = Gap(next_call, otherwise=State.VALUE, behind=Behind.VALUE)
    return states


def _check_values(parser: Any) -> None:
    name = parser.get("name", "text") if isinstance(parser, Mapping) else parser
    if name not in (None, "text", "json"):
        raise ResponseTemplateError(f"value_parser: {name!r}, where values are typed by the tool's schema")


_SHORT = r"(?=.{0,512}\Z)"
"""What is longer is no key. Trying a template's pattern on it could take time without end."""


def _tag(pattern: Any) -> tuple[str, Key, Trim, str]:
    """A tag's opening up to its key, the key up to its value, what of the value is markup, and its closing."""
    if not isinstance(pattern, str):
        raise ResponseTemplateError("expected a text")
    row = trimmed(one_row(pattern))
    value = next((at for at, atom in enumerate(row) if "value" in _captures(atom)), None)
    key = next((at for at, atom in enumerate(row) if "key" in _captures(atom)), None)
    if key is None or value is None or not 0 < key < value:
        raise ResponseTemplateError("expected a literal, then the groups 'key' and 'value'")
    before = value - 1 if row[value - 1].kind is not Kind.SPACE else value - 2
    behind = [atom for atom in row[value + 1 :] if atom.kind is not Kind.SPACE]
    edges = [row[0], row[before], *behind]
    if before < key or len(behind) != 1 or any(atom.kind is not Kind.LITERAL for atom in edges):
        raise ResponseTemplateError("a key and a value have to stand between literals")
    inner = source(trimmed(row[1:before]))
    pattern = re.compile(rf"{_SHORT}\s*{inner}\s*", re.DOTALL)
    trims = len(row) > before + 3  # there is white space around the value
    return (
        row[0].literal,
        Key({row[before].literal: Transition(State.VALUE)}, pattern=pattern),
        Trim.LINE_BREAKS if trims else Trim.NOTHING,
        behind[0].literal,
    )
