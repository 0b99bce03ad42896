"""Pydantic models of tools' parameters, made from their JSON Schemas, by which the arguments of a call are read.

As lenient as Pydantic is, because models write `"5"` for 5, but nothing that is a boolean becomes a number. What is
optional and not there is its default, or None; null is as good as not there. What isn't among the properties is left
out, is an error where `additionalProperties` is false, and is passed on where that allows it, or where the schema names
no properties at all. Of the keywords that restrict a value, those are kept that Pydantic knows.
"""

from __future__ import annotations

import functools
import operator
from typing import Annotated, Any, Literal, TypeAlias

from jsonschema_rs import Draft202012Validator, RegexOptions
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
)
from pydantic_core import ErrorDetails, PydanticCustomError, SchemaError

Json: TypeAlias = dict[str, Any]

_RESTRICTIONS = {
    "string": {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern"},
    "number": {"minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt"},
    "array": {"minItems": "min_length", "maxItems": "max_length"},
}
_RESTRICTIONS["integer"] = _RESTRICTIONS["number"]
_NOTHING: Json = {}


class ArgumentsError(Exception):
    """What is wrong first with the arguments of a call."""


class Parameters:
    """How the arguments of one tool are read."""

    def __init__(self, schema: Json | None) -> None:
        """`schema` is a valid one. Raises ValueError where no model can be made of it."""
        try:
            self._model = _model(schema or _NOTHING)
        except (SchemaError, TypeError, RecursionError, OverflowError) as error:
            raise ValueError(f"no model can be made of them: {str(error)[:200]}") from None

    def read(self, arguments: Json) -> Json:
        """The arguments as the tool gets them. Raises ArgumentsError."""
        try:
            return self._model.model_validate(arguments).model_dump(by_alias=True, warnings=False)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = _place(first, arguments)
            raise ArgumentsError(f"{place}: {first['msg']}" if place else first["msg"]) from None
        except (RecursionError, TypeError) as error:  # a restriction may be larger than what it can be compared to
            raise ArgumentsError(str(error)[:200]) from None


def _place(error: ErrorDetails, arguments: Any) -> str:
    """Of a fault in the arguments, without the steps that only the model knows."""
    steps = []
    for step in error["loc"]:
        try:
            arguments = arguments[step]
        except (KeyError, IndexError, TypeError):
            if error["type"] != "missing":
                continue
        steps.append(str(step))
    return ".".join(steps)


def _model(schema: Json) -> type[BaseModel]:
    properties = schema.get("properties") or _NOTHING
    required = schema.get("required") or ()
    fields: Json = {}
    for number, (key, inner) in enumerate(properties.items()):
        inner = inner if isinstance(inner, dict) else _NOTHING
        wanted, default = _type(inner), inner.get("default")
        if key in required:
            fields[f"p{number}"] = (wanted, Field(alias=key))
            continue
        if default is not None and not _takes_null(wanted):
            wanted = Annotated[wanted, BeforeValidator(functools.partial(_or_default, default))]
        fields[f"p{number}"] = (wanted | None if default is None else wanted, Field(default=default, alias=key))
    for number, key in enumerate(key for key in required if key not in properties):
        fields[f"r{number}"] = (Any, Field(alias=key))
    # Its fields have names of their own: a property's may be anything, and a model has methods.
    return create_model("Object", __config__=ConfigDict(extra=_extra(schema)), **fields)


def _extra(schema: Json) -> Literal["allow", "forbid", "ignore"]:
    more = schema.get("additionalProperties")
    if more is False:
        return "forbid"
    return "allow" if more is not None or not schema.get("properties") else "ignore"


def _type(schema: Json) -> Any:
    """What a value that fits the schema is in Python."""
    if "const" in schema:
        return _one_of([schema["const"]])
    if isinstance(enum := schema.get("enum"), list) and enum:
        return _one_of(enum)
    kind = schema.get("type")
    if kind is None:
        options = schema.get("anyOf") or schema.get("oneOf") or ()
        return _union([_type(inner) if isinstance(inner, dict) else Any for inner in options])
    return _union([_typed(one, schema) for one in (kind if isinstance(kind, list) else [kind])])


def _typed(kind: str, schema: Json) -> Any:
    restrictions = {ours: schema[its] for its, ours in _RESTRICTIONS.get(kind, {}).items() if its in schema}
    if "pattern" in restrictions and not _is_pattern(restrictions["pattern"]):
        del restrictions["pattern"]  # Pydantic's engine can't read it; the tool has to look itself
    match kind:
        case "string":
            return Annotated[str, Field(**restrictions)]
        case "integer":
            return Annotated[int, Field(**restrictions), BeforeValidator(_no_boolean)]
        case "number":
            return Annotated[float, Field(allow_inf_nan=False, **restrictions), WrapValidator(_number)]
        case "boolean":
            return bool
        case "null":
            return type(None)
        case "array":
            items = schema.get("items")
            inner = _type(items) if isinstance(items, dict) else Any
            return Annotated[list[inner], Field(**restrictions)]  # type: ignore[valid-type]
        case _:
            return _model(schema)


def _one_of(values: list[Any]) -> Any:
    if all(value is None or isinstance(value, str) for value in values):
        return Literal[tuple(values)]

    def check(value: Any) -> Any:
        for one in values:
            if value == one and isinstance(value, bool) is isinstance(one, bool):
                return one
        raise PydanticCustomError("enum", "Input should be one of {values}", {"values": ", ".join(map(repr, values))})

    return Annotated[Any, AfterValidator(check)]


def _union(types: list[Any]) -> Any:
    return functools.reduce(operator.or_, types) if types else Any


def _takes_null(wanted: Any) -> bool:
    try:
        TypeAdapter(wanted).validate_python(None)
    except ValidationError:
        return False
    return True


def _or_default(default: Any, value: Any) -> Any:
    return default if value is None else value


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("no_boolean", "Input should be a valid number, not a boolean")
    return value


def _number(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    number = read(_no_boolean(value))
    return value if isinstance(value, int) else number  # 5 stays 5


_LARGEST_PATTERN = 100_000
"""Bytes, compiled."""


def _is_pattern(pattern: str) -> bool:
    """Whether the engine can read it, in little memory."""
    try:
        Draft202012Validator({"pattern": pattern}, pattern_options=RegexOptions(size_limit=_LARGEST_PATTERN))
        TypeAdapter(Annotated[str, Field(pattern=pattern)])
    except (SchemaError, ValueError):
        return False
    return True
