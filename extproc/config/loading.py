"""Reads the YAML file; every fault is told with its file, its line and its field."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from extproc.config.base import FieldError, Location
from extproc.config.settings import Config


class ConfigError(Exception):
    """The configuration can't be used; the text says where and why, ready to be shown to a person."""


def load(path: Path) -> Config:
    """Read and validate the file at `path`. Raises ConfigError naming the file, the line and the field."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: can't be read: {error}") from error
    return parse(text, source=str(path))


def parse(text: str, *, source: str = "configuration") -> Config:
    """Like `load`, for a text; `source` names it in messages."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{source}:{line}: not valid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: not valid YAML: {error}") from error
    if root is not None:
        _refuse_duplicates(root, source)
    if not isinstance(data, dict):
        raise ConfigError(f"{source}:1: expected a mapping with 'models' and 'backends'")
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        faults = error.errors()
        # A sequence whose only item is faulty is also reported as too short: the item's own fault says it all.
        places = [fault["loc"] for fault in faults]
        told = [f for f in faults if not any(p != f["loc"] and p[: len(f["loc"])] == f["loc"] for p in places)]
        raise ConfigError("\n".join(_describe(fault, root, source) for fault in told)) from error


def _refuse_duplicates(node: yaml.Node, source: str) -> None:
    """YAML takes the last of two equal keys and says nothing: a list of models would be lost."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise ConfigError(f"{source}:{key.start_mark.line + 1}: {key.value}: given twice")
            seen.add(key.value)
            _refuse_duplicates(value, source)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_duplicates(item, source)


def _describe(fault: ErrorDetails, root: yaml.Node | None, source: str) -> str:
    location: Location = fault["loc"]
    message = fault["msg"].removeprefix("Value error, ")
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, FieldError):
        location = (*location, *cause.location)
    match fault["type"]:
        case "extra_forbidden":
            message = "no such setting"
        case "too_short":
            message = "at least one is needed"
        case "literal_error":
            message = f"expected {fault['ctx']['expected']}"
        case "missing":
            message = "is missing"
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    return f"{source}:{_line_of(root, location)}: {field}: {message}"


def _line_of(node: yaml.Node | None, location: Location) -> int:
    """The 1-based line of the deepest part of `location` that stands in the document."""
    line = 1
    for part in location:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == part), None)
            if found is None:
                break
            line = found[0].start_mark.line + 1
            node = found[1]
        else:
            break
    return line
