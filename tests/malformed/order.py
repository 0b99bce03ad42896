"""The order in which a request's mistakes are found, and so which of several is reported.

One mistake for each place of the order, all to be made in one request: none hides another.
"""

from __future__ import annotations

from tests.malformed.edits import (
    LONG_ARRAY,
    MISSING,
    SCHEMA,
    TYPE,
    VALUE,
    Json,
    Mistake,
    bad,
    both,
    drop,
    put,
)
from tests.malformed.legal import CALLING, call, function, tool

BASE: Json = {**CALLING, "tools": [tool(f"tool_{number}") for number in range(8)]}
"""Many tools, so that each can have a mistake of its own."""

_NAMELESS = {"function": {"name": "get_weather", "arguments": "{}"}}

ORDER: tuple[Mistake, ...] = (
    bad("no model", drop("model"), MISSING),
    bad("the first message", put("messages[0]", "Use tools."), TYPE),
    bad("a role", put("messages[1].role", "human"), VALUE),
    bad("a call's arguments", put("messages[2].tool_calls[0].function.arguments", {}), TYPE),
    bad("the next call's type", put("messages[2].tool_calls[1].type", "custom"), VALUE),
    bad("the third call's id", put("messages[2].tool_calls[2]", _NAMELESS), MISSING, "messages[2].tool_calls[2].id"),
    bad("a result's content", drop("messages[3].content"), MISSING),
    bad("its call", put("messages[3].tool_call_id", 7), TYPE),
    bad("the result's name", put("messages[3].name", 7), TYPE),
    bad("a content", put("messages[4].content", 7), TYPE),
    bad("a part", drop("messages[7].content[0].text"), MISSING),
    bad("the next part", put("messages[7].content[1]", {"type": "video"}), VALUE, "messages[7].content[1].type"),
    bad("a tool", put("tools[0]", 7), TYPE),
    bad("a tool's type", drop("tools[1].type"), MISSING),
    bad("the tool's name", put("tools[1].function.name", "a b"), VALUE),
    bad("its description", put("tools[1].function.description", 7), TYPE),
    bad(
        "its schema",
        put("tools[1].function.parameters", {"type": "array"}),
        SCHEMA,
        "tools[1].function.parameters.type",
    ),
    bad("a name that was used", put("tools[7].function.name", "tool_6"), VALUE),
    bad("functions beside tools", put("functions", [function("f")]), VALUE),
    bad("parallel calls", put("parallel_tool_calls", "yes"), TYPE),
    bad("a choice", put("tool_choice", "any"), VALUE),
    bad("a choice of old", put("function_call", "auto"), VALUE),
    bad("the stream", put("stream", 1), TYPE),
    bad("its options", put("stream_options", {}), VALUE),
    bad("max_tokens", put("max_tokens", 0), "integer_below_min_value"),
    bad("max_completion_tokens", put("max_completion_tokens", "1"), TYPE),
    bad("temperature", put("temperature", 3), "decimal_above_max_value"),
    bad("top_p", put("top_p", "1"), TYPE),
    bad("n", put("n", 0), "integer_below_min_value"),
    bad("the second stop", put("stop", ["a", 7]), TYPE, "stop[1]"),
    bad("seed", put("seed", 0.5), TYPE),
    bad("frequency_penalty", put("frequency_penalty", 3), "decimal_above_max_value"),
    bad("presence_penalty", put("presence_penalty", -3), "decimal_below_min_value"),
    bad("logprobs", put("logprobs", 5), TYPE),
    bad("top_logprobs without them", put("top_logprobs", 5), VALUE),
    bad("a bias", put("logit_bias", {"1": 101}), "decimal_above_max_value", "logit_bias.1"),
    bad("response_format", put("response_format", {}), MISSING, "response_format.type"),
    bad("user", put("user", 7), TYPE),
    bad("a metadatum", put("metadata", {"a": 1}), TYPE, "metadata.a"),
    bad("reasoning_effort", put("reasoning_effort", "extreme"), VALUE),
    bad("store", put("store", 1), TYPE),
    bad("top_k", put("top_k", "40"), TYPE),
)

_ONE_MESSAGE = "messages[6]"

PAIRS: tuple[tuple[Mistake, Mistake], ...] = (
    # Two mistakes in one object, or of which one could hide the other.
    (bad("no messages", drop("messages"), MISSING), bad("no tools", put("tools", {}), TYPE)),
    (bad("a nameless model", put("model", ""), VALUE), bad("no messages", drop("messages"), MISSING)),
    (
        bad("a content", put(f"{_ONE_MESSAGE}.content", 7), TYPE),
        bad("calls", put(f"{_ONE_MESSAGE}.tool_calls", {}), TYPE),
    ),
    (
        bad("calls", put("messages[1].tool_calls", [call("call_9", "Oslo")]), VALUE),
        bad("a name", put("messages[1].name", 7), TYPE),
    ),
    (
        bad("a result of no call", put("messages[3].tool_call_id", "call_9"), VALUE),
        bad("another", put("messages[5].tool_call_id", "call_8"), VALUE),
    ),
    (
        bad("a call that is a string", put("messages[2].tool_calls[0]", "get_weather"), TYPE),
        bad("the result that has lost its call", put("messages[5].tool_call_id", "call_1"), VALUE),
    ),
    (
        bad("a tool's name", put("tools[0].function.name", "a b"), VALUE),
        bad(
            "the choice of a tool that isn't there",
            put("tool_choice", {"type": "function", "function": {"name": "x"}}),
            VALUE,
            "tool_choice.function.name",
        ),
    ),
    (
        bad("129 tools", put("tools", [tool(f"tool_{number}") for number in range(129)]), LONG_ARRAY),
        bad("one that has no name", put("tools[100].function", {}), MISSING, "tools[100].function.name"),
    ),
    (
        bad("tools that are a string", put("tools", "all"), TYPE),
        bad("a choice among them", put("tool_choice", "required"), VALUE),
    ),
    (
        bad(
            "a strict tool that is open",
            put("tools[0].function", function("f", {"type": "object", "properties": {"a": {}}}, strict=True)),
            SCHEMA,
            "tools[0].function.parameters.additionalProperties",
        ),
        bad("parallel calls", put("parallel_tool_calls", "yes"), TYPE),
    ),
    (
        bad("stream_options as a string", both(put("stream", True), put("stream_options", "usage")), TYPE),
        bad("temperature", put("temperature", "hot"), TYPE),
    ),
    (bad("tools", put("tools[2].type", 1), TYPE), bad("the stream", put("stream", "yes"), TYPE)),
)
