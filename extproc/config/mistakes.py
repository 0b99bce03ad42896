"""What is wrong with a value, in the words that all of the configuration's messages have."""

from __future__ import annotations

import difflib
from typing import get_args

from pydantic_core import ErrorDetails

from extproc.config.base import ALIAS_NAME, CLUSTER_NAME, PARAMETER_NAME, Location, Settings
from extproc.config.jwt import CLAIM_NAME, PLAIN_TEXT
from extproc.config.settings import Config
from extproc.config.team import TEAM_NAME
from extproc.config.tools import SERVER_NAME, SERVER_URL

_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "finite_number": "a number",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "int_parsing_size": "an integer",
    "int_type": "an integer",
    "list_type": "a list",
    "model_type": "a mapping",
    "path_type": "a path",
    "string_type": "a string",
    "tuple_type": "a list",
}
"""By pydantic's names of what may be wrong."""
PATTERNS = {
    PLAIN_TEXT: "1 to 512 printable ASCII characters without spaces",
    CLAIM_NAME: "the name of a claim: 1 to 128 letters, digits, '_', '-', '.', ':', '/' and '@'",
    ALIAS_NAME: "a name of at most 256 characters, with a '*' at its end at most",
    PARAMETER_NAME: "a name of 1 to 64 letters, digits, '_', '.' and '-'",
    TEAM_NAME: "a name of 1 to 64 letters, digits, '_', '.', '@' and '-'",
    CLUSTER_NAME: "a name of 1 to 63 letters, digits, '_', '.' and '-', of which the first is a letter or digit",
    SERVER_NAME: "lower-case letters and digits, with single '-' and '_' between them",
    SERVER_URL: "a URL such as https://tools.example.org/mcp, without spaces and '#'",
}
"""What settings with a pattern expect, in words."""


def message_of(fault: ErrorDetails) -> str:
    """The message for what pydantic has found itself."""
    told = fault.get("ctx", {})
    match kind := fault["type"]:
        case "extra_forbidden":
            return f"no such setting{_meant(fault['loc'])}"
        case "missing":
            return "is missing"
        case "literal_error":
            # As YAML spells it.
            return f"expected {told['expected']}".replace("True", "true").replace("False", "false")
        case "too_short":
            return "at least one is needed"
        case "greater_than":
            return f"expected more than {_number(told['gt'])}"
        case "greater_than_equal":
            return f"expected at least {_number(told['ge'])}"
        case "less_than":
            return f"expected less than {_number(told['lt'])}"
        case "less_than_equal":
            return f"expected at most {_number(told['le'])}"
        case "string_too_short":
            return "expected at least one character"
        case "string_too_long":
            return f"expected at most {told['max_length']} characters"
        case "string_pattern_mismatch":
            return f"expected {PATTERNS[told['pattern']]}"
    return f"expected {_EXPECTED[kind]}" if kind in _EXPECTED else fault["msg"]


def _number(limit: float) -> float:
    return int(limit) if limit == int(limit) else limit


def _meant(location: Location) -> str:
    settings: type[Settings] | None = Config
    for part in location[:-1]:
        if isinstance(part, str) and settings is not None:
            settings = _settings_of(settings.model_fields[part].annotation) if part in settings.model_fields else None
    near = difflib.get_close_matches(str(location[-1]), settings.model_fields, n=1, cutoff=0.75) if settings else []
    return f"; did you mean {near[0]!r}?" if near else ""


def _settings_of(annotation: object) -> type[Settings] | None:
    """The settings that a value of this type holds, itself or in a list."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _settings_of(inner)) is not None), None)
