"""Makes generated requests keep the rules that JSON Schema can't express: those under `x-relations` in the document.

Nothing else is repaired: only values that the document takes are touched. What breaks its schemas is left alone, and is
then all that is wrong with a request.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from extproc.contract.schema_graph import dialect_of
from tests.openapi.document import Json, is_right, is_right_field

_LEAVES_THE_SCHEMA = ("$schema", "$id", "id", "$ref", "$dynamicRef", "$recursiveRef")


def related(request: Any, *, model: str, legacy: bool) -> Any:
    """A copy that keeps the relations. When it has both tools and functions, `legacy` says which of them stay.

    But those stay that are wrong in themselves.
    """
    request = copy.deepcopy(request)
    if not isinstance(request, dict):
        return request
    if request.get("tools") and request.get("functions"):
        _separate(request, legacy=legacy)
    _relate_messages(request)
    _relate_functions([tool.get("function") for tool in _objects(request.get("tools"))])
    _relate_functions(_objects(request.get("functions")))
    for name, relate in _RELATIONS.items():
        if request.get(name) is not None and is_right_field(name, request[name]):
            relate(request)
    return request | {"model": model} if is_right_field("model", request.get("model")) else request


def _separate(request: Json, *, legacy: bool) -> None:
    forms = (("tools", "tool_choice"), ("functions", "function_call"))
    wrong = [not all(is_right_field(name, request.get(name)) for name in form) for form in forms]
    if wrong[0] != wrong[1]:
        legacy = wrong[1]
    for name in forms[not legacy]:
        request.pop(name, None)


# Messages


def _relate_messages(request: Json) -> None:
    messages = request.get("messages")
    if isinstance(messages, list):
        request["messages"] = list(_conversation(messages))


def _conversation(messages: Sequence[Any]) -> Iterator[Any]:
    known: list[str] = []
    for message in messages:
        if is_right("Message", message):
            _relate_calls(message, known)
            if message["role"] == "tool":
                if not known:
                    known.append("call-0")
                    call = {"id": "call-0", "function": {"name": "asked_before", "arguments": ""}}
                    yield {"role": "assistant", "tool_calls": [call]}
                if message["tool_call_id"] not in known:
                    message["tool_call_id"] = known[-1]
        yield message


def _relate_calls(message: Json, known: list[str]) -> None:
    if calls := message.get("tool_calls"):
        message.pop("function_call", None)
        ids: list[str] = []
        for call in calls:
            ids.append(call["id"] if call["id"] not in ids else f"{call['id']}-{len(ids)}")
            call["id"] = ids[-1]
        known += ids


# Tools, and the choice among them


def _objects(value: Any) -> list[Json]:
    return [element for element in value if isinstance(element, dict)] if isinstance(value, list) else []


def _relate_functions(functions: list[Any]) -> None:
    names: set[str] = set()
    for index, function in enumerate(_objects(functions)):
        name = function.get("name")
        if is_right("Function", {"name": name}):
            function["name"] = name if name not in names else f"{name[:60]}-{index}"
            names.add(function["name"])
        if is_right("Function", function) and function.get("parameters"):
            parameters = _self_contained(function["parameters"])
            function["parameters"] = _strict(parameters) if function.get("strict") else parameters


def _self_contained(schema: Any) -> Any:
    match schema:
        case dict():
            kept = {k: v for k, v in schema.items() if not (k in _LEAVES_THE_SCHEMA and isinstance(v, str))}
            return {name: _self_contained(member) for name, member in kept.items()}
        case list():
            return [_self_contained(element) for element in schema]
        case _:
            return schema


def _strict(schema: Json) -> Json:
    names = list(schema.get("properties", {}))
    properties = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


def _names(request: Json) -> list[str]:
    tools, functions = request.get("tools"), request.get("functions")
    if tools:
        return [tool["function"]["name"] for tool in tools] if is_right_field("tools", tools) else []
    if functions:
        return [function["name"] for function in functions] if is_right_field("functions", functions) else []
    return []


def _relate_tool_choice(request: Json) -> None:
    choice, names = request["tool_choice"], _names(request)
    if request.get("functions") and not request.get("tools"):
        del request["tool_choice"]
    elif not names:
        if choice != "none" and not (choice == "auto" and request.get("tools") is not None):
            del request["tool_choice"]
    elif isinstance(choice, dict):
        references = [choice] if choice["type"] == "function" else choice["allowed_tools"]["tools"]
        for reference in references:
            if reference["function"]["name"] not in names:
                reference["function"]["name"] = names[0]


def _relate_function_call(request: Json) -> None:
    choice, names = request["function_call"], _names(request)
    if request.get("tools") or not (names or choice == "none"):
        del request["function_call"]
    elif isinstance(choice, dict) and choice["name"] not in names:
        choice["name"] = names[0]


# Parameters that need others, and such that don't go with them


def _needs(flag: str) -> Callable[[Json], None]:
    def relate(request: Json) -> None:
        if is_right_field(flag, request.get(flag)):
            request[flag] = True

    return relate


def _relate_structured_outputs(request: Json) -> None:
    outputs, format_ = request["structured_outputs"], request.get("response_format")
    if format_ is not None and is_right_field("response_format", format_) and format_["type"] != "text":
        del request["structured_outputs"]
        return
    given = [kind for kind in _KINDS if outputs.get(kind) is not None]
    for kind in given[1:]:
        del outputs[kind]
    if not given:
        outputs["regex"] = "a+"


def _relate_response_format(request: Json) -> None:
    inner = request["response_format"].get("json_schema")
    schema = inner.get("schema") if isinstance(inner, dict) else None
    if isinstance(schema, dict) and not dialect_of(schema).meta_schema.is_valid(schema):
        inner["schema"] = {"type": "object"}


def _relate_prompt_logprobs(request: Json) -> None:
    if request.get("stream") is True:
        del request["prompt_logprobs"]


def _relate_continue_final_message(request: Json) -> None:
    if request["continue_final_message"] and request.get("add_generation_prompt") is True:
        request["add_generation_prompt"] = False


def _relate_min_tokens(request: Json) -> None:
    given = [request[name] for name in _MOST_TOKENS if request.get(name) is not None]
    if given and is_right_field("max_tokens", given[0]):
        request["min_tokens"] = min(request["min_tokens"], given[0])


_KINDS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
_MOST_TOKENS = ("max_completion_tokens", "max_tokens")
_RELATIONS: Mapping[str, Callable[[Json], None]] = {
    "tool_choice": _relate_tool_choice,
    "function_call": _relate_function_call,
    "stream_options": _needs("stream"),
    "top_logprobs": _needs("logprobs"),
    "logprob_token_ids": _needs("logprobs"),
    "structured_outputs": _relate_structured_outputs,
    "response_format": _relate_response_format,
    "prompt_logprobs": _relate_prompt_logprobs,
    "continue_final_message": _relate_continue_final_message,
    "min_tokens": _relate_min_tokens,
}


def servable(request: Json) -> Json:
    """A right request, kept within what its backend can do: the gateway doesn't know of that."""
    request = dict(request)
    for name in (*_MOST_TOKENS, "min_tokens", "n"):
        if request.get(name) is not None:
            request[name] = min(request[name], 3)
    return request
