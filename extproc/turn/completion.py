"""What a backend's chat completions endpoint answers, as far as it can be read: completions, and chunks of a stream.

Whatever a server may send is either read or refused (502) with the reason; nothing of it is quoted.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import orjson

from extproc.contract.errors import backend_error, backend_garbage
from extproc.contract.json_body import MOST_NODES
from extproc.contract.json_nodes import count_nodes

Json: TypeAlias = dict[str, Any]

MOST_CHOICES = 128
"""That a request may ask for, and a chunk has."""


def read_completion(body: bytes, asked: int) -> tuple[Json, list[tuple[Json, Json]]]:
    """A completion, and its choices, each with its message: as many as were `asked` for, and all complete."""
    completion = read_object(body)
    choices = completion.get("choices")
    if not isinstance(choices, list) or not choices:
        raise backend_garbage("a completion without choices.")
    for choice in choices:
        if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
            raise backend_garbage("a choice without a message.")
        if not isinstance(choice.get("finish_reason"), str):
            raise backend_garbage("a choice without a finish_reason.")
    if len(choices) < asked:
        raise backend_garbage(too_few(len(choices), asked))
    return completion, [(choice, choice["message"]) for choice in choices]


def read_chunk(data: bytes) -> Json:
    """A chunk, whose choices may be anything."""
    chunk = read_object(data)
    choices = chunk.get("choices")
    if not isinstance(choices, list):
        raise backend_garbage("a chunk without choices.")
    if len(choices) > MOST_CHOICES:
        raise backend_garbage(f"a chunk with more than {MOST_CHOICES} choices.")
    return chunk


def read_object(data: bytes) -> Json:
    """Anything that a backend answers with status 200. Raises the error that it is, if it is one."""
    value = _load(data)
    raise_error(value, data)
    return value


def read_choice(choice: Any) -> tuple[int, Json]:
    """The number and the delta of a chunk's choice."""
    delta = choice.get("delta") if isinstance(choice, dict) else None
    if not isinstance(delta, dict):
        raise backend_garbage("a choice without a delta.")
    index = choice.get("index", 0)
    if not isinstance(index, int):
        raise backend_garbage("a choice whose index isn't a number.")
    if not isinstance(choice.get("finish_reason"), str | None):
        raise backend_garbage("a choice whose finish_reason isn't a string.")
    return index, delta


def too_few(choices: int, asked: int) -> str:
    """What is wrong with an answer of so many choices."""
    return f"{choices} of the {asked} choices that were asked for."


def encoded(value: Json) -> bytes:
    """The JSON text of what was read, or was made of it."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise backend_garbage("it is nested too deeply.") from None


def _load(data: bytes) -> Json:
    if len(data) > MOST_NODES and count_nodes(data, MOST_NODES) > MOST_NODES:
        raise backend_garbage(f"it holds more than {MOST_NODES} JSON values.")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise backend_garbage(f"it is not JSON ({error.msg}).") from None
    if not isinstance(value, dict):
        raise backend_garbage("it is not a JSON object.")
    return value


def raise_error(data: Json, body: bytes) -> None:
    """An error that came with status 200, or inside a stream. `body` is its text."""
    error = data.get("error")
    if not error and data.get("object") != "error":
        return
    code = (error if isinstance(error, dict) else data).get("code")
    raise backend_error(code if isinstance(code, int) and 400 <= code < 600 else 500, body)
