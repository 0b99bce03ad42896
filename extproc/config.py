"""The YAML configuration as typed, immutable settings.

`load()` turns a file into a `Config` or raises a `ConfigError` whose message names the file, the line and the
field, and says what is wrong. Nothing here opens a socket or looks at a backend.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from extproc.toolcalls import get_format


class ConfigError(Exception):
    """The configuration can't be used; the text says where and why, ready to be shown to a person."""


class Address(NamedTuple):
    """A TCP endpoint; `host` is a name or an IP address without brackets."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `host:port` or `[ipv6]:port`. Raises ValueError with a sentence for the user."""
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"expected host:port such as 127.0.0.1:8000, got {text!r}")
        if "/" in host:
            raise ValueError(f"expected host:port without a scheme or path, got {text!r}")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError(f"an IPv6 address needs brackets, as in [::1]:8000, got {text!r}")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _check_address(text: str) -> str:
    Address.parse(text)
    return text


def _check_listen(text: str) -> str:
    host = Address.parse(text).host
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise ValueError(f"expected an IP address to listen on, such as 127.0.0.1 or 0.0.0.0, got {host!r}") from None
    return text


AddressText = Annotated[str, AfterValidator(_check_address)]


def _check_format(name: str) -> str:
    get_format(name)
    return name


Name = Annotated[str, Field(min_length=1, max_length=256)]
ClusterName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$")]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Model(_Settings):
    """One model as clients see it, and how its backend is to be spoken to."""

    name: Name
    backend: ClusterName
    upstream_model: Name | None = None
    """The model's name at the backend; the same as `name` unless given."""
    tools: Literal["prompt"]
    """How tools reach the model: `prompt` writes them into the system prompt and parses the text."""
    format: Annotated[str, AfterValidator(_check_format)] = "hermes"
    """How the model writes a call, named as vLLM names its parser. In prompt mode: what the prompt asks for."""

    @field_validator("format")
    @classmethod
    def _understands_its_prompt(cls, name: str) -> str:
        if get_format(name).name != "hermes":
            raise ValueError(f"with tools: prompt the prompt asks for calls in the format hermes, not {name!r}")
        return name

    @property
    def upstream_name(self) -> str:
        return self.upstream_model or self.name


class Backend(_Settings):
    """A vLLM server (or several behind one DNS name)."""

    name: ClusterName
    address: AddressText

    @property
    def endpoint(self) -> Address:
        return Address.parse(self.address)


class Limits(_Settings):
    """What one exchange may use."""

    max_body_bytes: Annotated[int, Field(ge=1024, le=1 << 30)] = 32 * 1024 * 1024
    """The largest request or response body that is buffered; above it the client gets a 413."""


class Config(_Settings):
    """The whole file."""

    listen: Annotated[str, AfterValidator(_check_listen)] = "127.0.0.1:10000"
    models: Annotated[tuple[Model, ...], Field(min_length=1)]
    backends: Annotated[tuple[Backend, ...], Field(min_length=1)]
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _references_hold(self) -> Self:
        for field, names in (
            ("models", [model.name for model in self.models]),
            ("backends", [backend.name for backend in self.backends]),
        ):
            for index, name in enumerate(names):
                if name in names[:index]:
                    raise _FieldError((field, index, "name"), f"{name!r} is used twice")
        known = {backend.name for backend in self.backends}
        for index, model in enumerate(self.models):
            if model.backend not in known:
                there_are = ", ".join(sorted(known))
                raise _FieldError(
                    ("models", index, "backend"),
                    f"no backend is named {model.backend!r}; there are: {there_are}",
                )
        return self

    @property
    def listen_address(self) -> Address:
        return Address.parse(self.listen)

    @cached_property
    def models_by_name(self) -> Mapping[str, Model]:
        return {model.name: model for model in self.models}


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


_Location = tuple[int | str, ...]


class _FieldError(ValueError):
    """A fault between fields, found when all are known: it carries the place that it should be shown at."""

    def __init__(self, location: _Location, message: str) -> None:
        super().__init__(message)
        self.location = location


def _describe(fault: ErrorDetails, root: yaml.Node | None, source: str) -> str:
    location: _Location = fault["loc"]
    message = fault["msg"].removeprefix("Value error, ")
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, _FieldError):
        location = cause.location
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


def _line_of(node: yaml.Node | None, location: _Location) -> int:
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
