"""The bodies that vLLM 0.32.0 writes, field for field and in its order of keys.

Everything here is pure: a checked request and the model's output in, JSON bytes or SSE events out. JSON has no
spaces and keeps non-ASCII characters as they are. Where each shape was recorded (`tests/recordings/plain`):

    completion            chat, chat_n2, chat_stop, chat_max_completion_tokens, chat_logprobs, tools_choice_none,
                          rf_json_object (non-ASCII)
    stream                chat_stream, chat_stream_length, chat_stream_stop, tools_choice_none_stream
      calls               tools_required, tools_required_stream (`tests/recordings/native`, with a tool parser)
      usage               chat_stream_usage, chat_stream_contusage
      several choices     chat_n2_stream
      logprobs, token ids chat_logprobs_stream, chat_tokenids_stream
    text_completion, text_stream    completions, completions_stream
    error                 err_*, tools_*
    models, VERSION, LOAD models, version, load

The error event inside a stream is not recorded; vLLM's source writes it with json.dumps' default spacing.
"""

from __future__ import annotations

import json
import secrets
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scripted_vllm import tokens
from scripted_vllm.checks import ChatRequest, CompletionRequest, RequestError, Served
from scripted_vllm.replies import Generation

Json = dict[str, Any]

VLLM_VERSION = "0.32.0"
SYSTEM_FINGERPRINT = "vllm-0.32.0-8faa0546"
END_OF_TEXT = "<|im_end|>"
END_OF_TEXT_ID = 151645
"""The token with which the recorded model ends its turn; it counts, and shows in logprobs and token ids."""


def dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def event(value: object) -> bytes:
    """One SSE event."""
    return b"data: " + dump(value) + b"\n\n"


DONE = b"data: [DONE]\n\n"
VERSION = dump({"version": VLLM_VERSION})
LOAD = dump({"server_load": 0})


@dataclass(frozen=True, slots=True)
class Stamp:
    """What makes two answers to the same request differ."""

    model: str
    request_id: str = field(default_factory=lambda: secrets.token_hex(8))
    """vLLM takes it from an X-Request-Id header if there is one."""
    created: int = field(default_factory=lambda: int(time.time()))

    def opening(self, prefix: str, kind: str) -> Json:
        identity = f"{prefix}-{self.request_id}"
        return {"id": identity, "object": kind, "created": self.created, "model": self.model}


def error(fault: RequestError) -> Json:
    return {
        "error": {
            "message": fault.message,
            "type": fault.kind,
            "param": fault.param,
            "code": fault.status,
        }
    }


def error_event(fault: RequestError) -> bytes:
    return b"data: " + json.dumps(error(fault)).encode() + b"\n\n"


def models(served: Served, created: int) -> Json:
    permission = {
        "id": f"modelperm-{secrets.token_hex(8)}",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    card = {
        "id": served.name,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": f"models/{served.name}",
        "parent": None,
        "max_model_len": served.max_model_len,
        "permission": [permission],
    }
    return {"object": "list", "data": [card]}


def completion(stamp: Stamp, request: ChatRequest, choices: Sequence[Generation], prompt: int) -> Json:
    """The answer in one piece; `prompt` is the prompt's token count."""
    return {
        **stamp.opening("chatcmpl", "chat.completion"),
        "choices": [
            {
                "index": index,
                "message": {
                    "role": "assistant",
                    "content": choice.text,
                    "refusal": None,
                    "annotations": None,
                    "audio": None,
                    "function_call": None,
                    **_found(choice),
                    "reasoning": None,
                },
                "logprobs": _logprobs(request, choice, 0, None),
                "finish_reason": _shown_reason(choice),
                "stop_reason": choice.stop_reason,
                "token_ids": None,
                "routed_experts": None,
            }
            for index, choice in enumerate(choices)
        ],
        "service_tier": None,
        "system_fingerprint": SYSTEM_FINGERPRINT,
        "usage": {
            **_usage(prompt, sum(choice.completion_tokens for choice in choices)),
            "prompt_tokens_details": None,
            "completion_tokens_details": None,
        },
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream, with what a script needs to know to interrupt it."""

    data: bytes
    is_piece: bool = False
    """It carries text of the model."""


def stream(stamp: Stamp, request: ChatRequest, choices: Sequence[Generation], prompt: int) -> Iterator[StreamEvent]:
    """The answer as SSE events up to, but not including, `[DONE]`.

    Several choices take turns, each a step later than the one before it, as when their prefills follow one another.
    """
    opening = stamp.opening("chatcmpl", "chat.completion.chunk")

    def chunk(choice: Json, counted: int, **rest: object) -> bytes:
        usage: Json = {}
        if request.continuous_usage:
            usage["usage"] = {**_usage(prompt, counted), "completion_tokens_details": None}
        return event({**opening, "choices": [choice], **usage, **rest})

    for index in range(len(choices)):
        role = {
            "index": index,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
        prompt_ids = _token_ids(request, [tokens.message_text(message) for message in request.messages])
        yield StreamEvent(chunk(role, 0, prompt_token_ids=prompt_ids, prompt_text=None))
    ending: Json = {} if request.include_usage else {"system_fingerprint": SYSTEM_FINGERPRINT}
    deltas = [_deltas(request, index, choice) for index, choice in enumerate(choices)]
    for step in range(max(len(steps) + lag for lag, steps in enumerate(deltas))):
        for lag, steps in enumerate(deltas):
            if 0 <= step - lag < len(steps):
                choice, counted = steps[step - lag]
                last = choice["finish_reason"] is not None
                data = chunk(choice, counted, **(ending if last else {}))
                yield StreamEvent(data, is_piece=_is_piece(choice["delta"]))
    if request.include_usage:
        yield StreamEvent(_usage_event(opening, prompt, choices))


def _deltas(request: ChatRequest, index: int, choice: Generation) -> list[tuple[Json, int]]:
    """A choice's deltas with the tokens counted so far. On `length` the last piece rides with the reason."""
    steps: list[tuple[Json, int]] = []
    parts: list[tuple[Json, str, int]] = [
        ({"content": text}, text, counted) for text, counted in zip(choice.pieces, choice.counts, strict=True)
    ]
    if choice.calls:
        parts += [*_call_deltas(choice), ({}, "", choice.completion_tokens)]
    elif choice.finish_reason == "stop" or not parts:
        parts.append(({"content": ""}, "", choice.completion_tokens))
    before = 0
    for position, (content, text, counted) in enumerate(parts):
        delta: Json = {
            "index": index,
            "delta": content,
            "logprobs": _logprobs(request, choice, before, counted),
            "finish_reason": None,
        }
        if position == len(parts) - 1:
            delta |= {"finish_reason": _shown_reason(choice), "stop_reason": choice.stop_reason}
        delta["token_ids"] = _token_ids(request, [text])
        steps.append((delta, counted))
        before = counted
    return steps


def _call_deltas(choice: Generation) -> Iterator[tuple[Json, str, int]]:
    """Deltas of calls, each with the text and the tokens so far: a call's id and name, then its arguments in pieces."""
    counted = choice.counts[-1] if choice.counts else 0
    for index, (name, arguments) in enumerate(choice.calls):
        opening = {"id": _call_id(), "type": "function", "index": index, "function": {"name": name}}
        pieces = [(opening, name)]
        pieces += [({"index": index, "function": {"arguments": part}}, part) for part in tokens.split(arguments)]
        for call, text in pieces:
            counted += 1
            yield {"content": None, "tool_calls": [call]}, text, counted


def _found(choice: Generation) -> Json:
    """The calls of an answer in one piece; without any there is no such field."""
    calls = [
        {"id": _call_id(), "type": "function", "function": {"name": name, "arguments": arguments}}
        for name, arguments in choice.calls
    ]
    return {"tool_calls": calls} if calls else {}


def _call_id() -> str:
    return f"chatcmpl-tool-{secrets.token_hex(8)}"


def _shown_reason(choice: Generation) -> str:
    """The engine's reason, which knows nothing of calls, as a client sees it."""
    return "tool_calls" if choice.calls else choice.finish_reason


def _is_piece(delta: Json) -> bool:
    return bool(delta.get("content") or delta.get("tool_calls"))


def text_completion(stamp: Stamp, choice: Generation, prompt: int) -> Json:
    """The answer of the older completions route."""
    return {
        **stamp.opening("cmpl", "text_completion"),
        "choices": [
            {
                "index": 0,
                "text": choice.text,
                "logprobs": None,
                "finish_reason": choice.finish_reason,
                "stop_reason": choice.stop_reason,
                "token_ids": None,
                "prompt_logprobs": None,
                "prompt_token_ids": None,
                "routed_experts": None,
            }
        ],
        "service_tier": None,
        "system_fingerprint": SYSTEM_FINGERPRINT,
        "usage": {
            **_usage(prompt, choice.completion_tokens),
            "prompt_tokens_details": None,
            "completion_tokens_details": None,
        },
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }


def text_stream(stamp: Stamp, request: CompletionRequest, choice: Generation, prompt: int) -> Iterator[StreamEvent]:
    opening = stamp.opening("cmpl", "text_completion")
    texts = list(choice.pieces)
    if choice.finish_reason == "stop" or not texts:
        texts.append("")
    for position, text in enumerate(texts):
        last = position == len(texts) - 1
        piece = {
            "index": 0,
            "text": text,
            "logprobs": None,
            "finish_reason": choice.finish_reason if last else None,
            "stop_reason": choice.stop_reason if last else None,
            "prompt_token_ids": None,
            "token_ids": None,
        }
        ending: Json = {"system_fingerprint": SYSTEM_FINGERPRINT} if last and not request.include_usage else {}
        yield StreamEvent(event({**opening, "choices": [piece], **ending}), is_piece=bool(text))
    if request.include_usage:
        yield StreamEvent(_usage_event(opening, prompt, [choice]))


def _usage(prompt: int, completion: int) -> Json:
    return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}


def _usage_event(opening: Json, prompt: int, choices: Sequence[Generation]) -> bytes:
    usage = _usage(prompt, sum(choice.completion_tokens for choice in choices))
    return event({**opening, "choices": [], "usage": usage, "system_fingerprint": SYSTEM_FINGERPRINT})


def _logprobs(request: ChatRequest, choice: Generation, start: int, stop: int | None) -> Json | None:
    """The entries of the tokens from `start` to `stop`. Invented ones are all alike: nothing computed them."""
    if not request.logprobs:
        return None
    entries: Sequence[Mapping[str, Any]] | None = choice.logprobs
    if entries is None:
        texts = [*tokens.split(choice.text), END_OF_TEXT][: choice.completion_tokens]
        entries = [_invented(text, request.top_logprobs) for text in texts]
    return {"content": list(entries[start:stop])}


def _invented(text: str, alternatives: int) -> Json:
    entry: Json = {"token": text, "logprob": -0.125, "bytes": list(text.encode())}
    return {**entry, "top_logprobs": [entry] if alternatives else []}


def _token_ids(request: ChatRequest, texts: Sequence[str]) -> list[int] | None:
    """Numbers in a tokenizer's range, the same for the same token; no text is the end of text."""
    if not request.return_token_ids:
        return None
    parts = [part for text in texts for part in tokens.split(text)]
    return [zlib.crc32(part.encode()) % END_OF_TEXT_ID for part in parts] or [END_OF_TEXT_ID]
