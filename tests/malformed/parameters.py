"""Mistakes in the parameters beside messages and tools: types, ranges, and those that depend on each other."""

from __future__ import annotations

from tests.malformed.edits import (
    EMPTY_STRING,
    LONG_ARRAY,
    LONG_STRING,
    MISSING,
    TYPE,
    VALUE,
    Mistake,
    bad,
    both,
    made_from,
    put,
    raw,
)
from tests.malformed.legal import CHOOSING, PLAIN


def _flags(*names: str) -> list[Mistake]:
    return [
        mistake
        for name in names
        for mistake in (
            bad(f"{name} as a string", put(name, "true"), TYPE),
            bad(f"{name} as a number", put(name, 1), TYPE),
            bad(f"{name} as an object", put(name, {}), TYPE),
        )
    ]


def _texts(*names: str) -> list[Mistake]:
    return [
        mistake
        for name in names
        for mistake in (
            bad(f"{name} that is a number", put(name, 7), TYPE),
            bad(f"{name} that is an array", put(name, ["a"]), TYPE),
            bad(f"{name} that is a boolean", put(name, False), TYPE),
        )
    ]


def _bounds(kind: str, outside: float) -> str:
    return f"{kind}_below_min_value" if outside <= 0 else f"{kind}_above_max_value"


def _whole(name: str, *outside: int) -> list[Mistake]:
    return [
        bad(f"{name} as a string", put(name, "1"), TYPE),
        bad(f"{name} as a boolean", put(name, True), TYPE),
        bad(f"{name} in an array", put(name, [1]), TYPE),
        bad(f"{name} with a fraction", put(name, 1.5), TYPE),
        *(bad(f"{name} is {value}", put(name, raw(str(value))), _bounds("integer", value)) for value in outside),
    ]


def _number(name: str, *outside: float) -> list[Mistake]:
    return [
        bad(f"{name} as a string", put(name, "1"), TYPE),
        bad(f"{name} as a boolean", put(name, False), TYPE),
        bad(f"{name} in an object", put(name, {}), TYPE),
        *(bad(f"{name} is {value}", put(name, raw(str(value))), _bounds("decimal", value)) for value in outside),
    ]


_HUGE = 10**30

_STREAM = made_from(
    CHOOSING,
    *_flags("stream"),
    bad("stream_options without a stream", put("stream_options", {"include_usage": True}), VALUE),
    bad("empty stream_options without a stream", put("stream_options", {}), VALUE),
    bad("stream_options of no stream", both(put("stream", False), put("stream_options", {})), VALUE),
    bad("stream_options of a stream that is null", both(put("stream", None), put("stream_options", {})), VALUE),
    bad("stream_options as a string", both(put("stream", True), put("stream_options", "usage")), TYPE),
    bad("stream_options as an array", both(put("stream", True), put("stream_options", [])), TYPE),
    bad("stream_options as a boolean", both(put("stream", True), put("stream_options", False)), TYPE),
    *(
        bad(
            f"{option} as {name}",
            both(put("stream", True), put("stream_options", {option: value})),
            TYPE,
            f"stream_options.{option}",
        )
        for option in ("include_usage", "include_obfuscation")
        for name, value in (("a string", "yes"), ("a number", 0), ("an array", []))
    ),
)
_NUMBERS = made_from(
    PLAIN,
    *_whole("max_tokens", 0, -1),
    *_whole("max_completion_tokens", 0, -_HUGE),
    *_number("temperature", -0.1, 2.1, -1, 3, 1e300, _HUGE),
    *_number("top_p", -0.1, 1.1, 2, _HUGE),
    *_whole("n", 0, -1, 129, _HUGE),
    *_whole("seed", 2**63, -(2**63) - 1, _HUGE),
    *_number("frequency_penalty", -2.1, 2.1, _HUGE),
    *_number("presence_penalty", -2.1, 2.1, -_HUGE),
    *_flags("logprobs", "store"),
    *(
        bad(f"top_logprobs {name}", both(put("logprobs", True), put("top_logprobs", value)), code)
        for name, value, code in (
            ("as a string", "5", TYPE),
            ("as a boolean", True, TYPE),
            ("with a fraction", 1.5, TYPE),
            ("below nought", -1, "integer_below_min_value"),
            ("above 20", 21, "integer_above_max_value"),
        )
    ),
    bad("top_logprobs without logprobs", put("top_logprobs", 5), VALUE),
    bad("top_logprobs of no logprobs", both(put("logprobs", False), put("top_logprobs", 5)), VALUE),
    bad("logit_bias as an array", put("logit_bias", [[50256, 1]]), TYPE),
    bad("logit_bias as a number", put("logit_bias", 1), TYPE),
    bad("a bias as a string", put("logit_bias", {"1": 0, "50256": "1"}), TYPE, "logit_bias.50256"),
    bad("a bias as a boolean", put("logit_bias", {"50256": True}), TYPE, "logit_bias.50256"),
    bad("a bias that is null", put("logit_bias", {"50256": None}), TYPE, "logit_bias.50256"),
    bad("a bias of a word", put("logit_bias", {"the": 1}), VALUE, "logit_bias.the"),
    bad("a bias above 100", put("logit_bias", {"50256": 100.5}), "decimal_above_max_value", "logit_bias.50256"),
    bad("a bias below -100", put("logit_bias", {"50256": -101}), "decimal_below_min_value", "logit_bias.50256"),
)
_STRINGS = made_from(
    PLAIN,
    bad("stop that is a number", put("stop", 7), TYPE),
    bad("stop that is an object", put("stop", {}), TYPE),
    bad("stop that is a boolean", put("stop", False), TYPE),
    bad("five stops", put("stop", ["a", "b", "c", "d", "e"]), LONG_ARRAY),
    bad("a stop that is a number", put("stop", ["a", 7]), TYPE, "stop[1]"),
    bad("a stop that is null", put("stop", [None]), TYPE, "stop[0]"),
    bad("a stop in an array", put("stop", ["a", "b", ["c"]]), TYPE, "stop[2]"),
    *_texts("user", "service_tier", "prompt_cache_key", "safety_identifier", "verbosity"),
    bad("reasoning_effort that is a number", put("reasoning_effort", 1), TYPE),
    bad("reasoning_effort as an object", put("reasoning_effort", {"effort": "low"}), TYPE),
    bad("an unknown reasoning_effort", put("reasoning_effort", "extreme"), VALUE),
    bad("an empty reasoning_effort", put("reasoning_effort", ""), VALUE),
    bad("modalities as a string", put("modalities", "text"), TYPE),
    bad("modalities as an object", put("modalities", {}), TYPE),
    bad("a modality that is a number", put("modalities", ["text", 7]), TYPE, "modalities[1]"),
    bad("metadata as a string", put("metadata", "a=b"), TYPE),
    bad("metadata as an array", put("metadata", [["a", "b"]]), TYPE),
    bad("17 metadata", put("metadata", {f"k{number}": "v" for number in range(17)}), "object_above_max_properties"),
    bad("a metadatum that is a number", put("metadata", {"a": "1", "b": 2}), TYPE, "metadata.b"),
    bad("a metadatum that is null", put("metadata", {"b": None}), TYPE, "metadata.b"),
    bad("a metadatum that is an object", put("metadata", {"b": {}}), TYPE, "metadata.b"),
    bad("a metadatum of 513 characters", put("metadata", {"b": "x" * 513}), LONG_STRING, "metadata.b"),
    bad(
        "a metadatum's key of 65 characters",
        put("metadata", {"k" * 65: "v"}),
        "property_name_above_max_length",
        "metadata." + "k" * 65,
    ),
)


_DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def _json_schema(**fields: object) -> dict[str, object]:
    return {"type": "json_schema", "json_schema": {"name": "trip", "schema": {"type": "object"}, **fields}}


_RESPONSE_FORMAT = made_from(
    PLAIN,
    bad("response_format as a string", put("response_format", "json_object"), TYPE),
    bad("response_format as an array", put("response_format", []), TYPE),
    bad("response_format as a boolean", put("response_format", False), TYPE),
    bad("response_format without a type", put("response_format", {}), MISSING, "response_format.type"),
    bad("response_format of type null", put("response_format", {"type": None}), MISSING, "response_format.type"),
    bad("response_format of a numbered type", put("response_format", {"type": 1}), TYPE, "response_format.type"),
    bad("response_format of type array", put("response_format", {"type": []}), TYPE, "response_format.type"),
    bad("response_format of another type", put("response_format", {"type": "xml"}), VALUE, "response_format.type"),
    bad(
        "no json_schema",
        put("response_format", {"type": "json_schema"}),
        MISSING,
        "response_format.json_schema",
    ),
    bad(
        "json_schema as a string",
        put("response_format", {"type": "json_schema", "json_schema": "trip"}),
        TYPE,
        "response_format.json_schema",
    ),
    *(
        bad(
            f"json_schema {name}",
            put("response_format", _json_schema(**fields)),
            code,
            f"response_format.json_schema.{last}",
        )
        for name, fields, code, last in (
            ("whose name is null", {"name": None}, MISSING, "name"),
            ("whose name is a number", {"name": 7}, TYPE, "name"),
            ("whose name is empty", {"name": ""}, EMPTY_STRING, "name"),
            ("whose name has a space", {"name": "a trip"}, VALUE, "name"),
            ("whose name has 65 characters", {"name": "x" * 65}, LONG_STRING, "name"),
            ("whose schema is an array", {"schema": []}, TYPE, "schema"),
            ("whose schema is a string", {"schema": "{}"}, TYPE, "schema"),
            ("whose schema has an unknown type", {"schema": {"type": "text"}}, VALUE, "schema"),
            ("whose schema requires a word", {"schema": {"type": "object", "required": "city"}}, VALUE, "schema"),
            ("whose schema is wrong deep inside", {"schema": {"properties": {"city": {"enum": 1}}}}, VALUE, "schema"),
            ("whose schema breaks its draft", {"schema": {"$schema": _DRAFT_7, "items": 5}}, VALUE, "schema"),
        )
    ),
)
_VLLM = made_from(
    PLAIN,
    bad("top_k as a string", put("top_k", "40"), TYPE),
    bad("top_k with a fraction", put("top_k", 0.5), TYPE),
    *_number("min_p", -0.1, 1.1),
    *_number("repetition_penalty", 0, -1),
)
_TOGETHER = made_from(
    PLAIN,
    bad("structured_outputs of no kind", put("structured_outputs", {}), VALUE),
    bad("structured_outputs whose kind is null", put("structured_outputs", {"json": None}), VALUE),
    bad("structured_outputs with options only", put("structured_outputs", {"disable_any_whitespace": True}), VALUE),
    bad("structured_outputs of two kinds", put("structured_outputs", {"regex": "a+", "choice": ["a"]}), VALUE),
    bad(
        "structured_outputs that deny one kind", put("structured_outputs", {"regex": "a", "json_object": False}), VALUE
    ),
    *(
        bad(
            f"structured_outputs beside {format_['type']}",
            both(put("response_format", format_), put("structured_outputs", {"regex": "a+"})),
            VALUE,
        )
        for format_ in ({"type": "json_object"}, _json_schema(), {"type": "structural_tag"})
    ),
    bad("prompt_logprobs of a stream", both(put("stream", True), put("prompt_logprobs", 0)), VALUE),
    bad("all prompt_logprobs of a stream", both(put("stream", True), put("prompt_logprobs", -1)), VALUE),
    bad(
        "a message that is continued and followed by another",
        both(put("add_generation_prompt", True), put("continue_final_message", True)),
        VALUE,
    ),
    *(
        bad(f"min_tokens above {name}", both(put(name, 9), put("min_tokens", 10)), VALUE)
        for name in ("max_tokens", "max_completion_tokens")
    ),
    bad(
        "min_tokens between both maxima",
        both(put("max_tokens", 12), put("max_completion_tokens", 9), put("min_tokens", 10)),
        VALUE,
    ),
)

ROWS = [*_STREAM, *_NUMBERS, *_STRINGS, *_RESPONSE_FORMAT, *_VLLM, *_TOGETHER]
