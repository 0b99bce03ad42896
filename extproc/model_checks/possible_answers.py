"""Whether calls are among the possible answers that BFCL, the Berkeley Function Calling Leaderboard, takes for right.

The rules are those of its `ast_checker`, for functions of Python: the tool is the right one, required parameters are
there, none is there that isn't asked for, each value has the type that the definition gives it (or that of the possible
answers) and is one of them. A parameter may be left out if "" is among its values. Strings are compared without case,
spaces and most punctuation. Several calls may come in any order. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from extproc.model_checks.cases import PossibleAnswers

Arguments = Mapping[str, Any]

_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
_LEFT_OUT = ""
_NOT_COMPARED = re.compile(r"[ ,./\-_*^]")


def are_right(possible: PossibleAnswers, calls: Sequence[tuple[str, Any]]) -> bool:
    """Whether these calls, names as offered and arguments as JSON values, are the ones that were wanted."""
    if len(calls) != len(possible.calls):
        return False
    left = list(calls)
    for name, values in possible.calls:
        function = next(one for one in possible.functions if one["name"] == name)
        found = next((at for at, call in enumerate(left) if _is_call(function, values, *call)), None)
        if found is None:
            return False
        del left[found]
    return True


def offered_name(name: str) -> str:
    """OpenAI's API takes no dots in a tool's name, so BFCL offers it with underscores."""
    return name.replace(".", "_")


def _is_call(function: Mapping[str, Any], values: Mapping[str, Sequence[Any]], name: str, arguments: Any) -> bool:
    properties, required = function["parameters"]["properties"], function["parameters"].get("required", ())
    if name != offered_name(function["name"]) or not isinstance(arguments, dict):
        return False
    return (
        all(parameter in arguments for parameter in required)
        and all(
            parameter in properties
            and parameter in values
            and is_value(properties[parameter], value, values[parameter])
            for parameter, value in arguments.items()
        )
        and all(parameter in arguments or _LEFT_OUT in possible for parameter, possible in values.items())
    )


def is_value(definition: Mapping[str, Any], value: Any, possible: Sequence[Any]) -> bool:
    """Whether it is one of the possible values of a parameter that is defined so."""
    wanted = _TYPES.get(definition["type"], str)
    items = _TYPES.get(definition["items"].get("type", "any")) if wanted is list and "items" in definition else None
    given: Any = float(value) if wanted is float and type(value) is int else value
    meant = _type_of(possible)
    if type(given) is not wanted:  # A name in the place of a value: the possible answers say which.
        return meant is type(given) and given in possible
    if items is not None and not any(_fits(given, items, one) for one in possible):
        return False
    if meant not in (None, wanted):
        return given in possible
    return _is_one_of(given, wanted, items, possible)


def _is_one_of(value: Any, wanted: type, items: type | None, possible: Sequence[Any]) -> bool:
    if wanted is dict:
        return any(_is_dict(value, one) for one in possible if one != _LEFT_OUT)
    if wanted is list and items is dict:
        return any(_is_list_of_dicts(value, one) for one in possible)
    if wanted is list:
        return [_plain(item) for item in value] in [[_plain(item) for item in one] for one in possible]
    if wanted is str:
        return _plain(value) in [_plain(one) for one in possible if isinstance(one, str)]
    return value in possible


def _type_of(possible: Sequence[Any]) -> type | None:
    return next((type(one) for one in possible if one != _LEFT_OUT), None)


def _fits(value: Any, items: type, possible: Any) -> bool:
    """Whether the items have the type that they should, or that of the possible ones."""
    return not isinstance(possible, list) or all(type(item) in (items, _type_of(possible)) for item in value)


def _is_dict(value: Mapping[str, Any], possible: Mapping[str, Sequence[Any]]) -> bool:
    return all(
        key in possible and _plain(item) in [_plain(one) for one in possible[key]] for key, item in value.items()
    ) and all(key in value or _LEFT_OUT in items for key, items in possible.items())


def _is_list_of_dicts(value: Sequence[Any], possible: Sequence[Any]) -> bool:
    return len(value) == len(possible) and all(
        isinstance(item, dict) and _is_dict(item, one) for item, one in zip(value, possible, strict=True)
    )


def _plain(value: Any) -> Any:
    """A string as it is compared."""
    return _NOT_COMPARED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value
