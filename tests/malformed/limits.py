"""The last value that is still legal, next to the first that isn't: what the malformed rows may not be refused for."""

from __future__ import annotations

import functools
from collections.abc import Callable

from tests.malformed.edits import Edit, Json, both, drop, edited, put, raw
from tests.malformed.legal import BOOKING, CALLING, CHOOSING, LEGACY, PLAIN, STRICT, call, function, strict_object, tool

_DEEPEST = raw("[" * 199 + "1" + "]" * 199)
_ARGUMENTS = "messages[2].tool_calls[0].function.arguments"

_OPTIONAL = """
    tools tool_choice parallel_tool_calls functions function_call stream stream_options max_tokens max_completion_tokens
    temperature top_p n stop seed frequency_penalty presence_penalty logprobs top_logprobs logit_bias response_format
    user metadata reasoning_effort service_tier store prompt_cache_key safety_identifier verbosity modalities
    top_k min_p unheard_of
""".split()


def _levels(levels: int) -> Json:
    schema: Json = {"type": "string"}
    for _ in range(levels):
        schema = strict_object(inner=schema)
    return schema


_EDITS: tuple[tuple[Json, dict[str, Edit]], ...] = (
    (
        PLAIN,
        {
            "200 levels": put("unheard_of", _DEEPEST),
            "the largest float": put("unheard_of", raw("1.7976931348623157e308")),
            "an integer of 300 digits": put("unheard_of", raw("9" * 300)),
            "a pair of surrogates": put("messages[2].content", raw(r'"\ud83d\ude00"')),
            "a NUL that is escaped": put("messages[2].content", raw(r'"\u0000"')),
            "an empty content": put("messages[2].content", ""),
            "an empty text part": put("messages[4].content[0].text", ""),
            "an assistant's empty content": put("messages[3].content", ""),
            "an assistant that says nothing": put("messages[3]", {"role": "assistant"}),
            "an assistant that says null": put(
                "messages[3]", {"role": "assistant", "content": None, "refusal": None, "tool_calls": []}
            ),
            "an assistant's content without a part": put("messages[3]", {"role": "assistant", "content": []}),
            "no content but a refusal": put("messages[3]", {"role": "assistant", "content": None, "refusal": "No."}),
            "no content but a thought": put("messages[3]", {"role": "assistant", "reasoning_content": "Hm."}),
            "a refusal as a part": put("messages[3].content[0]", {"type": "refusal", "refusal": "No."}),
            "an image": put("messages[4].content[1]", {"type": "image_url", "image_url": {"url": "data:,"}}),
            "an image as vLLM takes it": put("messages[4].content[1]", {"type": "image_url", "image_url": "data:,"}),
            "a choice of no tool": put("tool_choice", "none"),
            "no tools": put("tools", []),
            "no functions": put("functions", []),
            "auto of no tool": both(put("tools", []), put("tool_choice", "auto")),
            "auto of no function": both(put("functions", []), put("function_call", "auto")),
            "1 token": both(put("max_tokens", 1), put("max_completion_tokens", 1)),
            "the least numbers": both(
                put("temperature", 0),
                put("top_p", 0),
                put("n", 1),
                put("seed", -(2**63)),
                put("frequency_penalty", -2),
                put("presence_penalty", -2.0),
                put("logit_bias", {"1": -100}),
            ),
            "the greatest numbers": both(
                put("temperature", 2.0),
                put("top_p", 1),
                put("n", 128),
                put("seed", 2**63 - 1),
                put("frequency_penalty", 2),
                put("presence_penalty", 2.0),
                put("logit_bias", {"1": 100}),
            ),
            "integers with a fraction of nought": both(
                put("max_tokens", raw("10.0")), put("n", raw("1e0")), put("seed", raw("-0.0"))
            ),
            "four stops": put("stop", ["a", "b", "c", ""]),
            "20 top_logprobs": both(put("logprobs", True), put("top_logprobs", 20)),
            "16 metadata of full length": put("metadata", {f"{number:064}": "x" * 512 for number in range(16)}),
            "null for everything": both(*(put(name, None) for name in _OPTIONAL)),
        },
    ),
    (
        CALLING,
        {
            "the id of an earlier message's call that has no result": both(
                drop("messages[5]"), put("messages[5].tool_calls", [call("call_1", "Oslo")])
            ),
            "arguments of 200 levels": put(_ARGUMENTS, '{"a":' * 200 + "1" + "}" * 200),
            "empty arguments": put(_ARGUMENTS, ""),
            "arguments of white space": put(_ARGUMENTS, " \n"),
            "arguments of a tool that is gone": drop("tools"),
            "a call without a type": drop("messages[2].tool_calls[0].type"),
            "an id again after its result": put("messages[6].tool_calls", [call("call_1", "Oslo")]),
            "a result twice": put("messages[4]", {"role": "tool", "tool_call_id": "call_2", "content": ""}),
            "a result that is missing": drop("messages[5]"),
            "no calls, as older vLLMs write it": put("messages[6].tool_calls", []),
            "no part beside calls": put("messages[2].content", []),
            "an image as a result": put("messages[5].content[0]", {"type": "image_url", "image_url": "data:,"}),
            "an image and tools": put("messages[7].content[0]", {"type": "image_url", "image_url": "data:,"}),
        },
    ),
    (
        CHOOSING,
        {
            "128 tools": put("tools", [tool(f"{number:064}") for number in range(128)]),
            "a name of one dash": put("tools[1].function.name", "-"),
            "no parameters": put("tools[1].function.parameters", {}),
            "a tool without anything but its name": put("tools[1].function", {"name": "get_time"}),
            "two names that differ in case": put("tools[1].function.name", "GET_WEATHER"),
        },
    ),
    (
        BOOKING,
        {
            "a boolean as schema": put("tools[0].function.parameters.properties.days", True),
            "a reference to the whole": put("tools[0].function.parameters.properties.from.$ref", "#"),
            "an unknown keyword": put("tools[0].function.parameters.properties.days.step", "x"),
            "an unknown format": put("tools[0].function.parameters.$defs.place.format", "town"),
            "an unknown $schema": put("tools[0].function.parameters.$schema", "urn:mine"),
            "a pattern of JavaScript's": put(
                "tools[0].function.parameters.properties.tags.items.pattern", r"^(?<!a)\p{Script=Greek}\cA$"
            ),
            "lists of items in draft 7": both(
                put("tools[0].function.parameters.$schema", "http://json-schema.org/draft-07/schema#"),
                put("tools[0].function.parameters.properties.tags.items", [{"type": "string"}]),
            ),
        },
    ),
    (
        STRICT,
        {
            "strict with 5,000 properties": put(
                "tools[0].function.parameters", strict_object(**{f"p{number}": {} for number in range(5_000)})
            ),
            "strict with 10 levels": put("tools[0].function.parameters", _levels(10)),
            "strict with 1,000 values": put(
                "tools[0].function.parameters", strict_object(a={"enum": [f"{number:015}" for number in range(1_000)]})
            ),
            "strict with 120,000 characters": put(
                "tools[0].function.parameters", strict_object(a={"const": "x" * 59_999}, b={"enum": ["x" * 59_999]})
            ),
            "strict without parameters": drop("tools[0].function.parameters"),
            "strict calls, one at a time": put("parallel_tool_calls", False),
            "strict calls, several at a time": put("parallel_tool_calls", True),
        },
    ),
    (
        LEGACY,
        {
            "no part beside a function's call": put("messages[1].content", []),
            "a function's result that is null": put("messages[2].content", None),
            "128 functions": put("functions", [function(f"f{number}") for number in range(128)]),
            "a function that must be called": put("function_call", {"name": "get_time"}),
            "a result of no function": put("messages[2].name", "get_tide"),
            "functions and no tools": put("tools", []),
        },
    ),
)

LIMITS: dict[str, Callable[[], bytes]] = {
    name: functools.partial(edited, base, [edit]) for base, edits in _EDITS for name, edit in edits.items()
}
