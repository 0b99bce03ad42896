"""Members of an object that have to be there, as every dialect asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from extproc.contract.errors import ApiError, empty_string, invalid_type, invalid_value, missing_parameter, quoted

Json: TypeAlias = dict[str, Any]


def string_problems(value: Json, name: str, param: str) -> Iterator[ApiError]:
    """What is wrong with a member that has to be a string; `param` is where the object stands."""
    if value.get(name) is None:
        yield missing_parameter(f"{param}.{name}", "Expected a string.")
    elif not isinstance(value[name], str):
        yield invalid_type(f"{param}.{name}", "a string", value[name])


def name_problems(value: Json, name: str, param: str) -> Iterator[ApiError]:
    """The same of one that may not be empty: the name, or the id, of a call."""
    yield from string_problems(value, name, param)
    if value.get(name) == "":
        yield empty_string(f"{param}.{name}", "what the call came with")


def word_problems(value: Json, name: str, param: str, allowed: Sequence[str]) -> Iterator[ApiError]:
    """The same of one that has to be one of these words."""
    word = value.get(name)
    if word is None:
        yield missing_parameter(f"{param}.{name}", f"Expected one of: {', '.join(allowed)}.")
    elif not isinstance(word, str):
        yield invalid_type(f"{param}.{name}", "a string", word)
    elif word not in allowed:
        yield invalid_value(f"{param}.{name}", f"expected one of {', '.join(allowed)}, got {quoted(word)}.")
