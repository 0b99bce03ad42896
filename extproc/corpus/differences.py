"""What differs between an outcome and what a row expects: values are compared, and not how they are spelled.

White space around content and reasoning isn't compared, and none at all in content that stands beside calls: how much
of it is markup no specification says. Arguments are compared as JSON values: `true` is not 1, 1 is 1.0, and the order
of keys is free. A call in which the text ends may be missing, or there as far as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extproc.corpus.rows import Expected, Row, WrittenCall


@dataclass(frozen=True, slots=True)
class Came:
    """What a parser made of a text; `calls` are names, and arguments as the text that came."""

    content: str
    reasoning: str
    calls: tuple[tuple[str, str], ...]


def difference(row: Row, came: Came) -> str | None:
    """Why this is wrong, in a few words and with the values that differ; None when it is right."""
    found = [_difference(expected, came) for expected in (row.expected, *row.also)]
    return None if None in found else found[0]


def _difference(expected: Expected, came: Came) -> str | None:
    names = [name for name, _ in came.calls]
    wanted = [call.name for call in expected.calls]
    rest = came.calls[len(wanted) :]
    if names[: len(wanted)] != wanted or len(rest) > (expected.begun is not None):
        return f"calls: {names} for {wanted}"
    for call, (_, text) in zip(expected.calls, came.calls, strict=False):
        if not _is_json(text, call.arguments):
            return f"arguments of {call.name}: {_short(text)} for {_short(json.dumps(call.arguments))}"
    for name, text in rest:
        assert expected.begun is not None
        if name != expected.begun.name or not is_beginning(text, expected.begun):
            return f"the call that was cut off: {name} {_short(text)}"
    if _said(came.content, expected) != _said(expected.content or "", expected):
        return f"content: {_short(came.content)} for {_short(expected.content or '')}"
    if came.reasoning.strip() != (expected.reasoning or "").strip():
        return f"reasoning: {_short(came.reasoning)} for {_short(expected.reasoning or '')}"
    return None


def same(one: object, other: object) -> bool:
    """Equal as JSON values."""
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case dict(), dict():
            return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
        case list(), list():
            return len(one) == len(other) and all(map(same, one, other))
    return one == other


def is_beginning(text: str, call: WrittenCall) -> bool:
    """Whether `text` may be what came of a call's arguments, which need not be JSON yet: nothing in it is made up."""
    value = _completed(text)
    return value is not _NONE and _is_part(value, call.arguments)


def _is_json(text: str, arguments: Mapping[str, Any]) -> bool:
    try:
        return same(json.loads(text), dict(arguments))
    except ValueError:
        return False


def _said(text: str, expected: Expected) -> str:
    return "".join(text.split()) if expected.calls or expected.begun else text.strip()


def _short(text: str) -> str:
    return repr(text) if len(text) <= 80 else repr(text[:60]) + f"... ({len(text)} characters)"


# Arguments that are no JSON yet

_NONE = object()
_DANGLING = re.compile(r'(?:,|[{\[]|\A)\s*("(?:[^"\\]|\\.)*"\s*:?\s*)?[^\s"{}\[\],:]*\s*\Z')
_WHOLE_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\]]')


def _completed(text: str) -> object:
    """The JSON value of which `text` is a beginning, closed where it ends; _NONE if it is none."""
    text = text.strip()
    if not text:
        return {}
    # An escape may be cut, or a word, or a key may have no value yet: then the last of it is left out.
    for attempt in (text, re.sub(r"\\(?:u[0-9a-fA-F]{0,3})?\Z", "", text), _without_last(text)):
        try:
            return json.loads(_closed(attempt), strict=False)
        except ValueError:
            continue
    return _NONE


def _without_last(text: str) -> str:
    found = _DANGLING.search(_closed_string(text))
    return text if found is None else text[: found.start() + (text[found.start() : found.start() + 1] in "{[")]


def _closed_string(text: str) -> str:
    return text + ('"' if _open_string(text) else "")


def _open_string(text: str) -> bool:
    last = ""
    for token in _TOKENS.finditer(text):
        last = token[0]
    return last.startswith('"') and text.endswith(last) and not _WHOLE_STRING.fullmatch(last)


def _closed(text: str) -> str:
    """`text` with the brackets that it leaves open closed, and its string."""
    open_: list[str] = []
    for token in _TOKENS.finditer(text):
        match token[0]:
            case "{" | "[":
                open_.append("}" if token[0] == "{" else "]")
            case "}" | "]" if open_:
                open_.pop()
    return _closed_string(text) + "".join(reversed(open_))


def _is_part(value: object, of: object) -> bool:
    """Whether `value` is `of` as far as it came."""
    match value, of:
        case dict(), Mapping():
            return all(key in of and _is_part(part, of[key]) for key, part in value.items())
        case list(), list():
            return len(value) <= len(of) and all(map(_is_part, value, of))
        case str(), str():
            return of.startswith(value)
        case ((int() | float()), (int() | float())) if not isinstance(value, bool) and not isinstance(of, bool):
            return str(of).startswith(str(value).removesuffix(".0"))
    return same(value, of)
