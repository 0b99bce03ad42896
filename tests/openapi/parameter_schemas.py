"""The gateway's own checks of parameters, written as JSON Schema: what the document has to say of each."""

from __future__ import annotations

import math
import re
import sys
from typing import Any

from extproc.contract.checks import (
    ArrayOf,
    Boolean,
    Check,
    Either,
    Integer,
    MapOf,
    Number,
    Object,
    OneOf,
    Text,
    Typed,
)

Json = dict[str, Any]


def optional(check: Check) -> Json:
    """A schema of values that may be null, which is the same as leaving them out."""
    schema = required(check)
    if "oneOf" in schema:
        return {"oneOf": [{"type": "null"}, *schema["oneOf"]]}
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    schema["type"] = [*types, "null"]
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
    return schema


def required(check: Check) -> Json:
    """A schema of values that are there."""
    match check:
        case Boolean():
            return {"type": "boolean"}
        case Integer(least, most):
            return {"type": "integer", "minimum": least, "maximum": most}
        case Number():
            return {"type": "number", **_bounds(check)}
        case Text():
            return {"type": "string", **_form(check)}
        case OneOf(choices):
            return {"type": "string", "enum": list(choices)}
        case ArrayOf(element=element, most=most):
            return {"type": "array", "items": required(element), **_unless_none(maxItems=most)}
        case MapOf(value, name, most):
            names = _unless_none(propertyNames=_form(name) or None, maxProperties=most)
            return {"type": "object", **names, "additionalProperties": required(value)}
        case Object():
            return {"type": "object", **_members(check, {})}
        case Typed(variants):
            return {
                "oneOf": [
                    {"type": "object", **_members(variant, {"type": {"const": name}})}
                    for name, variant in variants.items()
                ]
            }
        case Either(one, other):
            first, second = required(one), required(other)
            return {**first, **second, "type": [first["type"], second["type"]]}
        case _:
            raise AssertionError(f"no schema for {check}")


def _members(check: Object, others: Json) -> Json:
    needed = [*others, *check.required]
    members = {n: required(c) if n in check.required else optional(c) for n, c in check.members.items()}
    return {
        **({"required": needed} if needed else {}),
        **({"properties": {**others, **members}} if others or members else {}),
    }


def _bounds(check: Number) -> Json:
    bounded = check.most < sys.float_info.max
    above = check.above if check.above > -math.inf else None
    return _unless_none(
        minimum=check.least if bounded else None, maximum=check.most if bounded else None, exclusiveMinimum=above
    )


def _form(check: Text) -> Json:
    return _unless_none(maxLength=check.longest, pattern=_everywhere(check.form) if check.form else None)


def _everywhere(form: re.Pattern[str]) -> str:
    """The pattern for engines that search for it, and don't all know a NUL by the same name."""
    return f"^{form.pattern}$".replace(r"\0", r"\x00")


def _unless_none(**keywords: object) -> Json:
    return {name: value for name, value in keywords.items() if value is not None}
