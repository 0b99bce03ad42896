"""How a legal request becomes a malformed one: one field is put, dropped or said twice, and the rest stays as it was.

Fields are named by the path that an error's `param` has, such as `messages[2].tool_calls[0].id`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

Json: TypeAlias = dict[str, Any]

MISSING = "missing_required_parameter"
TYPE = "invalid_type"
VALUE = "invalid_value"
SCHEMA = "invalid_function_parameters"
EMPTY_ARRAY = "empty_array"
EMPTY_STRING = "empty_string"
LONG_ARRAY = "array_above_max_length"
LONG_STRING = "string_above_max_length"
JSON = "invalid_json"
ARGUMENTS = "malformed_tool_arguments"
NO_MODEL = "model_not_found"


@dataclass(frozen=True, slots=True)
class Edit:
    """One mistake: the field that it is about, and the request that it makes of another, in place where it can."""

    path: str
    apply: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A malformed request, and the error that its client has to get."""

    name: str
    code: str
    param: str | None
    make: Callable[[], bytes]
    place: str | None = None
    """What the message has to name, where the param doesn't say it all."""

    @property
    def status(self) -> int:
        return 404 if self.code == NO_MODEL else 400


@dataclass(frozen=True, slots=True)
class Mistake:
    """A row that doesn't know yet which legal request it is made from."""

    name: str
    edit: Edit
    code: str
    param: str | None
    place: str | None = None


def bad(name: str, edit: Edit, code: str, param: str | None = None) -> Mistake:
    """A mistake and its error; the error's param is the edited field unless `param` names another.

    Of a function's parameters it is the whole, and the message names the field.
    """
    if code == SCHEMA:
        place = edit.path if param is None else param
        return Mistake(name, edit, code, place[: place.index("parameters")] + "parameters", place)
    return Mistake(name, edit, code, (None if code == JSON else edit.path) if param is None else param)


def made_from(base: Mapping[str, Any], *mistakes: Mistake) -> list[Row]:
    return [
        Row(mistake.name, mistake.code, mistake.param, functools.partial(edited, base, [mistake.edit]), mistake.place)
        for mistake in mistakes
    ]


def edited(base: Mapping[str, Any], edits: Iterable[Edit]) -> bytes:
    """The body of the legal request `base` after all of the edits."""
    request = _copied(base)
    for edit in edits:
        request = edit.apply(request)
    return orjson.dumps(request)


def raw(text: str | bytes) -> orjson.Fragment:
    """A value that stands in the body letter for letter, JSON or not."""
    return orjson.Fragment(text)


def put(path: str, value: Any) -> Edit:
    """Give the field a value, whether or not it had one. An index one past an array's end adds an item."""

    def apply(request: Any) -> Any:
        *above, last = _steps(path)
        place = _at(request, above)
        if isinstance(place, list) and last == len(place):
            place.append(_copied(value))
        else:
            place[last] = _copied(value)
        return request

    return Edit(path, apply)


def drop(path: str) -> Edit:
    """Take the field away."""

    def apply(request: Any) -> Any:
        *above, last = _steps(path)
        del _at(request, above)[last]
        return request

    return Edit(path, apply)


def twice(path: str, *, spelled: str | None = None) -> Edit:
    """Say the field once more, behind its object's other fields; `spelled` is its key then, as it stands in JSON."""

    def apply(request: Any) -> Any:
        *above, last = _steps(path)
        place = _at(request, above)
        key = spelled.encode() if spelled else orjson.dumps(last)
        again = raw(orjson.dumps(place)[:-1] + b"," + key + b":" + orjson.dumps(place[last]) + b"}")
        if not above:
            return again
        _at(request, above[:-1])[above[-1]] = again
        return request

    return Edit(path, apply)


def both(*edits: Edit) -> Edit:
    """Several edits that make one mistake; it is about the last one's field."""

    def apply(request: Any) -> Any:
        for edit in edits:
            request = edit.apply(request)
        return request

    return Edit(edits[-1].path, apply)


_STEP = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")


def _steps(path: str) -> list[str | int]:
    return [int(index) if index else key for index, key in _STEP.findall(path)]


def _copied(value: Any) -> Any:
    """A copy whose objects and arrays can be edited."""
    match value:
        case dict():
            return {key: _copied(member) for key, member in value.items()}
        case list():
            return [_copied(item) for item in value]
    return value


def _at(request: Any, steps: Iterable[str | int]) -> Any:
    for step in steps:
        request = request[step]
    return request
