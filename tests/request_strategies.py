"""Requests that hypothesis makes up: legal ones, the same with something broken in them, and bytes of any kind.

A legal request has everything that the contract allows, the hard parts first: schemas whose properties are named as
keywords, ids that come again, results in any order, markup in every text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st

Json: TypeAlias = dict[str, Any]
Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

MODELS = ("coder", "lenient", "mending", "renamed")
"""What the requests ask for; `coder` keeps every default."""

_HARD_TEXTS = (
    *("", " ", "\n", "\0", "\u200b", "\ufeff", "😀", "é" * 40, "x" * 300, "\\", '"', "'", "```json\n{", "[]", "null"),
    *("<tool_call>", "</tool_call>", "<|im_end|>", "<tool_response>", "[INST]", '{"name": "f", "arguments": {}}'),
)
_HARD_KEYS = (
    *("city", "größe", "", "a b", "a.b", "a/b", "~", "x[0]", "$ref", "$defs", "$id", "type", "properties", "required"),
    *("enum", "items", "anyOf", "additionalProperties", "default", "$schema", "$anchor", "$dynamicRef", "k" * 200, "#"),
)
texts = st.one_of(st.sampled_from(_HARD_TEXTS), st.text(max_size=12))
keys = st.one_of(st.sampled_from(_HARD_KEYS), st.text(max_size=6))
numbers = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30, 10**400]),
    st.floats(allow_nan=False, allow_infinity=False),
)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)
names = st.one_of(
    st.sampled_from(["get_weather", "f", "-", "_", "0", "x" * 64]),
    st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True),
)


def encoded(value: Any, *, ascii_only: bool = False) -> bytes:
    """The JSON text of a value, with integers of any size."""
    return json.dumps(value, ensure_ascii=ascii_only).encode()


# Tools

_annotations = st.one_of(
    st.just({}),
    st.dictionaries(st.sampled_from(["description", "title"]), texts, max_size=1),
    st.dictionaries(st.sampled_from(["default", "x-mine"]), json_values, max_size=1),
)


def _schema(fixed: Json, **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """A schema with some of the keywords."""
    chosen = st.lists(st.sampled_from(sorted(optional)), max_size=2, unique=True) if optional else st.just([])
    keywords = chosen.flatmap(lambda drawn: st.fixed_dictionaries({name: optional[name] for name in drawn}))
    return st.builds(lambda more, annotations: {**fixed, **more, **annotations}, keywords, _annotations)


_some = st.integers(0, 5)
_leaf_schemas: st.SearchStrategy[Any] = st.one_of(
    _schema(
        {"type": "string"},
        enum=st.lists(texts, min_size=1, max_size=3, unique=True),
        minLength=_some,
        maxLength=_some,
        format=st.sampled_from(["date", "email", "regex", "town"]),
        pattern=st.sampled_from(["^a+$", r"^(?<!a)\p{Script=Greek}$", r"\cA", "(", r"(?=a)(b)\1"]),
    ),
    _schema({"type": "integer"}, minimum=numbers, maximum=numbers, multipleOf=st.sampled_from([1, 0.1, 10**30])),
    _schema({"type": "number"}, exclusiveMinimum=numbers, exclusiveMaximum=numbers),
    _schema({"type": ["string", "null"]}),
    _schema({}, const=json_values),
    _schema({}, enum=st.lists(json_values, min_size=1, max_size=3)),
    _schema({"type": "boolean"}),
    _schema({"$ref": "#/$defs/shared"}),
    _schema({"$ref": "#"}),
    st.booleans(),
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return _schema(
        {"type": "object"},
        properties=st.dictionaries(keys, inner, max_size=4),
        required=st.lists(keys, max_size=3, unique=True),
        additionalProperties=st.one_of(st.booleans(), inner),
        patternProperties=st.dictionaries(st.sampled_from(["^x-", "."]), inner, max_size=1),
        minProperties=_some,
    )


_schemas: st.SearchStrategy[Any] = st.recursive(
    _leaf_schemas,
    lambda inner: st.one_of(
        _objects(inner),
        _schema({"type": "array"}, items=inner, prefixItems=st.lists(inner, min_size=1, max_size=2), minItems=_some),
        _schema({}, anyOf=st.lists(inner, min_size=1, max_size=3)),
        _schema({}, allOf=st.lists(inner, min_size=1, max_size=2)),
        _schema({}, oneOf=st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda negated: {"not": negated}, inner),
    ),
    max_leaves=5,
)


@st.composite
def _parameters(draw: Draw) -> Any:
    """The schema of a tool's parameters; what it refers to is there."""
    if draw(st.booleans()):
        return draw(st.sampled_from([None, {}, {"type": "object"}, {"type": "object", "properties": {}}]))
    return {**draw(_objects(_schemas)), "$defs": {"shared": draw(_schemas)}}


def _strict_objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.dictionaries(keys, inner, max_size=4).map(
        lambda properties: {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    )


_strict_leaf = st.sampled_from([{"type": "string"}, {"type": ["integer", "null"]}, {"enum": ["a", "b"]}])
_strict_parameters = _strict_objects(
    st.one_of(
        _strict_leaf,
        _strict_objects(_strict_leaf),
        _strict_objects(_strict_objects(_strict_leaf)),
        st.builds(lambda items: {"type": "array", "items": items}, _strict_objects(_strict_leaf)),
        st.builds(lambda branch: {"anyOf": [branch, {"type": "null"}]}, _strict_objects(_strict_leaf)),
    )
)


@st.composite
def _functions(draw: Draw, *, strict: bool) -> list[Json]:
    made = []
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        function: Json = {"name": name}
        if draw(st.booleans()):
            function["description"] = draw(texts)
        if strict and draw(st.booleans()):
            function |= {"strict": True, "parameters": draw(_strict_parameters)}
        elif draw(st.booleans()):
            function["parameters"] = draw(_parameters())
        made.append(function)
    return made


# Conversations

_text_parts = st.lists(st.builds(lambda text: {"type": "text", "text": text}, texts), min_size=1, max_size=3)
_contents = st.one_of(texts, _text_parts)
_media = st.sampled_from(
    [
        {"type": "image_url", "image_url": {"url": "data:,"}},
        {"type": "image_url", "image_url": "https://example.com/a.png"},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
)
_arguments = st.one_of(
    st.dictionaries(keys, json_values, max_size=3).map(lambda value: json.dumps(value, ensure_ascii=False)),
    st.sampled_from(["", " ", "{}", "[1]", "null", ' {"a": 1}\n', '{"a": 1, "a": 2}']),
)
_IDS = (*(f"call_{number}" for number in range(15)), "é", "x" * 200)
_talk = st.one_of(
    st.fixed_dictionaries({"role": st.just("user"), "content": _contents}, optional={"name": texts}),
    st.fixed_dictionaries({"role": st.sampled_from(["system", "developer"]), "content": _contents}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": _contents},
        optional={"reasoning": texts, "reasoning_content": texts, "refusal": texts, "tool_calls": st.just([])},
    ),
    st.fixed_dictionaries({"role": st.just("assistant"), "refusal": texts.filter(bool)}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": st.just([{"type": "refusal", "refusal": "No."}])}),
)
_looks = st.builds(lambda text, part: {"role": "user", "content": [*text, part]}, _text_parts, _media)


@st.composite
def _called(draw: Draw, waiting: set[str]) -> list[Json]:
    """Calls of one turn, and their results in any order: some missing, some twice, with other messages in between."""
    ids = draw(st.lists(st.sampled_from([name for name in _IDS if name not in waiting]), max_size=3, unique=True))
    calls = [
        {
            "id": call_id,
            **draw(st.sampled_from([{}, {"type": "function"}, {"type": None, "index": 0}])),
            "function": {"name": draw(names), "arguments": draw(_arguments)},
        }
        for call_id in ids
    ]
    content = draw(st.one_of(st.none(), _contents)) if calls else draw(_contents)
    messages: list[Json] = [{"role": "assistant", "content": content, "tool_calls": calls}]
    answered = draw(st.lists(st.sampled_from(ids), max_size=4)) if ids else []
    for call_id in answered:
        messages.append({"role": "tool", "tool_call_id": call_id, "content": draw(_contents)})
        if draw(st.booleans()):
            messages.append(draw(_talk))
    waiting |= set(ids) - set(answered)
    return messages


@st.composite
def _function_called(draw: Draw) -> list[Json]:
    """The same before there were tools."""
    name = draw(names)
    said = {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": draw(_arguments)}}
    returned = {"role": "function", "name": draw(st.one_of(st.just(name), names)), "content": draw(_contents)}
    messages: list[Json] = draw(st.sampled_from([[said, returned], [said], [returned]]))
    return messages


@st.composite
def _conversations(draw: Draw, *, calls: bool) -> list[Json]:
    messages: list[Json] = []
    waiting: set[str] = set()
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["talk", "talk", "calls", "function"])) if calls else "talk"
        match kind:
            case "calls":
                messages += draw(_called(waiting))
            case "function":
                messages += draw(_function_called())
            case _:
                messages.append(draw(_talk))
    return messages


# Whole requests

_PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "max_tokens": st.integers(1, 300),
    "max_completion_tokens": st.integers(1, 300),
    "temperature": st.one_of(st.floats(0, 2), st.integers(0, 2)),
    "top_p": st.floats(0, 1),
    "n": st.integers(1, 3),
    "stop": st.one_of(texts, st.lists(texts, max_size=4)),
    "seed": st.integers(-(2**63), 2**63 - 1),
    "frequency_penalty": st.floats(-2, 2),
    "presence_penalty": st.integers(-2, 2),
    "logit_bias": st.dictionaries(st.integers(0, 99999).map(str), st.floats(-100, 100), max_size=2),
    "response_format": st.sampled_from(
        [
            {"type": "text"},
            {"type": "json_object"},
            {"type": "json_schema", "json_schema": {"name": "trip", "schema": {"type": "object"}, "strict": True}},
            {"type": "structural_tag", "structures": [], "triggers": []},
        ]
    ),
    "user": texts,
    "metadata": st.dictionaries(keys.map(lambda key: key[:64]), texts, max_size=3),
    "reasoning_effort": st.sampled_from("none minimal low medium high xhigh max".split()),
    "service_tier": texts,
    "verbosity": texts,
    "store": st.booleans(),
    "modalities": st.just(["text"]),
    "top_k": st.integers(-1, 100),
    "min_p": st.floats(0, 1),
    "repetition_penalty": st.floats(0.1, 2),
    "chat_template_kwargs": st.dictionaries(keys, json_values, max_size=2),
    "unheard_of": json_values,
}
_parameters_beside = st.lists(st.sampled_from(sorted(_PARAMETERS)), max_size=4, unique=True).flatmap(
    lambda drawn: st.fixed_dictionaries({name: st.one_of(st.none(), _PARAMETERS[name]) for name in drawn})
)


def _choices(called: Sequence[str]) -> st.SearchStrategy[Any]:
    """A `tool_choice` among tools of these names."""
    named = st.sampled_from(called).map(lambda name: {"type": "function", "function": {"name": name}})
    return st.one_of(
        st.sampled_from([None, "none", "auto", "required"]),
        named,
        st.builds(
            lambda mode, tools: {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}},
            st.sampled_from(["auto", "required"]),
            st.lists(named, min_size=1, max_size=3),
        ),
    )


@st.composite
def legal_requests(draw: Draw) -> Json:
    """A request that the contract allows, whatever the model's settings are."""
    request: Json = {"model": draw(st.sampled_from(MODELS)), "messages": []}
    kind = draw(st.sampled_from(["plain", "history", "tools", "tools", "strict", "functions"]))
    request["messages"] = draw(_conversations(calls=kind != "plain"))
    match kind:
        case "plain":
            request["messages"] += draw(st.lists(_looks, max_size=1))
            request |= draw(st.sampled_from([{}, {"tools": []}, {"tools": [], "tool_choice": "auto"}, {"tools": None}]))
        case "tools" | "strict":
            functions = draw(_functions(strict=kind == "strict"))
            request["tools"] = [{"type": "function", "function": function} for function in functions]
            request["tool_choice"] = draw(_choices([function["name"] for function in functions]))
            request["parallel_tool_calls"] = draw(st.sampled_from([None, False, True]))
        case "functions":
            request["functions"] = draw(_functions(strict=False))
            called = [{"name": function["name"]} for function in request["functions"]]
            request["function_call"] = draw(st.sampled_from([None, "none", "auto", *called]))
    request |= draw(_parameters_beside)
    if draw(st.booleans()):
        request["stream"] = True
        request |= draw(st.sampled_from([{}, {"stream_options": {}}, {"stream_options": {"include_usage": True}}]))
    if draw(st.booleans()):
        request |= draw(st.sampled_from([{"logprobs": False}, {"logprobs": True, "top_logprobs": 2}]))
    return request


_strange: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, 0, -1, 1.0, 0.5, 2**63, 10**30, 1e308, [], {}, [[]], [{}]),
        *("", "x", "a\0b", "auto", "function", "text", "object", "#", "#/$defs/", "#/%zz", "http://[", "urn:x#y"),
    ]
)


@st.composite
def broken_requests(draw: Draw) -> list[Any]:
    """A legal request, broken in four ways, each by one or two changes at any place: some may be legal still.

    Four at once, because making a request takes longer than breaking it.
    """
    request = draw(legal_requests())
    return [draw(broken(request)) for _ in range(4)]


@st.composite
def broken(draw: Draw, request: Json) -> Any:
    """A request of any dialect after one or two changes at any place."""
    root: Any = {"request": _copied(request)}
    for _ in range(draw(st.integers(1, 2))):
        places = list(_places(root))
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        match draw(st.sampled_from(["replace", "replace", "replace", "drop", "double", "swap"])), holder:
            case "drop", _ if holder is not root:
                del holder[key]
            case "double", list():
                holder.insert(key, _copied(holder[key]))
            case "double", _:
                holder[draw(keys)] = _copied(holder[key])
            case "swap", _:
                there, other = places[draw(st.integers(0, len(places) - 1))]
                there[other], holder[key] = _copied(holder[key]), _copied(there[other])
            case _:
                holder[key] = _copied(draw(st.one_of(_strange, json_values)))
    return root["request"]


def _places(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Every value inside an object or array, as what holds it and under which key."""
    members = list(holder.items() if isinstance(holder, dict) else enumerate(holder))
    for key, member in members:
        yield holder, key
        if isinstance(member, dict | list):
            yield from _places(member)


def _copied(value: Any) -> Any:
    return json.loads(json.dumps(value))


_PIECES = (
    *rb"""" \ { } [ ] , : 0 - // NaN -Infinity 1e999 null \ud83d \u0000 "model":"coder",""".split(),
    *(b"\0", b"\n", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"[" * 300),
)


@st.composite
def _mangled(draw: Draw) -> bytes:
    """The bytes of a legal request with pieces taken out, put in and said twice."""
    body = encoded(draw(legal_requests()), ascii_only=draw(st.booleans()))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(body)))
        end = min(len(body), start + draw(st.sampled_from([0, 0, 1, 2, 10, 100])))
        piece = draw(st.one_of(st.sampled_from(_PIECES), st.just(body[start:end] * 2), st.binary(max_size=3)))
        body = body[:start] + piece + body[end:]
    return body


bodies = st.one_of(st.binary(max_size=100), json_values.map(encoded), _mangled())
"""Bytes that are a request by chance at best."""
