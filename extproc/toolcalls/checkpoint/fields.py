"""A response template as it is written: its fields, checked, with delimiters taken apart.

What it may say is told in transformers' documentation (`chat_response_parsing`) and in `utils/chat_parsing`, 5.23.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from extproc.toolcalls.checkpoint.patterns import Atom, Kind, Row, alternatives, trimmed
from extproc.toolcalls.checkpoint.problems import ResponseTemplateError, in_part

Json = Mapping[str, Any]

_TOP = {"version", "defaults", "fields", "start_anchor", "start_anchor_pattern"}
_FIELD = {
    *("open", "open_pattern", "close", "close_pattern", "content", "content_args", "repeats", "join", "optional"),
    *("transform", "transform_each"),
}
_THINKING = ("thinking", "reasoning", "reasoning_content")


@dataclass(frozen=True, slots=True)
class Field:
    """One part of an output."""

    opens: tuple[Row, ...] | None
    """Any of these begins it. None: it is what no other field claims."""
    closes: tuple[tuple[str, ...], ...]
    """Any of these ends it: literals in a row, white space between them. Without any it ends with the output."""
    content: str = "text"
    arguments: Json = field(default_factory=dict)
    transform: Any = None
    each: bool = False
    """The content is a list, and `transform` is of its elements."""


@dataclass(frozen=True, slots=True)
class Template:
    """The fields that a chat message has."""

    anchors: tuple[str, ...]
    """What begins the assistant's turn in a prompt."""
    thinking: Field | None
    content: Field | None
    calls: Field | None


def read_template(grammar: Json) -> Template:
    """A response template, or the tokenizer_config.json that holds one. Raises ResponseTemplateError."""
    template = _template(grammar)
    fields = template.get("fields")
    if not isinstance(fields, Mapping) or not fields:
        raise ResponseTemplateError("fields: at least one is needed")
    thinking = [name for name in _THINKING if name in fields]
    if unknown := [name for name in fields if name not in (*thinking[:1], "content", "tool_calls")]:
        raise ResponseTemplateError(f"fields.{unknown[0]}: an answer has nothing but thinking, content and tool_calls")
    read: dict[str, Field] = {}
    for name, one in fields.items():
        with in_part(f"fields.{name}"):
            read[name] = _field(one)
            if name != "tool_calls":
                _check_text(one)
            elif read[name].opens is None:
                raise ResponseTemplateError("nothing begins it")
    if len(implicit := [name for name, one in read.items() if one.opens is None]) > 1:
        raise ResponseTemplateError(f"fields: nothing begins {' or '.join(implicit)}")
    return Template(
        tuple(_literals(template, "start_anchor") or ()),
        read[thinking[0]] if thinking else None,
        read.get("content"),
        read.get("tool_calls"),
    )


def _template(grammar: Json) -> Json:
    if not isinstance(grammar, Mapping):
        raise ResponseTemplateError("expected an object")
    template = grammar
    if "fields" not in grammar and "response_template" in grammar:
        template = grammar["response_template"]
        if not isinstance(template, Mapping):
            raise ResponseTemplateError("response_template: expected an object")
    elif "fields" not in grammar and grammar.keys() & {"response_schema", "x-regex", "properties", "chat_template"}:
        raise ResponseTemplateError("no response_template in it; response_schema, the form before it, can't be read")
    if template.get("version", 1) != 1:
        raise ResponseTemplateError("version: only 1 is known")
    _refuse_unknown(template, _TOP)
    return template


def _field(one: Any) -> Field:
    if not isinstance(one, Mapping):
        raise ResponseTemplateError("expected an object")
    _refuse_unknown(one, _FIELD)
    arguments = one.get("content_args", {})
    if not isinstance(arguments, Mapping):
        raise ResponseTemplateError("content_args: expected an object")
    return Field(
        _opens(one),
        _closes(one),
        one.get("content", "text"),
        MappingProxyType(dict(arguments)),
        one.get("transform"),
        one.get("transform_each", False) is True,
    )


def _refuse_unknown(part: Json, known: set[str]) -> None:
    if unknown := sorted(map(str, part.keys() - known)):
        raise ResponseTemplateError(f"{unknown[0]}: no such part")


def _check_text(one: Json) -> None:
    if one.get("content", "text") != "text":
        raise ResponseTemplateError(f"content: {one['content']!r}, where only 'text' can be handed on as it comes")
    if one.get("transform") is not None:
        raise ResponseTemplateError("transform: text can only be handed on as it comes")
    if one.get("join"):
        raise ResponseTemplateError("join: nothing can be put between pieces of text")


# Delimiters


def _opens(one: Json) -> tuple[Row, ...] | None:
    if (found := _literals(one, "open")) is not None:
        return tuple((Atom(Kind.LITERAL, literal, literal),) for literal in found)
    if "open_pattern" not in one:
        return None
    with in_part("open_pattern"):
        return tuple(map(trimmed, alternatives(_text(one["open_pattern"]))))


def _closes(one: Json) -> tuple[tuple[str, ...], ...]:
    if (found := _literals(one, "close")) is not None:
        return tuple((literal,) for literal in found)
    if "close_pattern" not in one:
        return ()
    closes = []
    with in_part("close_pattern"):
        for row in map(trimmed, alternatives(_text(one["close_pattern"]))):
            for atom in row:
                if atom.kind not in (Kind.LITERAL, Kind.SPACE):
                    raise ResponseTemplateError(f"only literals can end a field, not {atom.source!r}")
            closes.append(tuple(atom.literal for atom in row if atom.literal))
    return tuple(close for close in closes if close)


def _literals(part: Json, key: str) -> list[str] | None:
    if key not in part:
        return None
    if f"{key}_pattern" in part:
        raise ResponseTemplateError(f"{key}: there is {key}_pattern as well")
    value = part[key]
    found = [value] if isinstance(value, str) else value
    if (
        not isinstance(found, Sequence)
        or not found
        or not all(isinstance(literal, str) and literal for literal in found)
    ):
        raise ResponseTemplateError(f"{key}: expected a text, or a list of them")
    return list(found)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ResponseTemplateError("expected a text")
    return value
