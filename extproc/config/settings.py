"""The configuration as typed, immutable settings: what may be said, what it means, and what it is by default.

Nothing here reads a file, opens a socket or looks at a backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from extproc.config.address import Address, check_address, check_listen
from extproc.toolcalls import get_format

Location: TypeAlias = tuple[int | str, ...]


class FieldError(ValueError):
    """A fault between fields, found when all are known: it carries the place that it should be shown at."""

    def __init__(self, location: Location, message: str) -> None:
        super().__init__(message)
        self.location = location


AddressText = Annotated[str, AfterValidator(check_address)]


def _check_format(name: str) -> str:
    get_format(name)
    return name


Name = Annotated[str, Field(min_length=1, max_length=256)]
InvalidCalls: TypeAlias = Literal["pass", "text", "error"]
MalformedHistory: TypeAlias = Literal["error", "repair", "pass"]
ParameterName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]
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

    malformed_history: MalformedHistory = "error"
    """Arguments in earlier turns that are no JSON: refuse the request, mend them, or leave them as they are."""
    invalid_calls: InvalidCalls = "pass"
    """A call of a tool that wasn't offered, or with arguments that are no JSON or break the tool's schema: leave it to
    the client, show it as text, or answer with an error. Anything but `pass` holds each call until it is complete."""
    parallel_strict_calls: bool = False
    """Allows `parallel_tool_calls: true` together with strict tools, as this model's backend can do both."""

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
    parameters: tuple[ParameterName, ...] = ()
    """Request parameters that it takes besides those that vLLM documents."""

    @property
    def endpoint(self) -> Address:
        return Address.parse(self.address)


class Limits(_Settings):
    """What one exchange may use."""

    max_body_bytes: Annotated[int, Field(ge=1024, le=1 << 30)] = 32 * 1024 * 1024
    """The largest request or response body that is buffered; above it the client gets a 413."""


class Config(_Settings):
    """The whole file."""

    listen: Annotated[str, AfterValidator(check_listen)] = "127.0.0.1:10000"
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
                    raise FieldError((field, index, "name"), f"{name!r} is used twice")
        known = {backend.name for backend in self.backends}
        for index, model in enumerate(self.models):
            if model.backend not in known:
                there_are = ", ".join(sorted(known))
                raise FieldError(
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

    @cached_property
    def backends_by_name(self) -> Mapping[str, Backend]:
        return {backend.name: backend for backend in self.backends}
