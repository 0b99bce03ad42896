"""The recipe: what a server under test is sent, where the defaults mean nothing to it. A YAML file.

A server is a black box: only its owner knows which requests it lets pass, refuses or changes. Without a recipe a
default exchange is played, and the invariants judge.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

from extproc.conformance.host.settings import REQUESTS, RESPONSES, Headers, HttpExchange, HttpMessage

MetadataContext: TypeAlias = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""Filter metadata that the host forwards with each message: by namespace, names and texts."""

PROFILES = ("core", "mutating", "openai")
_DEFAULT_BODY = json.dumps({"model": "conformance", "messages": [{"role": "user", "content": "Hello! " * 30}]}).encode()
_DEFAULT_ANSWER = json.dumps({"object": "conformance", "text": "What goes out comes back. " * 20}).encode()


class RecipeError(Exception):
    """The text names the file, the field, and what is expected there."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds."""

    reply: float = 3.0
    """How long a reply may take before the host gives up."""
    pause: float = 0.05
    """How long the host waits for what need not come."""
    case: float = 30.0
    streams: int = 64
    """Exchanges that are open at once where that is tried."""
    body_mib: int = 5
    """The largest body that is sent to see whether it is taken."""
    too_large_mib: int = 0
    """A body that is over the server's own limit, in MiB; 0: the recipe doesn't say."""
    silence: float = 2.0
    """How long an open exchange is left alone."""


@dataclass(frozen=True, slots=True)
class Openai:
    """For the profile `openai`: a model whose calls the processor reads from its text, and how they are written."""

    model: str = "conformance"
    path: str = "/v1/chat/completions"
    headers: Headers = ()
    """Those of each request beside the usual ones: credentials, for instance."""
    text: str = 'I look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    """What the model says to call `get_weather` with the city Oslo: as the hermes format writes it."""


_BODILESS = (204, 304)


def exchange(
    method: str = "POST",
    path: str = "/conformance",
    headers: Headers = (),
    body: bytes = _DEFAULT_BODY,
    status: int = 200,
    response_headers: Headers = (("content-type", b"application/json"),),
    response_body: bytes = _DEFAULT_ANSWER,
) -> HttpExchange:
    """With the headers that each has: pseudo headers, lengths, an id."""
    typed = (
        ()
        if not body or any(name == "content-type" for name, _ in headers)
        else (("content-type", b"application/json"),)
    )
    length = (("content-length", str(len(body)).encode()),) if body else ()
    request = (
        (":method", method.encode()),
        (":path", path.encode()),
        (":scheme", b"http"),
        (":authority", b"conformance.example"),
        ("x-request-id", b"00000000-0000-4000-8000-000000000000"),
        *headers,
        *typed,
        *length,
    )
    if method == "HEAD" or status in _BODILESS:
        response_body = b""
    back = (
        (":status", str(status).encode()),
        *response_headers,
        *(() if status in _BODILESS else (("content-length", str(len(response_body)).encode()),)),
    )
    return HttpExchange(
        HttpMessage(request, (body,) if body else ()), HttpMessage(back, (response_body,) if response_body else ())
    )


@dataclass(frozen=True, slots=True)
class Refused:
    exchange: HttpExchange
    status: int


@dataclass(frozen=True, slots=True)
class Mutated:
    """What becomes of the bodies; None where the recipe doesn't say."""

    exchange: HttpExchange
    request_body: bytes | None = None
    response_body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    name: str = "defaults"
    profiles: tuple[str, ...] = ("core",)
    passes: HttpExchange = field(default_factory=exchange)
    passes_told: bool = False
    """Whether the recipe names it: then an answer in the upstream's place is a failure."""
    refused: Refused | None = None
    mutated: Mutated | None = None
    layouts: tuple[str, ...] = ()
    """Those that the server claims, `REQUEST/RESPONSE`: refusing one is a failure."""
    metadata: tuple[tuple[str, str], ...] = ()
    """gRPC's initial metadata of each call."""
    metadata_context: MetadataContext = ()
    limits: Limits = field(default_factory=Limits)
    openai: Openai = field(default_factory=Openai)


def load(path: Path) -> Recipe:
    """Raises RecipeError, and OSError."""
    import yaml  # where there is no recipe, it isn't needed

    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: not valid YAML: {str(error).splitlines()[0]}") from None
    try:
        return read(told, path.name)
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from None


def read(told: object, name: str = "recipe") -> Recipe:
    """A recipe of what YAML gives. Raises RecipeError that names the field."""
    top = _mapping(
        told if told is not None else {}, "", {each.name for each in fields(Recipe)} - {"name", "passes_told"}
    )
    passes = _exchange(top["passes"], "passes") if "passes" in top else exchange()
    refused = mutated = None
    if "refused" in top:
        block = _mapping(top["refused"], "refused", _EXCHANGE | {"status"})
        status = block.get("status")
        if not isinstance(status, int) or isinstance(status, bool) or not 200 <= status <= 599:
            raise RecipeError("refused.status: expected the status of the refusal, 200 to 599")
        refused = Refused(_exchange({k: v for k, v in block.items() if k != "status"}, "refused"), status)
    if "mutated" in top:
        block = _mapping(top["mutated"], "mutated", _EXCHANGE | {"becomes"})
        becomes = _mapping(block.get("becomes", {}), "mutated.becomes", {"request_body", "response_body"})
        bodies = {key: _text(value, f"mutated.becomes.{key}").encode() for key, value in becomes.items()}
        mutated = Mutated(_exchange({k: v for k, v in block.items() if k != "becomes"}, "mutated"), **bodies)
    return Recipe(
        name=name,
        profiles=_profiles(top.get("profiles", ["core"])),
        passes=passes,
        passes_told="passes" in top,
        refused=refused,
        mutated=mutated,
        layouts=_chosen(top.get("layouts", []), "layouts", _LAYOUTS),
        metadata=_metadata(top.get("metadata", {})),
        metadata_context=_context(top.get("metadata_context", {})),
        limits=Limits(**_numbers(top.get("limits", {}))),
        openai=_openai(top.get("openai", {})),
    )


_METADATA_NAME, _METADATA_VALUE = re.compile(r"[a-z0-9_.-]+"), re.compile(r"[ -~]*")
"""As gRPC's PROTOCOL-HTTP2.md has Custom-Metadata."""
_EXCHANGE = {"method", "path", "headers", "body", "json", "response"}
_RESPONSE = {"status", "headers", "body", "json"}
_LAYOUTS = tuple(f"{request.name}/{response.name}" for request in REQUESTS for response in RESPONSES)


def _profiles(told: object) -> tuple[str, ...]:
    profiles = _chosen(told, "profiles", PROFILES)
    if not profiles:
        raise RecipeError(f"profiles: expected at least one of {', '.join(PROFILES)}")
    return profiles


def _metadata(told: object) -> tuple[tuple[str, str], ...]:
    pairs = tuple(_pairs(told, "metadata"))
    for name, value in pairs:
        if not _METADATA_NAME.fullmatch(name) or name.endswith("-bin") or name.startswith("grpc-"):
            raise RecipeError(f"metadata.{name}: expected a name of a-z, 0-9, _, - and ., without grpc- or -bin")
        if not _METADATA_VALUE.fullmatch(value):
            raise RecipeError(f"metadata.{name}: expected printable ASCII")
    return pairs


def _openai(told: object) -> Openai:
    block = _mapping(told, "openai", {each.name for each in fields(Openai)})
    texts = {name: _text(value, f"openai.{name}") for name, value in block.items() if name != "headers"}
    return Openai(headers=_headers(block.get("headers", {}), "openai.headers"), **texts)


def _exchange(told: object, where: str) -> HttpExchange:
    block = _mapping(told, where, _EXCHANGE)
    parts: dict[str, Any] = _texts(
        {k: v for k, v in block.items() if k in ("method", "path")}, where, {"method", "path"}
    )
    if "headers" in block:
        parts["headers"] = _headers(block["headers"], f"{where}.headers")
    if (body := _body(block, where)) is not None:
        parts["body"] = body
    elif parts.get("method", "POST") in ("GET", "HEAD", "DELETE", "OPTIONS"):
        parts["body"] = b""
    response = _mapping(block.get("response", {}), f"{where}.response", _RESPONSE)
    if "status" in response:
        if not isinstance(response["status"], int) or not 200 <= response["status"] <= 599:
            raise RecipeError(f"{where}.response.status: expected a number from 200 to 599")
        parts["status"] = response["status"]
    if "headers" in response:
        parts["response_headers"] = _headers(response["headers"], f"{where}.response.headers")
    if (body := _body(response, f"{where}.response")) is not None:
        parts["response_body"] = body
    return exchange(**parts)


def _body(block: Mapping[str, Any], where: str) -> bytes | None:
    if "body" in block and "json" in block:
        raise RecipeError(f"{where}.json: there is a body already")
    if "json" in block:
        return json.dumps(block["json"]).encode()
    return _text(block["body"], f"{where}.body").encode() if "body" in block else None


def _mapping(told: object, where: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(told, dict):
        raise RecipeError(f"{where or 'the file'}: expected a mapping")
    for key in told:
        if key not in known:
            at = f"{where}.{key}" if where else str(key)
            raise RecipeError(f"{at}: no such field; there are: {', '.join(sorted(known))}")
    return told


def _text(told: object, where: str) -> str:
    if not isinstance(told, str):
        raise RecipeError(f"{where}: expected text")
    return told


def _texts(told: object, where: str, known: set[str]) -> dict[str, str]:
    return {key: _text(value, f"{where}.{key}") for key, value in _mapping(told, where, known).items()}


def _pairs(told: object, where: str) -> list[tuple[str, str]]:
    if not isinstance(told, dict):
        raise RecipeError(f"{where}: expected a mapping of names to texts")
    return [(_text(name, where).lower(), _text(value, f"{where}.{name}")) for name, value in told.items()]


def _context(told: object) -> MetadataContext:
    if not isinstance(told, dict) or not all(isinstance(fields, dict) for fields in told.values()):
        raise RecipeError("metadata_context: expected a mapping of namespaces to mappings")
    return tuple(
        (
            _text(namespace, "metadata_context"),
            tuple(_texts(fields, f"metadata_context.{namespace}", {*fields}).items()),
        )
        for namespace, fields in told.items()
    )


def _headers(told: object, where: str) -> Headers:
    return tuple((name, value.encode()) for name, value in _pairs(told, where))


def _chosen(told: object, where: str, known: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(told, list):
        raise RecipeError(f"{where}: expected a list")
    for at, one in enumerate(told):
        if one not in known:
            raise RecipeError(f"{where}[{at}]: expected one of {', '.join(known)}")
    return tuple(told)


_MOST = {"reply": 60, "pause": 1, "case": 600, "streams": 1000, "body_mib": 256, "too_large_mib": 256, "silence": 3600}
_WHOLE = ("streams", "body_mib", "too_large_mib")


def _numbers(told: object) -> dict[str, Any]:
    block = _mapping(told, "limits", set(_MOST))
    for name, value in block.items():
        whole = name in _WHOLE
        if (
            isinstance(value, bool)
            or not isinstance(value, int if whole else (int, float))
            or not 0 < value <= _MOST[name]
        ):
            raise RecipeError(
                f"limits.{name}: expected a {'whole ' if whole else ''}number above 0, at most {_MOST[name]}"
            )
    return dict(block)
