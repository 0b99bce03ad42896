"""What a JSON value has to be: the vocabulary in which `parameters.py` writes its table.

A check is data. It puts into words what it expects, once for the error message and once for the documentation, and it
finds what is wrong with a value of any shape. It never raises, takes time in proportion to the value, and shows no
more of it than an error message has room for.
"""

from __future__ import annotations

import math
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from extproc.contract.errors import (
    ApiError,
    array_too_long,
    empty_string,
    invalid_request,
    invalid_type,
    invalid_value,
    missing_parameter,
    out_of_bounds,
    quoted,
    string_too_long,
)

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_LARGEST = sys.float_info.max
_SPELLED = {INT64_MIN: "-2^63", INT64_MAX: "2^63-1"}
_LONGEST_NAME = 100
_LONGEST_NUMBER = 100


@dataclass(frozen=True, slots=True)
class Check(ABC):
    """One kind of value."""

    types: ClassVar[tuple[type, ...]]
    """What JSON's decoder makes of it. Exactly these, because Python takes a boolean for an integer."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What the value has to be, with its article: "an integer from 1 to 128"."""

    @property
    def details(self) -> str:
        """The same for the documentation, down to the last member."""
        return self.words

    def problems(self, value: object, param: str) -> Iterator[ApiError]:
        """What is wrong with a value; `param` is its path in the request."""
        if type(value) in self.types:
            yield from self.faults(value, param)
        else:
            yield invalid_type(param, self.words, value)

    def faults(self, value: Any, param: str) -> Iterator[ApiError]:  # noqa: ARG002 - the kinds that say more need them
        """What is wrong with a value of the right type."""
        yield from ()

    def read(self, value: Any) -> Any:
        """A valid value as the backend gets it; the very same object unless an integer in it was written as 10.0."""
        return value


@dataclass(frozen=True, slots=True)
class Boolean(Check):
    """`true` or `false`, and no number that could mean it."""

    types = (bool,)

    @property
    def words(self) -> str:
        return "a boolean"


@dataclass(frozen=True, slots=True)
class Integer(Check):
    """An integer within bounds. 10.0 is one, as in JSON Schema: some languages write it so."""

    least: int = INT64_MIN
    most: int = INT64_MAX

    types = (int, float)

    @property
    def words(self) -> str:
        return f"an integer from {_SPELLED.get(self.least, self.least)} to {_SPELLED.get(self.most, self.most)}"

    def faults(self, value: float, param: str) -> Iterator[ApiError]:
        if isinstance(value, float) and not value.is_integer():
            yield invalid_type(param, self.words, value)
        elif value < self.least:
            yield out_of_bounds("integer_below_min_value", param, self.words, _number(value))
        elif value > self.most:
            yield out_of_bounds("integer_above_max_value", param, self.words, _number(value))

    def read(self, value: Any) -> Any:
        return int(value) if isinstance(value, float) else value


@dataclass(frozen=True, slots=True)
class Number(Check):
    """A number within bounds, and within what a float can hold."""

    least: float = -_LARGEST
    most: float = _LARGEST
    above: float = -math.inf
    """The number has to be greater than this."""

    types = (int, float)

    @property
    def words(self) -> str:
        if self.above > -math.inf:
            return f"a number greater than {self.above:g}"
        if (self.least, self.most) == (-_LARGEST, _LARGEST):
            return "a 64-bit floating-point number"
        return f"a number from {self.least:g} to {self.most:g}"

    def faults(self, value: float, param: str) -> Iterator[ApiError]:
        if value > self.most:
            yield out_of_bounds("decimal_above_max_value", param, self.words, _number(value))
        elif not (value >= self.least and value > self.above):
            yield out_of_bounds("decimal_below_min_value", param, self.words, _number(value))


@dataclass(frozen=True, slots=True)
class Text(Check):
    """A string, of a certain length or in a certain form."""

    longest: int | None = None
    form: re.Pattern[str] | None = None
    """What all of it has to match."""
    form_words: str = ""

    types = (str,)

    @property
    def words(self) -> str:
        if self.form is not None:
            return self.form_words
        return "a string" if self.longest is None else f"a string of at most {self.longest} characters"

    def faults(self, value: str, param: str) -> Iterator[ApiError]:
        if self.longest is not None and len(value) > self.longest:
            yield string_too_long(param, self.words, len(value))
        elif self.form is not None and not self.form.fullmatch(value):
            if value:
                yield invalid_value(param, f"expected {self.words}, got {quoted(value)}.")
            else:
                yield empty_string(param, self.words)


@dataclass(frozen=True, slots=True)
class OneOf(Check):
    """One of a few words."""

    choices: tuple[str, ...]

    types = (str,)

    @property
    def words(self) -> str:
        *others, last = map(repr, self.choices)
        return f"{', '.join(others)} or {last}"

    def faults(self, value: str, param: str) -> Iterator[ApiError]:
        if value not in self.choices:
            yield invalid_value(param, f"expected {self.words}, got {quoted(value)}.")


@dataclass(frozen=True, slots=True)
class ArrayOf(Check):
    """An array whose elements are all alike."""

    element: Check
    elements: str
    """What the elements are called: "strings"."""
    most: int | None = None

    types = (list,)

    @property
    def words(self) -> str:
        return f"an array of {'' if self.most is None else f'at most {self.most} '}{self.elements}"

    def faults(self, value: list[object], param: str) -> Iterator[ApiError]:
        if self.most is not None and len(value) > self.most:
            yield array_too_long(param, self.words, len(value))
        for index, element in enumerate(value):
            yield from self.element.problems(element, f"{param}[{index}]")

    def read(self, value: Any) -> Any:
        elements = [self.element.read(element) for element in value]
        return elements if _differ(elements, value) else value


@dataclass(frozen=True, slots=True)
class MapOf(Check):
    """An object whose names are up to the client, and whose values are all alike."""

    value: Check
    name: Text = field(default_factory=Text)
    most: int | None = None

    types = (dict,)

    @property
    def words(self) -> str:
        return "an object" if self.most is None else f"an object of at most {self.most} members"

    @property
    def details(self) -> str:
        names = "" if self.name == Text() else f"each name {self.name.words}, "
        return f"{self.words}; {names}each value {self.value.details}"

    def faults(self, value: dict[str, object], param: str) -> Iterator[ApiError]:
        if self.most is not None and len(value) > self.most:
            yield out_of_bounds("object_above_max_properties", param, self.words, f"an object with {len(value)}")
        for name, member in value.items():
            path = _member(param, name)
            if next(self.name.faults(name, path), None) is not None:
                yield _invalid_name(path, name, self.name)
            yield from self.value.problems(member, path)


@dataclass(frozen=True, slots=True)
class Object(Check):
    """An object some of whose members are known. Others are left to the backend."""

    members: Mapping[str, Check] = field(default_factory=dict)
    required: tuple[str, ...] = ()

    types = (dict,)

    @property
    def words(self) -> str:
        return "an object"

    @property
    def details(self) -> str:
        return f"an object with {self.member_details}" if self.members else "an object"

    @property
    def member_details(self) -> str:
        """The members, each with what it has to be."""
        return ", ".join(
            f"`{name}` ({'required: ' * (name in self.required)}{check.details})"
            for name, check in self.members.items()
        )

    def faults(self, value: dict[str, object], param: str) -> Iterator[ApiError]:
        for name, check in self.members.items():
            if (member := value.get(name)) is not None:
                yield from check.problems(member, f"{param}.{name}")
            elif name in self.required:
                yield missing_parameter(f"{param}.{name}", f"Send {check.words}.")

    def read(self, value: Any) -> Any:
        known = {name: self.members[name].read(value[name]) for name in self.members if value.get(name) is not None}
        return {**value, **known} if _differ(known.values(), [value[name] for name in known]) else value


@dataclass(frozen=True, slots=True)
class Typed(Check):
    """An object whose `type` says which other members it has."""

    variants: Mapping[str, Object]

    types = (dict,)

    @property
    def words(self) -> str:
        return "an object"

    @property
    def details(self) -> str:
        inner = "".join(f"; {type_!r} has {it.member_details}" for type_, it in self.variants.items() if it.members)
        return f"an object with `type` (required: {self._type.words}){inner}"

    @property
    def _type(self) -> OneOf:
        return OneOf(tuple(self.variants))

    def faults(self, value: dict[str, object], param: str) -> Iterator[ApiError]:
        yield from Object({"type": self._type}, ("type",)).faults(value, param)
        type_ = value.get("type")
        if isinstance(type_, str) and type_ in self.variants:
            yield from self.variants[type_].faults(value, param)


@dataclass(frozen=True, slots=True)
class Either(Check):
    """A value of either of two types."""

    one: Check
    other: Check

    types = ()

    @property
    def words(self) -> str:
        return f"{self.one.words} or {self.other.words}"

    def problems(self, value: object, param: str) -> Iterator[ApiError]:
        for check in (self.one, self.other):
            if type(value) in check.types:
                yield from check.faults(value, param)
                return
        yield invalid_type(param, self.words, value)


def _differ(some: Iterable[object], others: Iterable[object]) -> bool:
    """Whether they are other objects: 10 equals 10.0."""
    return any(one is not other for one, other in zip(some, others, strict=True))


def _invalid_name(path: str, name: str, expected: Text) -> ApiError:
    """A member's name that can't be."""
    if expected.longest is not None and len(name) > expected.longest:
        return invalid_request(
            f"Invalid property name in '{path}': {quoted(name)} is too long. Expected {expected.words}, but got a "
            f"string with {len(name)} characters instead.",
            path,
            "property_name_above_max_length",
        )
    return invalid_value(path, f"for the name, expected {expected.words}, got {quoted(name)}.")


def _member(param: str, name: str) -> str:
    """The path of a member that the client named, which may be megabytes long."""
    return f"{param}.{name if len(name) <= _LONGEST_NAME else f'{name[:_LONGEST_NAME]}…'}"


def _number(value: float) -> str:
    """A number for a message. Python refuses to write out integers of thousands of digits."""
    if isinstance(value, int) and abs(value) >= 10**_LONGEST_NUMBER:
        return f"an integer of more than {_LONGEST_NUMBER} digits"
    return repr(value)
