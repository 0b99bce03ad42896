"""What a model wrote into a call, held against the tools that it was offered.

A fault's message may end up in somebody's log. It names the tool, the place and the rule in the words of the tool's own
schema, and repeats nothing that the model wrote into the arguments.

Schemas come from clients and arguments from models, so both may be hostile:

- Patterns run on jsonschema-rs's linear engine. The other one, which backtracks, knows look-around and back-references,
  but gives up by its limit in the middle of a check, and what it then says depends on where the pattern stands. Linear
  is not cheap: the engine is given patterns of `_LARGEST_PATTERN` bytes at most, which take some 10 us per character.
- jsonschema-rs follows a reference as often as it meets it: 40 definitions, each with the next one in it twice, keep it
  busy for hours. What a check costs at most is therefore counted first.

What can't be checked at that price isn't. A schema is never a reason to refuse a call that may be right.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import jiter
from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError, Validator
from jsonschema_rs import ValidationErrorKind as Kind

from extproc.contract.bounded import Bounded
from extproc.contract.errors import json_type, quoted
from extproc.contract.json_body import encode
from extproc.contract.schema_graph import SchemaGraph, without_empty
from extproc.contract.schemas import Json, one_of_types, written

FaultCode: TypeAlias = Literal["unknown_tool_call", "malformed_tool_arguments", "invalid_tool_arguments"]


@dataclass(frozen=True, slots=True)
class Violation:
    """What is wrong with a call. `message` names the tool and the place, and quotes no value of the arguments."""

    code: FaultCode
    message: str


class ArgumentChecker:
    """Checks calls of the given tools (OpenAI tool definitions, by name). A schema is compiled when its tool is called,
    unless it is known already."""

    def __init__(self, tools: Mapping[str, Mapping[str, Any]]) -> None:
        self._tools = tools
        self._checks: dict[str, SchemaCheck | None] = {}

    def violation(self, name: str, arguments: str) -> Violation | None:
        """What is wrong with a call, None if nothing is. Empty arguments count as `{}`."""
        if name not in self._tools:
            return Violation(
                "unknown_tool_call", f"The model called {quoted(name)}, which is none of the tools it was offered."
            )
        of_the_call = f"The arguments of the call to {quoted(name)}"
        try:
            value = jiter.from_json(arguments.strip().encode() or b"{}", allow_inf_nan=False)
        except UnicodeEncodeError:
            return Violation("malformed_tool_arguments", f"{of_the_call} hold half of a surrogate pair.")
        except ValueError as error:
            return Violation("malformed_tool_arguments", f"{of_the_call} are not valid JSON: {error}.")
        if not isinstance(value, dict):
            return Violation("malformed_tool_arguments", f"{of_the_call} are {json_type(value)}; expected an object.")
        if name not in self._checks:
            self._checks[name] = schema_check(self._tools[name]["function"].get("parameters"))
        check = self._checks[name]
        broken = check.broken_rule(value, len(arguments)) if check is not None else None
        return (
            None if broken is None else Violation("invalid_tool_arguments", f"{of_the_call} break its schema{broken}.")
        )


_LARGEST_PATTERN = 100_000  # bytes, compiled
_MOST_SUBSCHEMAS = 5_000  # take 0.1 s to compile
_MOST_PATTERNS = 200  # take 20 MB
_MOST_WORK = 100_000  # subschemas met, and characters matched
_MOST_ROUNDS = 500
_MOST_COPIED = 5_000_000  # characters of arguments, in errors
_ERROR = 200  # characters that take as long as an error itself


_CHECKS: Bounded[SchemaCheck | None] = Bounded(8 * 1024 * 1024)
"""By the JSON texts of their schemas: some 200, as agents have them."""
_OF_A_BYTE, _OF_AN_OBJECT = 20, 1000
"""Bytes that a check takes for each of its schema's text, and for each object and array in it: more than was measured
(29 kB for an agent's tool, 1.1 MB for 300 schemas that nest four levels)."""
_LONGEST_KEPT = 16 * 1024


def schema_check(parameters: Any) -> SchemaCheck | None:
    """The check that a schema is good for, if any. Compiled once as long as it is known: a client brings the same
    schemas with every request, and what is made of one depends on its text alone."""
    if not isinstance(parameters, dict) or not parameters:
        return None
    try:
        text = encode(parameters)
        if len(text) > _LONGEST_KEPT:
            return _new_check(parameters)
        with suppress(KeyError):
            return _CHECKS[text]
        parameters = jiter.from_json(text, allow_inf_nan=False)  # nothing of the request is kept
    except (TypeError, ValueError, RecursionError):  # a server's tool that is no JSON
        return _new_check(parameters)
    check = _new_check(parameters)
    if check is None or not check.has_patterns:  # compiled ones grow as they are used
        objects = text.count(b"{") + text.count(b"[")
        _CHECKS.keep(text, check, _OF_A_BYTE * len(text) + _OF_AN_OBJECT * objects)
    return check


def _new_check(parameters: Json) -> SchemaCheck | None:
    graph = SchemaGraph(parameters)
    if len(graph.subschemas) > _MOST_SUBSCHEMAS or graph.dead_ends or not graph.fits_meta_schema():
        return None
    keywords = Counter(keyword for _, schema in graph.subschemas for keyword in schema)
    patterns = keywords["pattern"] + sum(len(schema.get("patternProperties", ())) for _, schema in graph.subschemas)
    if patterns > _MOST_PATTERNS or keywords.keys() & _FOLLOWED_WHILE_CHECKING:
        return None
    is_of_one_draft = keywords["$schema"] == ("$schema" in parameters)
    has_exponential = bool(keywords.keys() & _EXPONENTIAL)
    whole = _compiled(parameters, graph) if is_of_one_draft and not has_exponential else None
    if whole is None and not graph.is_known_whole:
        return None  # what lies out of sight can't be weakened
    validator = whole or _compiled(_weakened(graph), graph)
    if validator is None:
        return None
    own_work = {id(schema): _own_work(schema) for _, schema in graph.subschemas}
    met_once = not graph.references and not keywords["patternProperties"]
    return SchemaCheck(
        graph,
        validator,
        own_work,
        work_by_character=sum(own_work.values()) if met_once else math.inf,
        has_alternatives=bool(keywords.keys() & {"anyOf", "oneOf"}),
        has_patterns=patterns > 0,
    )


_FOLLOWED_WHILE_CHECKING = {"$dynamicRef", "$recursiveRef"}
_EXPONENTIAL = {"unevaluatedItems", "unevaluatedProperties"}  # where branches nest: 20 levels of `anyOf` take 0.4 s


def _compiled(schema: Json, graph: SchemaGraph) -> Validator | None:
    """None if jsonschema-rs can't make sense of the schema: most of all, of a pattern."""
    ignored = {"$schema"}  # the dialect has been chosen
    if all(reference.holder["$ref"].startswith("#") for reference in graph.references):
        ignored.add(graph.dialect.identifier)  # many are no URI
    with suppress(ValueError):
        return graph.dialect.validator(
            {keyword: value for keyword, value in schema.items() if keyword not in ignored},
            offline=True,
            validate_formats=False,  # as 2020-12 has it: a note
            pattern_options=RegexOptions(size_limit=_LARGEST_PATTERN),
        )
    return None


def _weakened(graph: SchemaGraph) -> Json:
    """A copy without what can't be checked. What it refuses, the schema refuses too.

    That is why it also leaves out the keywords that refuse more if what is in them refuses less.
    """
    return graph.copies(lambda schema: _weaker(without_empty(schema, graph.dialect)))[id(graph.root)]


def _weaker(schema: Json) -> Json:
    weaker = {
        keyword: value
        for keyword, value in schema.items()
        if keyword not in _LEFT_OUT and (keyword != "pattern" or _is_known_pattern(value))
    }
    if "oneOf" in weaker:
        at_least_one = weaker.pop("oneOf")
        weaker.setdefault("anyOf", at_least_one)
    patterns = weaker.get("patternProperties")
    if isinstance(patterns, dict) and not all(map(_is_known_pattern, patterns)):
        weaker["patternProperties"] = {name: inner for name, inner in patterns.items() if _is_known_pattern(name)}
        weaker.pop("additionalProperties", None)
    return weaker


_CONTRARY = {"not", "if", "then", "else", "maxContains"} | _EXPONENTIAL
_LEFT_OUT = _CONTRARY | {"$schema"}  # of a schema in another, which jsonschema-rs would read by a draft of its own


def _is_known_pattern(pattern: object) -> bool:
    try:
        Draft202012Validator({"pattern": pattern}, pattern_options=RegexOptions(size_limit=_LARGEST_PATTERN))
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """A schema that arguments can be held against."""

    graph: SchemaGraph
    validator: Validator
    own_work: Mapping[int, int]
    """How much each subschema takes where it is met, by its identity."""
    work_by_character: float
    """How much work a character of arguments makes at most, as far as the schema alone can tell."""
    has_alternatives: bool
    has_patterns: bool

    def broken_rule(self, arguments: Any, length: int) -> str | None:
        """Where arguments of so many characters break which rule of the schema. None if they break none."""
        if self.work_by_character * length > _MOST_WORK and self._work(arguments) is None:
            return None
        if self.validator.is_valid(arguments):
            return None
        if self.has_alternatives:  # their error holds all errors of all of them, each with a copy of the value
            work = self._work(arguments)
            if work is None or work * (length + _ERROR) > _MOST_COPIED:
                return ""
        try:
            self.validator.validate(arguments)
        except ValidationError as error:
            cause = _cause(error)
            place = self._place(cause.instance_path, arguments)
            return f" at '{place}': {_rule(cause)}" if place else f": {_rule(cause)}"
        return None

    def _work(self, arguments: Any) -> int | None:
        return _work(self.graph, self.own_work, arguments)

    def _place(self, path: list[str | int], arguments: Any) -> str:
        """A place in the arguments. What the schema doesn't call by name is content, not structure."""
        known = {name for _, schema in self.graph.subschemas for name in schema.get("properties", ())}
        shown = (step if isinstance(step, int) or step in known else "*" for step in _steps(path, arguments))
        return written(shown).removeprefix(".")


def _steps(path: list[str | int], value: Any) -> Iterator[str | int]:
    """The path of an error in a value. jsonschema-rs makes numbers of names that look like one."""
    for step in path:
        if isinstance(step, int) and isinstance(value, dict):
            alike = (name for name in value if name[-1:].isdigit() and (name.lstrip("+0") or "0") == str(step))
            step = next(alike, str(step))
        yield step
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):  # it has left out a name that is empty
            value = None


def _cause(error: ValidationError) -> ValidationError:
    """Of alternatives that all are broken, the error of the one that the value was meant for, if there is but one."""
    while isinstance(error.kind, Kind.AnyOf | Kind.OneOfNotValid):
        path = error.instance_path
        meant = [errors for errors in error.kind.context if not any(_is_of_another_kind(it, path) for it in errors)]
        if len(meant) != 1:
            break
        error = meant[0][0]
    return error


def _is_of_another_kind(error: ValidationError, path: list[str | int]) -> bool:
    """By the value's type, or by a property that says which alternative it is."""
    if isinstance(error.kind, Kind.Constant):
        return len(error.instance_path) <= len(path) + 1
    return isinstance(error.kind, Kind.Type | Kind.Enum) and error.instance_path == path


_RULES: dict[type, tuple[str, str | None]] = {
    Kind.AdditionalProperties: ("it has properties that the schema doesn't name", None),
    Kind.AnyOf: ("it fits none of the alternatives", None),
    Kind.Constant: ("expected {}", "expected_value"),
    Kind.Contains: ("it has too few or too many elements of the kind that 'contains' asks for", None),
    Kind.Enum: ("expected one of {}", "options"),
    Kind.ExclusiveMaximum: ("expected less than {}", "limit"),
    Kind.ExclusiveMinimum: ("expected more than {}", "limit"),
    Kind.FalseSchema: ("the schema allows nothing here", None),
    Kind.MaxItems: ("expected at most {} elements", "limit"),
    Kind.MaxLength: ("expected at most {} characters", "limit"),
    Kind.MaxProperties: ("expected at most {} properties", "limit"),
    Kind.Maximum: ("expected at most {}", "limit"),
    Kind.MinItems: ("expected at least {} elements", "limit"),
    Kind.MinLength: ("expected at least {} characters", "limit"),
    Kind.MinProperties: ("expected at least {} properties", "limit"),
    Kind.Minimum: ("expected at least {}", "limit"),
    Kind.MultipleOf: ("expected a multiple of {}", "multiple_of"),
    Kind.Not: ("it fits what 'not' rules out", None),
    Kind.OneOfMultipleValid: ("it fits more than one of the alternatives, but may fit only one", None),
    Kind.OneOfNotValid: ("it fits none of the alternatives", None),
    Kind.Pattern: ("expected a string that matches {}", "pattern"),
    Kind.PropertyNames: ("it has a property whose name the schema doesn't allow", None),
    Kind.Required: ("the property {} is missing", "property"),
    Kind.UniqueItems: ("expected every element only once", None),
}
"""Rules in words, each with the attribute of the error's kind that belongs in it: it comes from the schema."""


def _rule(error: ValidationError) -> str:
    types = _types(error)
    if types:
        return f"expected {one_of_types(types)}, got {json_type(error.instance)}"
    kind = type(error.kind)
    if kind is Kind.FalseSchema and error.schema_path[-1:] == ["additionalProperties"]:
        kind = Kind.AdditionalProperties  # that is what it's called where the schema names properties
    words, attribute = _RULES.get(kind, (f"it breaks the rule of '{error.kind.name}'", None))
    return words.format(_schemas_own(getattr(error.kind, attribute))) if attribute else words


def _types(error: ValidationError) -> list[str]:
    """The types that would be right, if it is the type that is wrong, be it in each of several alternatives."""
    match error.kind:
        case Kind.Type(types=types):
            return types
        case Kind.AnyOf(context=context) | Kind.OneOfNotValid(context=context):
            first = [errors[0] for errors in context if errors]
            if all(isinstance(it.kind, Kind.Type) and it.instance_path == error.instance_path for it in first):
                return list(dict.fromkeys(name for it in first for name in _types(it)))
    return []


def _schemas_own(value: object) -> str:
    """A value of the schema's in a message."""
    if isinstance(value, list):
        return ", ".join(map(_schemas_own, value[:10])) + (", …" if len(value) > 10 else "")
    return quoted(value) if isinstance(value, str) else json.dumps(value, default=str)[:100]


def _work(graph: SchemaGraph, own_work: Mapping[int, int], arguments: Any) -> int | None:
    """How much checking takes at most, in subschemas met and characters matched. None if that is too much.

    Everything that meets in a round is counted at once, so that this is quick where checking would not be.
    """
    root = graph.root
    meetings: dict[tuple[int, int], tuple[Json, Any, int]] = {(id(root), id(arguments)): (root, arguments, 1)}
    work = 0
    for _ in range(_MOST_ROUNDS):
        following: dict[tuple[int, int], tuple[Json, Any, int]] = {}
        for schema, value, times in meetings.values():
            work += times * (own_work[id(schema)] + _matched(schema, value))
            for inner, place in _met_within(graph, schema, value):
                key = id(inner), id(place)
                following[key] = inner, place, times + (following[key][2] if key in following else 0)
                if (work := work + times) > _MOST_WORK:
                    return None
            if work > _MOST_WORK:
                return None
        if not following:
            return work
        meetings = following
    return None


def _own_work(schema: Json) -> int:
    """How much a subschema takes by itself. jsonschema-rs goes through all that a keyword holds, but looks words up."""
    held = 0
    for keyword, value in schema.items():
        if keyword == "enum" and isinstance(value, list):
            held += sum(isinstance(option, dict | list) for option in value)
        elif isinstance(value, dict | list):
            held += len(value)
    return 1 + len(schema) + held // _HELD


_HELD = 50  # booleans or names in a keyword that take as long as a subschema


def _matched(schema: Json, value: Any) -> int:
    """How many characters a subschema's patterns see."""
    if isinstance(value, str):
        return len(value) if "pattern" in schema else 0
    patterns = schema.get("patternProperties")
    return len(patterns) * sum(map(len, value)) if isinstance(patterns, dict) and isinstance(value, dict) else 0


def _met_within(graph: SchemaGraph, schema: Json, value: Any) -> Iterator[tuple[Json, Any]]:
    """The subschemas that a schema may hold a value, or something in it, against."""
    target = graph.targets.get(id(schema))
    if isinstance(target, dict):
        yield target, value
    for keyword, held in schema.items():
        inners: Iterable[Any] = ()
        if keyword in graph.dialect.applicators:
            inners = held if isinstance(held, list) else [held]
        elif keyword in graph.dialect.named and isinstance(held, dict):
            if keyword == "properties" and isinstance(value, dict):
                yield from (
                    (inner, value[name]) for name in held.keys() & value.keys() if isinstance(inner := held[name], dict)
                )
            inners = held.values()
        places = _places(keyword, value)
        yield from ((inner, place) for inner in inners if isinstance(inner, dict) for place in places)


_OF_MEMBERS = {"additionalProperties", "patternProperties"}
_OF_ELEMENTS = {"additionalItems", "contains", "items", "prefixItems"}
_OF_NOTHING = {"$defs", "definitions", "contentSchema", "properties"}  # properties: only of those of the same name


def _places(keyword: str, value: Any) -> Sequence[Any]:
    """What a keyword's subschemas speak of."""
    if keyword in _OF_MEMBERS:
        return list(value.values()) if isinstance(value, dict) else ()
    if keyword in _OF_ELEMENTS:
        return value if isinstance(value, list) else ()
    if keyword == "propertyNames":
        return list(value) if isinstance(value, dict) else ()
    return () if keyword in _OF_NOTHING else (value,)
