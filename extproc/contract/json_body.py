"""JSON as strictly as a contract needs it: one reading only, for us and for the backend.

What decoders are lenient about is where two of them disagree: of two equal keys one takes the first and one the last,
and an infinite number comes out as null. So all of that is refused here, with the place. Decoder: jiter, which keeps
integers exact and stops at 200 levels of nesting.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import jiter
import orjson

from extproc.contract.errors import ApiError, cut, invalid_json, quoted
from extproc.contract.json_array import JsonArray, ToolArray
from extproc.contract.json_nodes import count_nodes

Json: TypeAlias = dict[str, Any]

_DUPLICATE = re.compile(r'Detected duplicate key "(?P<key>.*)"(?P<place> at line \d+ column \d+)\Z', re.S)
_SAID_MOST = 120

MOST_NODES = 500_000
"""Values in a body, however small each is: they take a second and 60 MB. A conversation of 65,536 messages, parts and
calls, the most that a request may have, is less."""


def decode(body: bytes) -> Json:
    """The object that a request body is. Raises ApiError (400, `invalid_json`; 413 for too many values)."""
    if has_too_many_nodes(body):
        message = f"The request body holds more than {MOST_NODES} JSON values (members of objects, items of arrays). "
        raise ApiError(413, message + "Send fewer.", code="request_too_large")
    try:
        value = jiter.from_json(body, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        said = str(error)
        if twice := _DUPLICATE.match(said):
            reason = f"the key {quoted(twice['key'])} is given twice in one object,{twice['place']}"
            raise invalid_json(reason, _place_of_duplicate(body)) from None
        raise invalid_json(said[-_SAID_MOST:]) from None
    if not isinstance(value, dict):
        raise invalid_json("it is not an object")
    if _has_infinity(value):
        place = _written(_way_to_infinity(value)) or ""
        raise invalid_json(f"the number at '{place[-_SAID_MOST:]}' is too large for a 64-bit float", place)
    return value


def has_too_many_nodes(body: bytes) -> bool:
    """Whether it is refused for that."""
    return len(body) > MOST_NODES and count_nodes(body, MOST_NODES) > MOST_NODES


def encode(value: Json | Sequence[Json]) -> bytes:
    """The JSON text of what `decode` gave, or was made of it."""
    try:
        return orjson.dumps(value, default=_as_it_stands)
    except orjson.JSONEncodeError:  # an integer of more than 64 bits; the nesting is within both encoders' limits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_decoded).encode()


def tool_array(tools: Sequence[Json]) -> ToolArray:
    """Valid tool definitions as their text."""
    if isinstance(tools, ToolArray):
        return tools
    texts = [encode(tool) for tool in tools]
    names = tuple(tool["function"]["name"] for tool in tools)
    return ToolArray(b"[%s]" % b",".join(texts), names, tuple(map(len, texts)))


def _as_it_stands(value: object) -> orjson.Fragment:
    if isinstance(value, JsonArray):
        return orjson.Fragment(value.json)
    raise TypeError


def _decoded(value: object) -> list[Any]:
    assert isinstance(value, JsonArray)
    return value.items


def is_json(text: str) -> bool:
    """Whether `text` is one JSON value, strictly."""
    try:
        jiter.from_json(text.encode(), allow_inf_nan=False)
    except (ValueError, UnicodeEncodeError):
        return False
    return True


def is_object(text: str) -> bool:
    """Whether `text` is one JSON object, strictly."""
    return text.lstrip()[:1] == "{" and is_json(text)


def _has_infinity(value: Any) -> bool:
    left = [value]
    for value in left:  # it grows meanwhile
        kind = type(value)  # the decoder makes no subclasses; a match statement takes three times as long
        if kind is str:
            continue
        if kind is dict:
            left.extend(value.values())
        elif kind is list:
            left.extend(value)
        elif kind is float and math.isinf(value):
            return True
    return False


_Way: TypeAlias = "list[str | int]"
"""The steps to a place in a body, the last one first: they are put together on the way back from it."""


def _written(way: _Way | None) -> str | None:
    if way is None:
        return None
    return "".join(f"[{step}]" if isinstance(step, int) else f".{cut(step)}" for step in reversed(way))[1:]


def _way_to_infinity(value: Any) -> _Way | None:
    if isinstance(value, float):
        return [] if math.isinf(value) else None
    for step, member in _members(value):
        if (way := _way_to_infinity(member)) is not None:
            way.append(step)
            return way
    return None


def _members(value: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


class _Members(list[tuple[str, Any]]):
    """An object whose equal keys are all still there."""


_MOST_SEARCHED = 1_000_000  # bytes, which take some 50 ms


def _place_of_duplicate(body: bytes) -> str | None:
    """The path of the first key that is given twice; None when that takes too long, or the rest can't be read."""
    if len(body) > _MOST_SEARCHED:
        return None
    try:
        root = json.loads(body, object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        return None
    return _written(_way_to_duplicate(root))


def _way_to_duplicate(value: Any) -> _Way | None:
    if isinstance(value, _Members):
        seen: set[str] = set()
        for key, member in value:
            way = _way_to_duplicate(member)
            if way is None and key in seen:
                way = []
            if way is not None:
                way.append(key)
                return way
            seen.add(key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if (way := _way_to_duplicate(item)) is not None:
                way.append(index)
                return way
    return None
