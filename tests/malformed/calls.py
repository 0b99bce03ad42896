"""Mistakes in the history of calls: tool calls, their arguments, their results, and the functions of old."""

from __future__ import annotations

from tests.malformed.edits import ARGUMENTS, EMPTY_STRING, MISSING, TYPE, VALUE, bad, drop, made_from, put
from tests.malformed.legal import CALLING, LEGACY, call

_CALL = "messages[2].tool_calls[0]"
_ARGUMENTS = f"{_CALL}.function.arguments"

_CALLS = made_from(
    CALLING,
    bad("a user's tool calls", put("messages[1].tool_calls", [call("call_9", "Oslo")]), VALUE),
    bad("a system's tool calls", put("messages[0].tool_calls", [call("call_9", "Oslo")]), VALUE),
    bad("a result's tool calls", put("messages[3].tool_calls", [call("call_9", "Oslo")]), VALUE),
    bad("tool calls that are an object", put("messages[2].tool_calls", call("call_1", "Paris")), TYPE),
    bad("tool calls that are a string", put("messages[2].tool_calls", "get_weather"), TYPE),
    bad("tool calls that are a boolean", put("messages[6].tool_calls", False), TYPE),
    bad("a call as a string", put("messages[2].tool_calls[1]", "get_weather"), TYPE),
    bad("a call that is null", put("messages[2].tool_calls[1]", None), TYPE),
    bad("a call without an id", drop(f"{_CALL}.id"), MISSING),
    bad("an id that is null", put(f"{_CALL}.id", None), MISSING),
    bad("an empty id", put(f"{_CALL}.id", ""), EMPTY_STRING),
    bad("an id that is a number", put(f"{_CALL}.id", 1), TYPE),
    bad("an id that is an array", put(f"{_CALL}.id", ["call_1"]), TYPE),
    bad("two calls with one id", put("messages[2].tool_calls[1].id", "call_1"), VALUE),
    bad(
        "the id of a call that has no result yet",
        put("messages[6].tool_calls", [call("call_3", "Oslo"), call("call_3", "Oslo")]),
        VALUE,
        "messages[6].tool_calls[1].id",
    ),
    bad("a custom call", put(f"{_CALL}.type", "custom"), VALUE),
    bad("a call's empty type", put(f"{_CALL}.type", ""), VALUE),
    bad("a call's type that is a number", put(f"{_CALL}.type", 1), TYPE),
    bad("a call without a function", drop(f"{_CALL}.function"), MISSING),
    bad("a call's function is null", put(f"{_CALL}.function", None), MISSING),
    bad("a call's function as a string", put(f"{_CALL}.function", "get_weather"), TYPE),
    bad("a call's function as an array", put(f"{_CALL}.function", []), TYPE),
    bad("a call without a name", drop(f"{_CALL}.function.name"), MISSING),
    bad("a call with an empty name", put(f"{_CALL}.function.name", ""), EMPTY_STRING),
    bad("a call's name that is a number", put(f"{_CALL}.function.name", 7), TYPE),
    bad("a call without arguments", drop(_ARGUMENTS), MISSING),
    bad("arguments that are null", put(_ARGUMENTS, None), MISSING),
    bad("arguments as an object", put(_ARGUMENTS, {"city": "Paris"}), TYPE),
    bad("arguments as an array", put(_ARGUMENTS, []), TYPE),
    bad("arguments that are a number", put(_ARGUMENTS, 1), TYPE),
)
_MALFORMED_ARGUMENTS = [
    *made_from(
        CALLING,
        *(
            bad(f"arguments that are {name}", put(_ARGUMENTS, text), ARGUMENTS)
            for name, text in {
                "cut off": '{"city": "Par',
                "words": "Paris",
                "a Python dict": "{'city': 'Paris'}",
                "without quotes": "{city: Paris}",
                "two objects": '{"city": "Paris"}{"city": "Rome"}',
                "followed by words": '{"city": "Paris"} there',
                "in a fence": '```json\n{"city": "Paris"}\n```',
                "in tags": '<tool_call>{"city": "Paris"}</tool_call>',
                "with a comma at the end": '{"city": "Paris",}',
                "with NaN": '{"degrees": NaN}',
                "with Infinity": '{"degrees": -Infinity}',
                "with a line break in a string": '{"city": "Par\nis"}',
                "with half a surrogate pair": r'{"city": "\ud83d"}',
                "with a byte order mark": '\ufeff{"city": "Paris"}',
                "an object in a string": '"{\\"city\\": \\"Paris\\"}"',
                "an array": '["Paris"]',
                "null": "null",
                "a number": "1",
                "nested 5,000 levels deep": "[" * 5000 + "]" * 5000,
                "nested one level too deep": "[" * 201 + "1" + "]" * 201,
                "100 KB of no JSON": "x" * 100_000,
                "a string that never ends": '"' + "x" * 1_000_000,
            }.items()
        ),
        bad(
            "the second call's arguments are cut off",
            put("messages[2].tool_calls[1].function.arguments", '{"city"'),
            ARGUMENTS,
        ),
    ),
]
_RESULTS = made_from(
    CALLING,
    bad("a result without an id", drop("messages[3].tool_call_id"), MISSING),
    bad("a result's id is null", put("messages[3].tool_call_id", None), MISSING),
    bad("a result's id is a number", put("messages[3].tool_call_id", 2), TYPE),
    bad("a result's id is an array", put("messages[3].tool_call_id", ["call_2"]), TYPE),
    bad("a result's empty id", put("messages[3].tool_call_id", ""), VALUE),
    bad("a result of no call", put("messages[3].tool_call_id", "call_9"), VALUE),
    bad("a result's id in capitals", put("messages[5].tool_call_id", "CALL_1"), VALUE),
    bad("a result's id of 100 KB", put("messages[5].tool_call_id", "x" * 100_000), VALUE),
    bad(
        "a result before its call",
        put("messages[1]", {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees"}),
        VALUE,
        "messages[1].tool_call_id",
    ),
    bad("results whose calls were dropped", drop("messages[2]"), VALUE, "messages[2].tool_call_id"),
    bad(
        "results whose calls were made by nobody",
        put("messages[2]", {"role": "assistant", "content": "I look.", "tool_calls": []}),
        VALUE,
        "messages[3].tool_call_id",
    ),
    bad("a result named by a number", put("messages[3].name", 7), TYPE),
)
_FUNCTION = "messages[1].function_call"
_FUNCTIONS = made_from(
    LEGACY,
    bad("a function call as a string", put(_FUNCTION, "get_weather"), TYPE),
    bad("a function call as an array", put(_FUNCTION, ["get_weather"]), TYPE),
    bad("a function call without a name", drop(f"{_FUNCTION}.name"), MISSING),
    bad("a function call with an empty name", put(f"{_FUNCTION}.name", ""), EMPTY_STRING),
    bad("a function call's name that is a number", put(f"{_FUNCTION}.name", 7), TYPE),
    bad("a function call without arguments", drop(f"{_FUNCTION}.arguments"), MISSING),
    bad("a function call's arguments as an object", put(f"{_FUNCTION}.arguments", {}), TYPE),
    bad("a function call's arguments that are words", put(f"{_FUNCTION}.arguments", "in Paris"), ARGUMENTS),
    bad("a function call's arguments with NaN", put(f"{_FUNCTION}.arguments", '{"x": NaN}'), ARGUMENTS),
    bad(
        "a function call beside tool calls",
        put("messages[1].tool_calls", [call("call_1", "Paris")]),
        VALUE,
        _FUNCTION,
    ),
    bad("a function's result without a name", drop("messages[2].name"), MISSING),
    bad("a function's result whose name is null", put("messages[2].name", None), MISSING),
    bad("a function's result with an empty name", put("messages[2].name", ""), EMPTY_STRING),
    bad("a function's result named by a number", put("messages[2].name", 7), TYPE),
    bad("a function's result named by nought", put("messages[2].name", 0), TYPE),
    bad("a function's result without content", drop("messages[2].content"), MISSING),
    bad(
        "an image as a function's result",
        put("messages[2].content", [{"type": "image_url", "image_url": "data:,"}]),
        VALUE,
        "messages[2].content[0].type",
    ),
)

ROWS = [*_CALLS, *_MALFORMED_ARGUMENTS, *_RESULTS, *_FUNCTIONS]
