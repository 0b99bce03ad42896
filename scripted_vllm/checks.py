"""What vLLM accepts: a request body becomes a `ChatRequest`, or the error that vLLM gives.

vLLM checks in three layers, and the first to object answers: the API schema (400 of type "Bad Request", or
"BadRequestError" for rules between fields), then the model's name, then the chat template, lengths and sampling.
Only what was recorded is checked; vLLM ignores fields that it doesn't know, and so does this.

Recordings (`tests/recordings/plain`): every `err_*` and `tools_*`, `so_two_kinds`. From a server with a tool parser
comes the rule about `n` and temperature 0. Not recorded: `max_tokens` that no longer fits behind the prompt (worded as
vLLM's source words it), other numbers out of range, and wrong types other than that of `messages` (put as that one is).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from scripted_vllm import tokens


@dataclass(frozen=True, slots=True)
class Served:
    """The model that a server has loaded."""

    name: str
    max_model_len: int
    tool_parser: bool = False
    """It was started with a tool parser, so that tool calling is its own business."""
    multimodal: bool = False
    """It takes images and the like."""


class RequestError(Exception):
    """vLLM's answer to a request that it doesn't serve; `kind` is the error object's `type`."""

    def __init__(
        self,
        message: str,
        *,
        kind: str = "BadRequestError",
        param: str | None = None,
        status: int = HTTPStatus.BAD_REQUEST,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.param = param
        self.status = int(status)

    @classmethod
    def of_parameter(cls, message: str, param: str, value: object = None) -> RequestError:
        """The wording for a fault of one parameter: vLLM repeats it behind the message."""
        shown = "" if value is None else f", value={value}"
        return cls(f"{message} (parameter={param}{shown})", param=param)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat completion request that vLLM would serve, in the terms that matter for the answer."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Any]
    stream: bool
    include_usage: bool
    continuous_usage: bool
    n: int
    stop: Sequence[str]
    max_tokens: int
    prompt_tokens: int
    logprobs: bool
    top_logprobs: int
    return_token_ids: bool
    may_think: bool
    """Its answer is held to no grammar, and the chat template isn't told to switch thinking off."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """The same for the older completions route."""

    prompt: str
    stream: bool
    include_usage: bool
    stop: Sequence[str]
    max_tokens: int
    prompt_tokens: int


def read_chat(body: bytes, served: Served) -> ChatRequest:
    """Check a body sent to /v1/chat/completions. Raises RequestError."""
    data = _object(body)
    _check_relations(data)
    if "messages" not in data:
        raise _invalid({"type": "missing", "loc": "body.messages", "msg": "Field required", "input": _shown(data)})
    _check_model(data, served)
    tools = data.get("tools") or ()
    if not served.tool_parser:
        _check_tool_choice(data)
    _check_conversation(data["messages"], served)
    prompt_tokens = tokens.count_prompt(data["messages"], tools)
    asked = data.get("max_tokens") if data.get("max_completion_tokens") is None else data["max_completion_tokens"]
    max_tokens = _max_tokens(asked, prompt_tokens, served)
    n = 1 if data.get("n") is None else data["n"]
    _check_sampling(data, n)
    options = data.get("stream_options") or {}
    include_usage = bool(options.get("include_usage"))
    return ChatRequest(
        messages=data["messages"],
        tools=tools,
        stream=bool(data.get("stream")),
        include_usage=include_usage,
        continuous_usage=include_usage and bool(options.get("continuous_usage_stats")),
        n=n,
        stop=_stop(data),
        max_tokens=max_tokens,
        prompt_tokens=prompt_tokens,
        logprobs=bool(data.get("logprobs")),
        top_logprobs=data.get("top_logprobs") or 0,
        return_token_ids=bool(data.get("return_token_ids")),
        may_think=_may_think(data),
    )


def _may_think(data: Mapping[str, Any]) -> bool:
    form, options = data.get("response_format"), data.get("chat_template_kwargs")
    is_text = not isinstance(form, Mapping) or form.get("type") == "text"
    switched_off = isinstance(options, Mapping) and options.get("enable_thinking") is False
    return data.get("structured_outputs") is None and is_text and not switched_off


def read_prompt(body: bytes, served: Served) -> int:
    """Check a body sent to /tokenize with messages, and count its tokens. Raises RequestError."""
    data = _object(body)
    if "messages" not in data:
        raise _invalid({"type": "missing", "loc": "body.messages", "msg": "Field required", "input": _shown(data)})
    _check_model(data, served)
    _check_conversation(data["messages"], served)
    return tokens.count_prompt(data["messages"], data.get("tools") or ())


def read_completion(body: bytes, served: Served) -> CompletionRequest:
    """Check a body sent to /v1/completions. Raises RequestError."""
    data = _object(body)
    _check_relations(data)
    _check_model(data, served)
    prompt = data.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise RequestError("Either prompt or prompt_embeds must be provided and non-empty.", param="prompt")
    prompt_tokens = tokens.count(prompt)
    options = data.get("stream_options") or {}
    return CompletionRequest(
        prompt=prompt,
        stream=bool(data.get("stream")),
        include_usage=bool(options.get("include_usage")),
        stop=_stop(data),
        # The completions route alone has a default of its own.
        max_tokens=_max_tokens(data.get("max_tokens", 16), prompt_tokens, served),
        prompt_tokens=prompt_tokens,
    )


_MAX_N = 128
"""Choices of one request; vLLM's own limit is far higher, and would only cost memory here."""

_Expected = tuple[tuple[type, ...], str, str]
"""The types that a field may have, and how the validator names and describes what it expected."""

_BOOL: _Expected = ((bool,), "bool_type", "boolean")
_INT: _Expected = ((int,), "int_type", "integer")
_STR: _Expected = ((str,), "string_type", "string")
_LIST: _Expected = ((list,), "list_type", "list")
_DICT: _Expected = ((dict,), "dict_type", "dictionary")

_FIELDS: Mapping[str, _Expected] = {
    "stream": _BOOL,
    "stream_options": _DICT,
    "n": _INT,
    "max_tokens": _INT,
    "max_completion_tokens": _INT,
    "temperature": ((int, float), "float_type", "number"),
    "logprobs": _BOOL,
    "top_logprobs": _INT,
    "return_token_ids": _BOOL,
    "stop": ((str, list), "string_type", "string"),
    "tools": _LIST,
}


def _object(body: bytes) -> dict[str, Any]:
    if not body:
        raise _invalid({"type": "missing", "loc": "body", "msg": "Field required", "input": "None"})
    try:
        data = json.loads(body)
    except json.JSONDecodeError as error:
        raise _invalid(
            {
                "type": "json_invalid",
                "loc": f"body.{error.pos}",
                "msg": "JSON decode error",
                "input": _shown({}),
                "ctx": {"error": error.msg},
            }
        ) from error
    except UnicodeDecodeError as error:
        raise RequestError("There was an error parsing the body", kind="Bad Request") from error
    _expect("body", data, _DICT)
    _check_fields(data)
    return dict(data)


def _check_relations(data: Mapping[str, Any]) -> None:
    if data.get("stream_options") and not data.get("stream"):
        raise RequestError.of_parameter("Stream options can only be defined when `stream=True`.", "stream_options")
    kinds = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
    constraints = data.get("structured_outputs")
    if isinstance(constraints, Mapping) and sum(constraints.get(kind) is not None for kind in kinds) > 1:
        raise RequestError(
            "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice')."
        )
    choice = data.get("tool_choice")
    if choice is None or choice == "none":
        return
    if data.get("tools") is None:
        raise RequestError.of_parameter("When using `tool_choice`, `tools` must be set.", "tool_choice")
    if isinstance(choice, Mapping) and _chosen(choice) not in map(_chosen, data["tools"]):
        raise RequestError.of_parameter(
            "The tool specified in `tool_choice` does not match any of the specified `tools`", "tool_choice"
        )


def _check_fields(data: Mapping[str, Any]) -> None:
    for name, expected in _FIELDS.items():
        if data.get(name) is not None:
            _expect(f"body.{name}", data[name], expected)
    if isinstance(data.get("stop"), list):
        for index, one in enumerate(data["stop"]):
            _expect(f"body.stop.{index}", one, _STR)
    if "messages" not in data:
        return
    _expect("body.messages", data["messages"], _LIST)
    for index, message in enumerate(data["messages"]):
        place = f"body.messages.{index}"
        _expect(place, message, _DICT)
        if message.get("tool_calls") is not None:
            _expect(f"{place}.tool_calls", message["tool_calls"], _LIST)
        for list_name in ("content", "tool_calls"):
            parts = message.get(list_name)
            for part in parts if isinstance(parts, list) else ():
                _expect(f"{place}.{list_name}", part, _DICT)
                if list_name == "tool_calls":
                    _expect(f"{place}.{list_name}.function", part.get("function"), _DICT)


def _expect(place: str, value: object, expected: _Expected) -> None:
    types, name, noun = expected
    if (isinstance(value, bool) and bool not in types) or not isinstance(value, types):
        message = f"Input should be a valid {noun}"
        raise _invalid({"type": name, "loc": place, "msg": message, "input": _shown(value)})


def _check_model(data: Mapping[str, Any], served: Served) -> None:
    model = data.get("model")
    if model and model != served.name:
        raise RequestError(
            f"The model `{model}` does not exist. Valid aliases: {served.name}.",
            kind="NotFoundError",
            param="model",
            status=HTTPStatus.NOT_FOUND,
        )


def _check_tool_choice(data: Mapping[str, Any]) -> None:
    """Without a tool parser vLLM serves tools only to those who choose none of them."""
    if not data.get("tools"):
        return
    choice = data.get("tool_choice") or "auto"
    if choice == "auto":
        raise RequestError('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
    if isinstance(choice, Mapping):
        raise RequestError(f'tool_choice=function "{_chosen(choice)}" requires --tool-call-parser to be set')
    if choice != "none":
        raise RequestError(f'tool_choice="{choice}" requires --tool-call-parser to be set')


def _check_conversation(messages: Sequence[Mapping[str, Any]], served: Served) -> None:
    if not messages:
        raise RequestError("Cannot apply chat template to an empty conversation. Provide at least one message.")
    for message in messages:
        content = message.get("content")
        parts = content if isinstance(content, list) else ()
        if not served.multimodal and any(part.get("type") not in ("text", "refusal") for part in parts):
            raise RequestError(f"{served.name} is not a multimodal model")


def _max_tokens(asked: int | None, prompt_tokens: int, served: Served) -> int:
    """How many tokens may follow the prompt. vLLM stops counting a prompt at the first token too many."""
    limit = served.max_model_len
    if asked is not None and asked < 1:
        raise RequestError.of_parameter(f"max_tokens must be at least 1, got {asked}.", "max_tokens", asked)
    if asked is not None and asked > limit:
        raise RequestError.of_parameter(
            f"max_tokens={asked} cannot be greater than max_model_len={limit}. Please request fewer output tokens.",
            "max_tokens",
            asked,
        )
    if prompt_tokens > limit:
        raise RequestError.of_parameter(
            f"This model's maximum context length is {limit} tokens. However, your prompt contains at least "
            f"{limit + 1} input tokens, which exceeds this limit even without any output tokens. "
            "Please reduce the length of the input prompt.",
            "input_tokens",
            limit + 1,
        )
    if asked is not None and prompt_tokens + asked > limit:
        too_many = limit - asked + 1
        raise RequestError.of_parameter(
            f"This model's maximum context length is {limit} tokens. However, you requested {asked} output "
            f"tokens and your prompt contains at least {too_many} input tokens, for a total of at least "
            f"{limit + 1} tokens. Please reduce the length of the input prompt or the number of requested "
            "output tokens.",
            "input_tokens",
            too_many,
        )
    return limit - prompt_tokens if asked is None else asked


def _check_sampling(data: Mapping[str, Any], n: int) -> None:
    if not 1 <= n <= _MAX_N:
        raise RequestError.of_parameter(f"n must be between 1 and {_MAX_N}, got {n}.", "n", n)
    temperature = data.get("temperature")
    if temperature is None:
        return
    if temperature < 0:
        raise RequestError.of_parameter(
            f"temperature must be non-negative, got {float(temperature)}.", "temperature", float(temperature)
        )
    if temperature == 0 and n > 1:
        raise RequestError(f"n must be 1 when using greedy sampling, got {n}.")


def _stop(data: Mapping[str, Any]) -> Sequence[str]:
    stop = data.get("stop") or ()
    return (stop,) if isinstance(stop, str) else tuple(stop)


def _chosen(choice: Any) -> object:
    """The function name in a tool or in a named tool choice."""
    function = choice.get("function") if isinstance(choice, Mapping) else None
    return function.get("name") if isinstance(function, Mapping) else None


def _invalid(fault: Mapping[str, Any]) -> RequestError:
    """The answer to a body that breaks the schema: vLLM shows the validator's own record of the fault."""
    return RequestError(f"1 validation error:\n  {dict(fault)}", kind="Bad Request", param=fault["loc"])


def _shown(value: object) -> str:
    """How a refused value is shown: objects only by their size."""
    return f"<dict of {len(value)} items>" if isinstance(value, dict) else str(value)
