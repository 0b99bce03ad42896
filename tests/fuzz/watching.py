"""Where the parser stands in its format's table: the one look inside it that the fuzzer takes."""

from __future__ import annotations

from extproc.toolcalls import Parser
from extproc.toolcalls.notations.json_encoded import QuotedArguments
from extproc.toolcalls.table import Reader, Rules

_NAMES: dict[int, str] = {}  # of formats' states, which live as long as the process


def rules_of(parser: Parser) -> Rules:
    return parser._state


def name_of(parser: Parser, rules: Rules) -> str:
    """The name of a state: the same in every process."""
    name = _NAMES.get(id(rules))
    if name is None:
        for state, known in parser._format.states.items():
            _NAMES[id(known)] = str(state)
        name = _NAMES[id(rules)]
    return name


def state_of(parser: Parser) -> str:
    return name_of(parser, rules_of(parser))


def reader_of(parser: Parser) -> Reader | None:
    return parser._call.reader


def innermost(reader: object) -> object:
    """The reader that is at work: one may hand on to another."""
    for name in ("_reader", "_json"):
        reader = getattr(reader, name, None) or reader
    return reader


def part_of_object(reader: object) -> str:
    """Which part of a call's object a reader of JSON is in; nothing for other readers."""
    return str(getattr(getattr(innermost(reader), "_stage", None), "name", ""))


def in_comment(reader: object) -> bool:
    """Whether a reader of Python may be in one."""
    return "#" in getattr(reader, "_held", "")


def in_string(reader: object) -> bool:
    """Whether a reader of JSON is in a string that stands in the arguments' place."""
    part = getattr(innermost(reader), "_part", None)
    return isinstance(part, QuotedArguments) or part_of_object(reader) == "IN_QUOTED_ARGUMENTS"


def is_object(reader: object) -> bool:
    """Whether a reader of elements reads an object in their place."""
    return bool(getattr(reader, "_is_json", False))


def is_plain(reader: object) -> bool:
    """Whether a reader of arguments reads text that was perhaps said to the tool."""
    return bool(getattr(getattr(reader, "_plain", None), "begun", False))
