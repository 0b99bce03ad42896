"""How tools reach the model: what the body for the backend holds instead of the client's, one function per mode.

- `native`: the backend does tool calling. It gets OpenAI's own form, legacy requests and choices that vLLM doesn't know
  translated.
- `template`: the backend's chat template shows the tools. `tool_choice: none` keeps the backend's own parser out of it
  (measured, vLLM 0.32: the tools are in the prompt all the same), and the calls are read from the text.
- `prompt`: the tools are written into the system prompt, calls and results into the conversation as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from extproc.chat.second_try import with_words
from extproc.config import Backend, Model
from extproc.openai.choice import NamedTool
from extproc.openai.json_body import encode
from extproc.openai.request import ChatRequest
from extproc.toolcalls import call_syntax
from extproc.tools import PromptStyle, in_call_order, render_conversation
from extproc.tools.conversation import escaped_messages, escaped_tools
from extproc.tools.escaping import Escaper, escaper
from extproc.tools.grammar import structural_tag
from extproc.tools.prompt import demanded
from extproc.tools.wording import answer_in, must_call

Json: TypeAlias = dict[str, Any]

# vLLM removes special tokens from the text unless told otherwise, and a format's markers may be such.
_SHOW_MARKERS: Json = {"skip_special_tokens": False, "spaces_between_special_tokens": False}


def native(request: ChatRequest, model: Model, _backend: Backend) -> Json:
    body: Json = _shown(_told(_ordered(request.messages), request, model), request.tools, model)
    if wants_json(request):
        body["response_format"] = None
    said = request.fields.get("tool_choice")
    if said is not None or request.legacy:
        match request.tool_choice:
            case NamedTool(name):
                body["tool_choice"] = {"type": "function", "function": {"name": name}}
            case choice:
                body["tool_choice"] = choice
    if request.tools and not request.parallel_tool_calls:
        body["parallel_tool_calls"] = False
    elif (said := request.fields.get("parallel_tool_calls")) is not None:
        body["parallel_tool_calls"] = said
    return body


def template(request: ChatRequest, model: Model, backend: Backend) -> Json:
    messages = _told(_ordered(request.messages), request, model)
    body: Json = _shown(messages, request.tools if request.offers_tools else [], model)
    body |= _SHOW_MARKERS
    if request.offers_tools:
        body |= {"tool_choice": "none"}
        forced = _forced(request, model, backend)
        syntax = call_syntax(model.format_name)
        demand = demanded(request)
        if demand is not None and syntax is not None and not forced:
            # Nothing but words can demand the call then.
            body["messages"] = with_words(body["messages"], must_call(demand or None, syntax))
        body |= forced
    return body


def prompt(request: ChatRequest, model: Model, backend: Backend) -> Json:
    syntax = call_syntax(model.format_name)
    assert syntax is not None  # the configuration makes sure of it
    style = PromptStyle(syntax, model.tool_result, model.example, frozenset(model.special_tokens or ()))
    body: Json = {"messages": render_conversation(request, style), **_SHOW_MARKERS}
    if request.offers_tools:
        body |= _forced(request, model, backend)
    return body


BODY_OF_MODE: Mapping[str, Callable[[ChatRequest, Model, Backend], Json]] = {
    "native": native,
    "template": template,
    "prompt": prompt,
}


def escaper_of(model: Model) -> Escaper:
    """For what this model is shown."""
    return escaper(model.format_name, frozenset(model.special_tokens or ()))


def _shown(messages: list[Json], tools: list[Json], model: Model) -> Json:
    """What a chat template shows."""
    if not model.escapes_markers:
        return {"messages": messages, **({"tools": tools} if tools else {})}
    escape = escaper_of(model).offering(tool["function"]["name"] for tool in tools)
    return {
        "messages": escaped_messages(messages, escape),
        **({"tools": escaped_tools(tools, escape)} if tools else {}),
    }


def wants_json(request: ChatRequest) -> bool:
    """Whether the model may call, and is to answer in JSON where it doesn't."""
    return request.offers_tools and request.tool_choice == "auto" and request.text_schema is not None


def _told(messages: list[Json], request: ChatRequest, model: Model) -> list[Json]:
    """With the schema of the answer's text in the system prompt, so that the model knows what it is held to."""
    if not wants_json(request):
        return messages
    words = answer_in(request.text_schema, escaper_of(model))
    if not messages or messages[0]["role"] != "system":
        return [{"role": "system", "content": words}, *messages]
    first, *others = messages
    content = first["content"]
    joined = f"{content}\n\n{words}" if isinstance(content, str) else [*content, {"type": "text", "text": words}]
    return [{**first, "content": joined}, *others]


def _forced(request: ChatRequest, model: Model, backend: Backend) -> Json:
    """What makes the backend's decoder write a call, and none but a valid one, where the request demands it."""
    # The schema of the text would rule out every call, so it goes along in the grammar of both, or not at all.
    unbound: Json = {"response_format": None} if wants_json(request) else {}
    syntax = call_syntax(model.format_name) if backend.structured_outputs else None
    if syntax is None:
        return unbound
    format_ = request.fields.get("response_format") or {}
    asked = request.fields.get("structured_outputs") or format_.get("type", "text") != "text"
    if asked and request.tool_choice == "auto" and not unbound:
        return {}  # the client forces the text itself, and vLLM takes one grammar
    tag = structural_tag(
        syntax,
        request.tools,
        request.tool_choice,
        parallel=request.parallel_tool_calls,
        text_schema=request.text_schema if unbound else None,
        names_only=model.tools == "prompt" and len(request.tools) < len(request.offered),
        thinking="open" if model.thinking == "open" else None,
    )
    if tag is None:
        return unbound
    return {"structured_outputs": {"structural_tag": encode(tag).decode()}, "response_format": None}


def _ordered(messages: list[Json]) -> list[Json]:
    """As chat templates want them: results in the order of their calls, and arguments that can be read."""
    ordered: list[Json] = []
    for item in in_call_order(_with_arguments(messages)):
        ordered += [result.message for result in item] if isinstance(item, list) else [item]
    return ordered


def _with_arguments(messages: list[Json]) -> list[Json]:
    """Chat templates want arguments that can be read: where there are none, `{}`."""
    return [
        {**message, "tool_calls": [_readable(call) for call in message["tool_calls"]]}
        if any(not call["function"]["arguments"].strip() for call in message.get("tool_calls") or ())
        else message
        for message in messages
    ]


def _readable(call: Json) -> Json:
    if call["function"]["arguments"].strip():
        return call
    return {**call, "function": {**call["function"], "arguments": "{}"}}
