"""The legal requests that all malformed ones are made from; each is accepted as it stands."""

from __future__ import annotations

from typing import Any

from tests.malformed.edits import Json

PLAIN: Json = {
    "model": "coder",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "No lists."}]},
        {"role": "user", "name": "ann", "content": "Hello."},
        {"role": "assistant", "content": [{"type": "text", "text": "Hello."}], "reasoning": "A greeting."},
        {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
    ],
}
"""No tools: a conversation in both shapes of content."""


def call(call_id: str, city: str) -> Json:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": "get_weather", "arguments": f'{{"city": "{city}"}}'},
    }


def function(name: str, parameters: Any = None, **more: Any) -> Json:
    return {"name": name, "description": "What it is for", "parameters": parameters, **more}


def tool(name: str, parameters: Any = None, **more: Any) -> Json:
    return {"type": "function", "function": function(name, parameters, **more)}


WEATHER: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

CALLING: Json = {
    "model": "coder",
    "messages": [
        {"role": "system", "content": "Use tools."},
        {"role": "user", "content": "Weather in Paris and Rome?"},
        {"role": "assistant", "content": None, "tool_calls": [call("call_1", "Paris"), call("call_2", "Rome")]},
        {"role": "tool", "tool_call_id": "call_2", "content": "20 degrees"},
        {"role": "user", "content": "Go on."},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "18 degrees"}]},
        {"role": "assistant", "content": "18 and 20 degrees."},
        {"role": "user", "content": [{"type": "text", "text": "And in Oslo?"}]},
    ],
    "tools": [tool("get_weather", WEATHER), tool("get_time")],
}
"""Tools, and a history in which they were called: two calls at once, results in another order."""

CHOOSING: Json = {"model": "coder", "messages": [{"role": "user", "content": "Hi."}], "tools": CALLING["tools"]}
"""Tools without a history."""

TRIP: Json = {
    "type": "object",
    "properties": {
        "from": {"$ref": "#/$defs/place"},
        "to": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
        "days": {"type": "integer", "minimum": 1, "maximum": 30},
        "class": {"enum": ["first", "second"]},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}, "maxItems": 5},
        "note": {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False},
    },
    "required": ["from"],
    "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
BOOKING: Json = {
    "model": "coder",
    "messages": [{"role": "user", "content": "Book a trip."}],
    "tools": [tool("book_trip", TRIP)],
}
"""A tool with most of what schemas are made of."""


def strict_object(**properties: Any) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


STRICT: Json = {
    "model": "coder",
    "messages": [{"role": "user", "content": "Book a trip."}],
    "tools": [
        tool(
            "book_trip",
            {
                **strict_object(
                    place=strict_object(city={"type": "string"}, country={"type": ["string", "null"]}),
                    stops={"type": "array", "items": strict_object(city={"type": "string"})},
                    guide={"anyOf": [strict_object(name={"type": "string"}), {"type": "null"}]},
                    hotel={"$ref": "#/$defs/hotel"},
                ),
                "$defs": {"hotel": strict_object(stars={"type": "integer"})},
            },
            strict=True,
        )
    ],
}
"""A strict tool that keeps every rule of strictness at every level."""

LEGACY: Json = {
    "model": "coder",
    "messages": [
        {"role": "user", "content": "Weather in Paris?"},
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
        },
        {"role": "function", "name": "get_weather", "content": "18 degrees"},
        {"role": "user", "content": "And in Rome?"},
    ],
    "functions": [function("get_weather", WEATHER), function("get_time")],
    "function_call": "auto",
}
"""The request of a client from before there were tools."""

LEGAL = {
    "plain": PLAIN,
    "calling": CALLING,
    "choosing": CHOOSING,
    "booking": BOOKING,
    "strict": STRICT,
    "legacy": LEGACY,
}
