"""How tools reach the model: what the body for the backend holds instead of the client's, one function per mode.

- `native`: the backend does tool calling. It gets OpenAI's own form, legacy requests and choices that vLLM doesn't know
  translated.
- `template`: the backend's chat template shows the tools. `tool_choice: none` keeps the backend's own parser out of it
  (measured, vLLM 0.32: the tools are in the prompt all the same), and the calls are read from the text. Other servers
  have another way, or none (`contract.servers`).
- `prompt`: the tools are written into the system prompt, calls and results into the conversation as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

import orjson

from extproc.config import Backend, Model
from extproc.contract.bounded import Bounded
from extproc.contract.json_array import tool_names
from extproc.contract.json_body import encode
from extproc.contract.tool_choice import NamedTool
from extproc.prompts import PromptStyle, in_call_order, render_conversation
from extproc.prompts.conversation import escaped_messages, escaped_tools
from extproc.prompts.escaping import Escaper, escaper
from extproc.prompts.grammar import Thinking, structural_tag, writes_texts
from extproc.prompts.wording import answer_in, must_call, must_call_by_name
from extproc.toolcalls import call_syntax, compile_patterns
from extproc.turn.retry import with_words
from extproc.turn.turn import Turn

Json: TypeAlias = dict[str, Any]


def native(turn: Turn, model: Model, backend: Backend) -> Json:
    body = _shown(turn, turn.tools, model)
    if wants_json(turn):
        body["response_format"] = None
    if "tool_choice" in turn.explicit or turn.legacy:
        body |= _choice(turn, body, backend)
    if turn.tools and not turn.parallel_tool_calls:
        body["parallel_tool_calls"] = False
    elif "parallel_tool_calls" in turn.explicit:
        body["parallel_tool_calls"] = turn.parallel_tool_calls
    return body


def _choice(turn: Turn, body: Json, backend: Backend) -> Json:
    """The choice among the tools, as the backend understands it; None takes out what the body has."""
    match turn.tool_choice, backend.kind.choices:
        case "none", "none":
            return {"tools": None}
        case ("auto", "none"):
            return {}
        case _, "none":  # only words can demand it
            names = [turn.required_tool] if turn.required_tool else [*tool_names(turn.tools)]
            return {"messages": with_words(body["messages"], must_call_by_name(names, None))}
        case NamedTool(name), "modes":  # demanded of one tool, it can only be a call of that one
            only = [tool for tool in body.get("tools") or () if tool["function"]["name"] == name]
            return {"tools": only, "tool_choice": "required"}
        case NamedTool(name), _:
            return {"tool_choice": {"type": "function", "function": {"name": name}}}
        case choice, _:
            return {"tool_choice": choice}


def template(turn: Turn, model: Model, backend: Backend) -> Json:
    body = _shown(turn, turn.tools if turn.offers_tools else [], model)
    body |= backend.kind.as_written
    if turn.offers_tools:
        body |= {"tool_choice": backend.kind.unread}
        forced = _forced(turn, model, backend)
        syntax = call_syntax(model.format_name)
        demand = turn.required_tool
        if demand is not None and syntax is not None and not forced:
            # Nothing but words can demand the call then.
            body["messages"] = with_words(body["messages"], must_call(demand or None, syntax))
        body |= forced
    return body


def prompt(turn: Turn, model: Model, backend: Backend) -> Json:
    rendered = turn.rendered.messages if turn.rendered is not None else render_conversation(turn, style_of(model))
    body: Json = {"messages": rendered, **backend.kind.as_written}
    if turn.offers_tools:
        body |= _forced(turn, model, backend)
    return body


BODY_OF_MODE: Mapping[str, Callable[[Turn, Model, Backend], Json]] = {
    "native": native,
    "template": template,
    "prompt": prompt,
}


def make_ready(models: Iterable[Model]) -> None:
    """Make what the first request for one of these models would have to wait for, or its answer: some 20 ms for each
    format, and 10 for all."""
    compile_patterns()
    for model in models:
        escaper_of(model)


def escaper_of(model: Model) -> Escaper:
    """For what this model is shown."""
    return escaper(model.format_name, frozenset(model.special_tokens or ()))


def style_of(model: Model) -> PromptStyle:
    """In which shape this model is shown tools in prompt mode."""
    syntax = call_syntax(model.format_name)
    assert syntax is not None  # the configuration makes sure of it
    return PromptStyle(syntax, model.tool_result, model.example, frozenset(model.special_tokens or ()))


def _shown(turn: Turn, tools: Sequence[Json], model: Model) -> Json:
    """What a chat template shows."""
    if turn.rendered is not None:
        return {"messages": turn.rendered.messages, **({"tools": turn.rendered.tools} if tools else {})}
    messages = _told(_ordered(turn.messages), turn, model)
    if not model.escapes_markers:
        return {"messages": messages, **({"tools": tools} if tools else {})}
    escape = escaper_of(model).offering(tool_names(tools))
    return {
        "messages": escaped_messages(messages, escape),
        **({"tools": escaped_tools(tools, escape)} if tools else {}),
    }


def opens_thinking(turn: Turn, model: Model) -> bool:
    """Whether the answer begins inside the model's thinking: not where it was switched off, or goes on with words."""
    return model.thinking == "open" and turn.thinks is not False and not turn.begun


def wants_json(turn: Turn) -> bool:
    """Whether the model may call, and is to answer in JSON where it doesn't."""
    return turn.offers_tools and turn.tool_choice == "auto" and turn.text_schema is not None


def _told(messages: list[Json], turn: Turn, model: Model) -> list[Json]:
    """With the schema of the answer's text in the system prompt, so that the model knows what it is held to."""
    if not wants_json(turn):
        return messages
    words = answer_in(turn.text_schema, escaper_of(model))
    if not messages or messages[0]["role"] != "system":
        return [{"role": "system", "content": words}, *messages]
    first, *others = messages
    content = first["content"]
    joined = f"{content}\n\n{words}" if isinstance(content, str) else [*content, {"type": "text", "text": words}]
    return [{**first, "content": joined}, *others]


def _forced(turn: Turn, model: Model, backend: Backend) -> Json:
    """What makes the backend's decoder write a call, and none but a valid one, where the request demands it."""
    has_strict = model.forced or turn.rendered is None or turn.rendered.has_strict_tools
    if turn.rendered is not None and turn.tool_choice == "auto" and not has_strict:
        return {}  # as below, without a look at the tools
    # The schema of the text would rule out every call, so it goes along in the grammar of both, or not at all.
    unbound: Json = {"response_format": None} if wants_json(turn) else {}
    syntax = call_syntax(model.format_name) if backend.can_force else None
    if syntax is None:
        return unbound
    format_ = turn.parameters.get("response_format") or {}
    asked = turn.parameters.get("structured_outputs") or format_.get("type", "text") != "text"
    if asked and turn.tool_choice == "auto" and not unbound:
        return {}  # the client forces the text itself, and vLLM takes one grammar
    names_only = model.tools == "prompt" and len(turn.tools) < len(turn.offered)
    text_schema = turn.text_schema if unbound else None
    thinking: Thinking | None = "open" if opens_thinking(turn, model) else None
    texts = turn.texts
    form = (model.format_name, turn.tool_choice, turn.parallel_tool_calls, names_only, thinking, texts, model.forced)
    key = blake2b(encode({"asked": repr(form), "text_schema": text_schema, "tools": turn.tools})).digest()
    try:
        text = _TAGS[key]
    except KeyError:
        tag = structural_tag(
            syntax,
            turn.tools,
            turn.tool_choice,
            parallel=turn.parallel_tool_calls,
            text_schema=text_schema,
            names_only=names_only,
            thinking=thinking,
            texts=texts,
            forced=model.forced,
        )
        text = encode(tag).decode() if tag is not None else None
        _TAGS.keep(key, text, 300 + len(text or "") * 4)
    if text is None:
        return unbound
    if backend.kind.forced_by == "response_format":
        return {"response_format": orjson.loads(text)}
    return {"structured_outputs": {"structural_tag": text}, "response_format": None}


def is_forced(body: Json) -> bool:
    """Whether what a mode says makes the decoder write calls."""
    return body.get("structured_outputs") is not None or _is_tag(body.get("response_format"))


def _is_tag(response_format: Json | None) -> bool:
    return response_format is not None and response_format.get("type") == "structural_tag"


_TAGS: Bounded[str | None] = Bounded(8 * 1024 * 1024)
"""Structural tags, by a digest of all that they depend on: a client demands calls of the same tools again and again.
Reckoned as if each character took the four bytes that it may."""


def unforced_texts(turn: Turn, model: Model, body: Json) -> list[str]:
    """The tools whose text follows its grammar only if the model likes, given the body that the backend gets."""
    tagged = "structural_tag" in (body.get("structured_outputs") or {}) or _is_tag(body.get("response_format"))
    forced = model.tools != "native" and tagged
    syntax = call_syntax(model.format_name) if forced else None
    return [] if syntax is not None and writes_texts(syntax) else list(turn.texts)


def _ordered(messages: Sequence[Json]) -> list[Json]:
    """As chat templates want them: results in the order of their calls, and arguments that can be read."""
    ordered: list[Json] = []
    for item in in_call_order(with_arguments(messages)):
        ordered += [result.message for result in item] if isinstance(item, list) else [item]
    return ordered


def with_arguments(messages: Sequence[Json]) -> list[Json]:
    """Chat templates want arguments that can be read: where there are none, `{}`. Others are the very same objects."""
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
