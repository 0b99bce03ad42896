"""JSON as strictly as a contract needs it: one reading only, for us and for the backend.

What decoders are lenient about is where two of them disagree: of two equal keys one takes the first and one the last,
and an infinite number comes out as null. So all of that is refused here, with the place. Decoder: jiter, which keeps
integers exact and stops at 200 levels of nesting.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeAlias

import jiter
import orjson

from extproc.openai.errors import cut, invalid_json, quoted

Json: TypeAlias = dict[str, Any]

_DUPLICATE = re.compile(r'Detected duplicate key "(?P<key>.*)"(?P<place> at line \d+ column \d+)\Z', re.S)
_SAID_MOST = 120


def decode(body: bytes) -> Json:
    """The object that a request body is. Raises ApiError (400, `invalid_json`)."""
    try:
        value = jiter.from_json(body, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        said = str(error)
        if twice := _DUPLICATE.match(said):
            reason = f"the key {quoted(twice['key'])} is given twice in one object,{twice['place']}"
            raise invalid_json(reason, _place_of_duplicate(body)) from None
        raise invalid_json(said[-_SAID_MOST:]) from None
    if not isinstance(value, dict):
        raise invalid_json("it is not an object with 'model' and 'messages'")
    if _has_infinity(value):
        raise invalid_json("a number in it is too large for a 64-bit float")
    return value


def encode(value: Json) -> bytes:
    """The JSON text of what `decode` gave, or was made of it."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # an integer of more than 64 bits; the nesting is within both encoders' limits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def is_json(text: str) -> bool:
    """Whether `text` is one JSON value, strictly."""
    try:
        jiter.from_json(text.encode(), allow_inf_nan=False)
    except (ValueError, UnicodeEncodeError):
        return False
    return True


def _has_infinity(value: Any) -> bool:
    left = [value]
    while left:
        value = left.pop()
        kind = type(value)  # the decoder makes no subclasses; a match statement takes three times as long
        if kind is dict:
            left.extend(value.values())
        elif kind is list:
            left.extend(value)
        elif kind is float and math.isinf(value):
            return True
    return False


class _Members(list[tuple[str, Any]]):
    """An object whose equal keys are all still there."""


def _place_of_duplicate(body: bytes) -> str | None:
    """The path of the first key that is given twice; None when what follows it can't be read at all."""
    try:
        root = json.loads(body, object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        return None
    return _duplicate_in(root, "")


def _duplicate_in(value: Any, path: str) -> str | None:
    if isinstance(value, _Members):
        seen: set[str] = set()
        for key, member in value:
            here = f"{path}.{cut(key)}" if path else cut(key)
            if (found := _duplicate_in(member, here)) is not None:
                return found
            if key in seen:
                return here
            seen.add(key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if (found := _duplicate_in(item, f"{path}[{index}]")) is not None:
                return found
    return None
