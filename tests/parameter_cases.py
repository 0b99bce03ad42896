"""For each parameter of a request: values that are accepted, and values that are refused."""

from __future__ import annotations

from typing import Any, TypeAlias

Refused: TypeAlias = tuple[Any, str, str]
"""A value, the path of what is wrong with it, and the error's code, in short."""
Case: TypeAlias = tuple[list[Any], list[Refused]]

CODES = {
    "type": "invalid_type",
    "value": "invalid_value",
    "missing": "missing_required_parameter",
    "integer_below": "integer_below_min_value",
    "integer_above": "integer_above_max_value",
    "decimal_below": "decimal_below_min_value",
    "decimal_above": "decimal_above_max_value",
    "empty_string": "empty_string",
    "long_array": "array_above_max_length",
    "long_string": "string_above_max_length",
    "long_name": "property_name_above_max_length",
    "large_object": "object_above_max_properties",
}
INT64 = 2**63


def refusals(name: str, code: str, *values: Any) -> list[Refused]:
    return [(value, name, code) for value in values]


def boolean(name: str) -> dict[str, Case]:
    return {name: ([True, False], refusals(name, "type", "true", 1, 0, 0.0, [], {}))}


def integer(name: str, least: int = -INT64, most: int = INT64 - 1) -> dict[str, Case]:
    outside = refusals(name, "integer_below", least - 1, -(10**5000), -1e308)
    outside += refusals(name, "integer_above", most + 1, 10**5000, 1e308)
    return {name: ([least, most, 1.0], outside + refusals(name, "type", True, 1.5, 1e-308, "1", [1], {}))}


def number(name: str, good: list[float], bad: list[float]) -> dict[str, Case]:
    below = [value for value in (*bad, -(10**5000), float("nan")) if not value > 0]
    above = [value for value in (*bad, 10**5000, float("inf")) if value > 0]
    outside = refusals(name, "decimal_below", *below) + refusals(name, "decimal_above", *above)
    return {name: ([*good], outside + refusals(name, "type", True, False, "1", [1], {}))}


def text(name: str) -> dict[str, Case]:
    return {name: (["", "a", "é\0\n" * 1000], refusals(name, "type", 1, False, ["a"], {}))}


def word(name: str, *words: str) -> dict[str, Case]:
    other = refusals(name, "value", "", "other", words[0].upper(), "x" * 10_000)
    return {name: ([*words], other + refusals(name, "type", 1, [words[0]], {}))}


def token_ids(name: str) -> dict[str, Case]:
    return {
        name: (
            [[], [0, 151643]],
            [
                *refusals(name, "type", 7, "7", {}),
                ([7, "8"], f"{name}[1]", "type"),
                ([7, None], f"{name}[1]", "type"),
                ([-1], f"{name}[0]", "integer_below"),
                ([10**5000], f"{name}[0]", "integer_above"),
            ],
        )
    }


def any_object(name: str) -> dict[str, Case]:
    return {name: ([{}, {"a": [{"b": None}]}], refusals(name, "type", [], "{}", 1, True))}


CASES: dict[str, Case] = {
    **boolean("stream"),
    "stream_options": (
        [{}, {"include_usage": True, "include_obfuscation": False}, {"include_usage": None}, {"other": 1}],
        [
            (True, "stream_options", "type"),
            ([], "stream_options", "type"),
            ({"include_usage": 1}, "stream_options.include_usage", "type"),
            ({"include_obfuscation": "no"}, "stream_options.include_obfuscation", "type"),
            ({"continuous_usage_stats": {}}, "stream_options.continuous_usage_stats", "type"),
        ],
    ),
    **integer("max_tokens", least=1),
    **integer("max_completion_tokens", least=1),
    **number("temperature", good=[0, 0.0, -0.0, 5e-324, 1, 2, 2.0], bad=[-0.1, -5e-324, 2.1, 3, 1e308]),
    **number("top_p", good=[0, 0.95, 1], bad=[-0.1, 1.1, 95]),
    **integer("n", least=1, most=128),
    "stop": (
        ["END", "", [], ["a"], ["a", "b", "c", "d"]],
        [
            (1, "stop", "type"),
            ({}, "stop", "type"),
            (False, "stop", "type"),
            (["a", 1], "stop[1]", "type"),
            ([None], "stop[0]", "type"),
            ([["a"]], "stop[0]", "type"),
            (["a"] * 5, "stop", "long_array"),
        ],
    ),
    **integer("seed"),
    **number("frequency_penalty", good=[-2, -0.0, 2], bad=[-2.1, 2.1]),
    **number("presence_penalty", good=[-2, -0.0, 2], bad=[-2.1, 2.1]),
    **boolean("logprobs"),
    **integer("top_logprobs", least=0, most=20),
    "logit_bias": (
        [{}, {"50256": -100, "0": 100, "7": 0.5}],
        [
            ([], "logit_bias", "type"),
            ({"50256": 101}, "logit_bias.50256", "decimal_above"),
            ({"1": 0, "50256": -100.5}, "logit_bias.50256", "decimal_below"),
            ({"50256": "1"}, "logit_bias.50256", "type"),
            ({"50256": True}, "logit_bias.50256", "type"),
            ({"50256": None}, "logit_bias.50256", "type"),
            ({"hello": 1}, "logit_bias.hello", "value"),
            ({"-1": 1}, "logit_bias.-1", "value"),
            ({"1\n": 1}, "logit_bias.1\n", "value"),
        ],
    ),
    "response_format": (
        [
            {"type": "text"},
            {"type": "json_object", "json_schema": None},
            {"type": "json_schema", "json_schema": {"name": "a-B_9"}},
            {"type": "json_schema", "json_schema": {"name": "x" * 64, "schema": {}, "strict": True, "description": ""}},
            {
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": {"$ref": "#/$defs/a", "$defs": {"a": True}}},
            },
            {"type": "structural_tag", "format": {"type": "any_text"}},
        ],
        [
            ("json_object", "response_format", "type"),
            ([], "response_format", "type"),
            ({}, "response_format.type", "missing"),
            ({"type": None}, "response_format.type", "missing"),
            ({"type": 1}, "response_format.type", "type"),
            ({"type": ["text"]}, "response_format.type", "type"),
            ({"type": "json"}, "response_format.type", "value"),
            ({"type": "json_schema"}, "response_format.json_schema", "missing"),
            ({"type": "json_schema", "json_schema": []}, "response_format.json_schema", "type"),
            ({"type": "json_schema", "json_schema": {}}, "response_format.json_schema.name", "missing"),
            ({"type": "json_schema", "json_schema": {"name": 1}}, "response_format.json_schema.name", "type"),
            ({"type": "json_schema", "json_schema": {"name": ""}}, "response_format.json_schema.name", "empty_string"),
            ({"type": "json_schema", "json_schema": {"name": "a b"}}, "response_format.json_schema.name", "value"),
            ({"type": "json_schema", "json_schema": {"name": "ab\n"}}, "response_format.json_schema.name", "value"),
            (
                {"type": "json_schema", "json_schema": {"name": "x" * 65}},
                "response_format.json_schema.name",
                "long_string",
            ),
            (
                {"type": "json_schema", "json_schema": {"name": "a", "schema": "{}"}},
                "response_format.json_schema.schema",
                "type",
            ),
            (
                {"type": "json_schema", "json_schema": {"name": "a", "schema": {"properties": {"b": 1}}}},
                "response_format.json_schema.schema",
                "value",
            ),
            (
                {"type": "json_schema", "json_schema": {"name": "a", "strict": "yes"}},
                "response_format.json_schema.strict",
                "type",
            ),
            (
                {"type": "json_schema", "json_schema": {"name": "a", "description": 1}},
                "response_format.json_schema.description",
                "type",
            ),
        ],
    ),
    **text("user"),
    "metadata": (
        [{}, {"k" * 64: "v" * 512}, {str(key): "" for key in range(16)}],
        [
            ("a", "metadata", "type"),
            ({str(key): "" for key in range(17)}, "metadata", "large_object"),
            ({"key": 1}, "metadata.key", "type"),
            ({"key": None}, "metadata.key", "type"),
            ({"key": "v" * 513}, "metadata.key", "long_string"),
            ({"k" * 65: ""}, f"metadata.{'k' * 65}", "long_name"),
            ({"k" * 10_000: ""}, f"metadata.{'k' * 100}…", "long_name"),
        ],
    ),
    **word("reasoning_effort", "none", "minimal", "low", "medium", "high", "xhigh", "max"),
    **text("service_tier"),
    **text("prompt_cache_key"),
    **text("safety_identifier"),
    **text("verbosity"),
    **boolean("store"),
    "modalities": (
        [[], ["text"], ["text", "audio"]],
        [("text", "modalities", "type"), (["text", 1], "modalities[1]", "type")],
    ),
    **integer("thinking_token_budget", least=-1),
    **boolean("include_reasoning"),
    **boolean("use_beam_search"),
    **integer("top_k", least=-1),
    **number("min_p", good=[0, 0.05, 1], bad=[-0.1, 1.5]),
    **number("repetition_penalty", good=[5e-324, 1, 1.1, 1e308], bad=[0, -0.0, -1, -1e308]),
    **boolean("watermarking"),
    **number("length_penalty", good=[-1e308, -0.0, 0, 1, 10**300], bad=[10**309]),
    **token_ids("stop_token_ids"),
    **boolean("include_stop_str_in_output"),
    **boolean("ignore_eos"),
    **integer("min_tokens", least=0),
    **boolean("skip_special_tokens"),
    **boolean("spaces_between_special_tokens"),
    **integer("truncate_prompt_tokens", least=-1),
    **word("truncation_side", "left", "right"),
    **integer("prompt_logprobs", least=-1),
    "logprob_token_ids": (
        [[], [0], list(range(128))],
        [
            (1, "logprob_token_ids", "type"),
            ([1.5], "logprob_token_ids[0]", "type"),
            (list(range(129)), "logprob_token_ids", "long_array"),
        ],
    ),
    **token_ids("allowed_token_ids"),
    "bad_words": ([[], ["damn"]], [("damn", "bad_words", "type"), (["damn", 7], "bad_words[1]", "type")]),
    **boolean("echo"),
    **boolean("add_generation_prompt"),
    **boolean("continue_final_message"),
    **boolean("add_special_tokens"),
    "documents": (
        [[], [{"title": "a", "text": "b"}, {}]],
        [
            ({}, "documents", "type"),
            (["a"], "documents[0]", "type"),
            ([{}, {"text": 1}], "documents[1].text", "type"),
        ],
    ),
    **text("chat_template"),
    **any_object("chat_template_kwargs"),
    "media_io_kwargs": (
        [{}, {"video": {"num_frames": 8}}],
        [([], "media_io_kwargs", "type"), ({"video": 8}, "media_io_kwargs.video", "type")],
    ),
    **any_object("mm_processor_kwargs"),
    "structured_outputs": (
        [
            {"json": {"type": "object"}},
            {"json": '{"type": "object"}', "disable_any_whitespace": True},
            {"choice": ["a", "b"], "json_object": None},
            {"regex": "a+"},
            {"grammar": ""},
            {"json_object": False},
            {"structural_tag": "{}"},
        ],
        [
            ("a+", "structured_outputs", "type"),
            ({}, "structured_outputs", "value"),
            ({"disable_any_whitespace": True}, "structured_outputs", "value"),
            ({"choice": ["a"], "json_object": False}, "structured_outputs", "value"),
            ({"json": True}, "structured_outputs.json", "type"),
            ({"regex": ["a+"]}, "structured_outputs.regex", "type"),
            ({"choice": "a"}, "structured_outputs.choice", "type"),
            ({"choice": ["a", 1]}, "structured_outputs.choice[1]", "type"),
            ({"structural_tag": {"type": "structural_tag"}}, "structured_outputs.structural_tag", "type"),
        ],
    ),
    **integer("priority"),
    **text("request_id"),
    **text("session_id"),
    **boolean("return_tokens_as_token_ids"),
    **boolean("return_token_ids"),
    **integer("routed_experts_prompt_start", least=0),
    **boolean("return_prompt_text"),
    "cache_salt": (
        ["s", "é" * 128],
        [
            (1, "cache_salt", "type"),
            ("", "cache_salt", "empty_string"),
            ("s" * 129, "cache_salt", "long_string"),
            ("a/b", "cache_salt", "value"),
            ("a\\b", "cache_salt", "value"),
            ("a@b", "cache_salt", "value"),
            ("a\0b", "cache_salt", "value"),
        ],
    ),
    **any_object("kv_transfer_params"),
    **any_object("ec_transfer_params"),
    **any_object("vllm_xargs"),
    "repetition_detection": (
        [{"max_pattern_size": 20, "min_pattern_size": 3, "min_count": 4}],
        [
            (4, "repetition_detection", "type"),
            ({"min_count": -1}, "repetition_detection.min_count", "integer_below"),
            ({"max_pattern_size": "20"}, "repetition_detection.max_pattern_size", "type"),
        ],
    ),
    **integer("stream_interval", least=1),
}
