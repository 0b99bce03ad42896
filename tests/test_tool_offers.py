"""Which tools of an MCP server models are offered, and what they are told of a call: by rows, without a server."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from mcp import types

from extproc.config.tools import ToolServer
from extproc.runner.mcp_servers import results
from extproc.runner.mcp_servers.offer import LARGEST_SCHEMA, LONGEST_DESCRIPTION, MOST_TOOLS, Offer, offer
from extproc.runner.tools import ToolResult

ANY: dict[str, Any] = {"type": "object"}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tool(name: str, schema: dict[str, Any] = ANY, **more: Any) -> types.Tool:
    return types.Tool(name=name, input_schema=schema, **more)


def offered(*tools: types.Tool, **settings: Any) -> Offer:
    return offer(ToolServer(name="srv", command=("true",), **settings), tools)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("look", "srv__look"),
        ("look-up_2", "srv__look-up_2"),
        ("files.read", "srv__files_read"),
        ("a b/c:d", "srv__a_b_c_d"),
        ("wétter", "srv__w_tter"),
        ("x" * 59, f"srv__{'x' * 59}"),
    ],
)
def test_a_model_knows_a_tool_by_its_server(name: str, known: str) -> None:
    it = offered(tool(name))
    assert it.definitions == ({"type": "function", "function": {"name": known, "parameters": ANY}},)
    assert it.tools[known].name == name
    assert not it.notes


@pytest.mark.parametrize(
    ("tools", "note"),
    [
        ([tool("x" * 60)], "would be longer than 64 characters"),
        ([tool("")], "it has no name"),
        ([tool("a_b"), tool("a.b")], "the tool 'a.b' isn't offered: another tool is srv__a_b already"),
        ([tool("a", {})], "isn't the schema of an object"),
        ([tool("a", {"type": "array"})], "isn't the schema of an object"),
        ([tool("a", {"type": "object", "properties": {"b": {"type": "nope"}}})], "inputSchema.properties.b.type"),
        ([tool("a", {"type": "object", "$ref": "https://example.com/schema"})], "inputSchema.$ref"),
        ([tool("a", {"type": "object", "description": "x" * LARGEST_SCHEMA})], "has more than 100000 bytes"),
        ([tool("a", {"type": "object", "default": "\ud800"})], "isn't JSON"),
    ],
)
def test_a_tool_that_cant_be_offered_is_named(tools: list[types.Tool], note: str) -> None:
    it = offered(tool("fine"), *tools)
    assert note in " ".join(it.notes)
    assert len(it.definitions) == len(tools)


def test_what_a_tool_says_of_itself_goes_to_the_model() -> None:
    it = offered(
        tool("b", CITY, description="Looks\u202e it up.\n"),
        tool("a", title="A title"),
        tool("c", description="y" * 5000),
    )
    functions = [each["function"] for each in it.definitions]
    assert functions[0] == {"name": "srv__b", "description": "Looks\u202e it up.\n", "parameters": CITY}
    assert functions[1]["description"] == "A title"
    assert functions[2]["description"] == "y" * (LONGEST_DESCRIPTION - 1) + "…"


def test_only_what_is_allowed_is_offered_in_the_servers_order() -> None:
    it = offered(
        tool("c"), tool("a.b"), tool("x"), allowed_tools=("a.b", "gone", "c"), tools={"c": {}, "lost": {"run": "never"}}
    )
    assert list(it.tools) == ["srv__c", "srv__a_b"]
    assert it.notes == (
        "`allowed_tools` names 'gone', which the server doesn't have",
        "`tools` names 'lost', which the server doesn't have",
    )


def test_a_tool_may_have_settings_of_its_own() -> None:
    own = {"b": {"run": "auto"}, "c": {"seconds": 5}}
    it = offered(tool("a"), tool("b"), tool("c"), run="never", seconds=20, tools=own)
    assert [(each.run, each.seconds) for each in it.tools.values()] == [("never", 20), ("auto", 20), ("never", 5)]


def test_there_are_only_so_many_tools() -> None:
    it = offered(*(tool(f"t{number}") for number in range(MOST_TOOLS + 1)))
    assert len(it.definitions) == MOST_TOOLS
    assert it.notes == ("of 1001 tools only the first 1000 are offered",)


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ("{", "Invalid JSON arguments - EOF while parsing an object at line 1 column 1"),
        ("[1]", "Invalid JSON arguments - expected an object, got an array"),
        ('{"city": NaN}', "Invalid JSON arguments - expected value at line 1 column 10"),
        ('{"city": 1e999}', "Invalid JSON arguments - Out of range float values are not JSON compliant"),
        ('{"city": "\ud800"}', "Invalid JSON arguments - they hold half of a surrogate pair"),
        ("{}", "Invalid parameters - the property 'city' is missing"),
        ("", "Invalid parameters - the property 'city' is missing"),
        ('{"city": 3}', "Invalid parameters - at 'city': expected a string, got an integer"),
    ],
)
def test_arguments_are_held_against_the_schema(written: str, error: str) -> None:
    it = offered(tool("weather", CITY)).tools["srv__weather"]
    with pytest.raises(results.ArgumentsError) as raised:
        results.arguments_of(it, written)
    assert str(raised.value) == error
    assert results.arguments_of(it, ' {"city": "Rome"} ') == {"city": "Rome"}


def test_no_arguments_are_an_object_too() -> None:
    assert results.arguments_of(offered(tool("a")).tools["srv__a"], "") == {}


def data(size: int) -> str:
    return base64.b64encode(b"x" * size).decode()


TEXT = types.TextContent(text="said")


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        ([], ""),
        ([TEXT], "said"),
        ([TEXT, types.TextContent(text="more")], "said\nmore"),
        *(
            ([types.ImageContent(data=data(size), mime_type="image/png")], f"[image: image/png, {size} bytes]")
            for size in (0, 1, 2, 3, 1234)
        ),
        ([TEXT, types.AudioContent(data=data(5), mime_type="audio/wav")], "said\n[audio: audio/wav, 5 bytes]"),
        ([types.ResourceLink(name="notes", uri="file:///notes")], "notes: file:///notes"),
        (
            [types.ResourceLink(name="n", title="Notes", uri="file:///n", description="of today")],
            "Notes: file:///n (of today)",
        ),
        ([types.EmbeddedResource(resource=types.TextResourceContents(uri="a:b", text="inside"))], "inside"),
        (
            [types.EmbeddedResource(resource=types.BlobResourceContents(uri="a:b", blob=data(7)))],
            "[resource: application/octet-stream, 7 bytes]",
        ),
    ],
)
def test_a_result_is_text(parts: list[types.ContentBlock], shown: str) -> None:
    assert results.result(types.CallToolResult(content=parts)) == ToolResult(shown)


def test_structured_content_counts_where_there_is_no_text() -> None:
    structured = {"grüße": [1, None]}
    image = types.ImageContent(data=data(1), mime_type="image/png")
    assert (
        results.result(types.CallToolResult(content=[], structured_content=structured)).text == '{"grüße": [1, null]}'
    )
    both = types.CallToolResult(content=[image], structured_content=structured)
    assert results.result(both).text == '[image: image/png, 1 bytes]\n{"grüße": [1, null]}'
    assert results.result(types.CallToolResult(content=[TEXT], structured_content=structured)).text == "said"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("cold", "Error: cold"),
        ("Error: cold", "Error: cold"),
        ("", "Error: the tool failed, and says nothing of why"),
    ],
)
def test_a_failure_begins_with_error(said: str, shown: str) -> None:
    result = types.CallToolResult(content=[types.TextContent(text=said)], is_error=True)
    assert results.result(result) == ToolResult(shown, "failed")


def test_a_result_has_bounds() -> None:
    long = types.CallToolResult(content=[types.TextContent(text="x" * 100_000)])
    text = results.result(long).text
    assert len(text) <= results.LONGEST
    assert text.endswith("x\n[... 68050 more characters]")
    assert results.bounded("x" * 100, 100) == "x" * 100
    assert len(results.error("y" * 100_000, "failed").text) <= results.LONGEST_ERROR


def test_what_a_server_is_known_by_is_taken_out() -> None:
    assert results.error("no such key: s3cret-key", "failed", ["s3cret-key"]).text == "Error: no such key: [secret]"
    told = types.CallToolResult(content=[types.TextContent(text="you sent s3cret-key")])
    assert results.result(told, ["s3cret-key"]).text == "you sent [secret]"
