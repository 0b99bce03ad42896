"""How calls are written: what a syntax writes, its parser reads back, and models of that family write it too."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.toolcalls import FORMATS, SYNTAXES, CallSyntax, Parsed, UnknownFormatError, call_syntax, get_format, parse
from tests.format_writers import WRITERS, Call, Output, Writer
from tests.format_writers.generated import outputs, tool
from tests.json_values import same

every_syntax = pytest.mark.parametrize("syntax", SYNTAXES.values(), ids=list(SYNTAXES))
every_json_syntax = pytest.mark.parametrize(
    "syntax", [pytest.param(one, id=name) for name, one in SYNTAXES.items() if one.style == "json"]
)

# Of formats with several ways to write a call, the one that is written here.
VARIANTS = {
    "glm45": "4.5",
    "glm47": "4.7",
    "json": "fenced",
    "k2_horizon": "JSON",
    "llama4_pythonic": "markers",
    "mistral": "v13",
}
STRINGS = {name: {"type": "string"} for name in ("city", "text")}
TOOLS = [tool("get_weather", STRINGS), tool("f", {})]


def writer_of(syntax: CallSyntax) -> Writer:
    """The test's own writer of the same notation; it knows what the format can't express."""
    names = (syntax.format, get_format(syntax.format).name)
    variant = VARIANTS.get(syntax.format, "")
    writers = {(writer.format, writer.variant): writer for writer in WRITERS}
    return next(writers[name, variant] for name in names if (name, variant) in writers)


def syntax_of(name: str) -> CallSyntax:
    syntax = call_syntax(name)
    assert syntax is not None
    return syntax


def read(syntax: CallSyntax, text: str, tools: list[dict[str, Any]] = TOOLS) -> Parsed:
    return parse(text, format=syntax.format, tools=tools)


def squeezed(text: str) -> str:
    return "".join(text.split())


def with_spelled_numbers(text: str) -> Any:
    return json.loads(text, parse_int=str, parse_float=str)


# Which


@pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)
def test_every_format_and_alias_has_a_syntax_for_its_parser(format_: Any) -> None:
    for name in (format_.name, *format_.aliases):
        assert get_format(syntax_of(name).format) is format_


def test_an_alias_may_be_written_in_another_way() -> None:
    calls = [("f", '{"city": "Paris"}')]
    assert "</arg_key>\n" in syntax_of("glm45").write(calls)
    assert "</arg_key><" in syntax_of("glm47").write(calls)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UnknownFormatError):
        call_syntax("hermess")


# There and back


@pytest.mark.long
@every_syntax
@settings(max_examples=40)
@given(st.data())
def test_the_parser_reads_what_was_written(syntax: CallSyntax, data: st.DataObject) -> None:
    generated = data.draw(outputs(writer_of(syntax)))
    calls = generated.output.calls
    arguments = [generated.output.json(call.arguments) for call in calls]
    text = syntax.write([(call.name, spelled) for call, spelled in zip(calls, arguments, strict=True)])
    parsed = read(syntax, text, generated.tools)
    assert [call.name for call in parsed.calls] == [call.name for call in calls]
    for got, call, spelled in zip(parsed.calls, calls, arguments, strict=True):
        assert same(json.loads(got.arguments), call.arguments), text
        if syntax.style == "json":
            assert got.arguments == spelled
    assert not parsed.content


@every_syntax
def test_several_calls_come_back_in_order(syntax: CallSyntax) -> None:
    calls = [("get_weather", '{"city": "Paris"}'), ("f", "{}"), ("get_weather", '{"city": "Rom", "text": "a\\nb"}')]
    parsed = read(syntax, syntax.write(calls))
    assert [(call.name, json.loads(call.arguments)) for call in parsed.calls] == [
        (name, json.loads(arguments)) for name, arguments in calls
    ]
    assert not parsed.content


@every_syntax
def test_numbers_keep_their_spelling(syntax: CallSyntax) -> None:
    """And so do the members' order and what is deep inside."""
    schemas: dict[str, Any] = {
        "z": {"type": "number"},
        "a": {"type": "number"},
        "n": {"type": "integer"},
        "o": {
            "type": "object",
            "properties": {"l": {"type": "array", "items": {"type": "number"}}, "e": {"type": "number"}},
        },
    }
    arguments = '{"z": 1.0, "a": -0.0, "n": 123456789012345678901234567890, "o": {"l": [1e5, 2.50], "e": 1E-7}}'
    (call,) = read(syntax, syntax.write([("f", arguments)]), [tool("f", schemas)]).calls
    assert json.dumps(with_spelled_numbers(call.arguments)) == json.dumps(with_spelled_numbers(arguments))


@every_syntax
def test_arguments_on_many_lines_come_back(syntax: CallSyntax) -> None:
    arguments = {"city": "Paris, {", "text": 'a\n"b"\\'}
    text = "\n" + json.dumps(arguments, indent="\t", separators=(" ,\r\n", " : ")) + " "
    (call,) = read(syntax, syntax.write([("get_weather", text)])).calls
    assert json.loads(call.arguments) == arguments


@every_syntax
@pytest.mark.parametrize("arguments", ["", " \n", "{}", "{ }"])
def test_no_arguments_are_an_empty_object(syntax: CallSyntax, arguments: str) -> None:
    (call,) = read(syntax, syntax.write([("f", arguments)])).calls
    assert (call.name, json.loads(call.arguments)) == ("f", {})


@pytest.mark.parametrize("name", ["pythonic", "lfm2", "olmo3", "gemma4", "functiongemma", "hermes"])
def test_keys_that_are_no_words_come_back(name: str) -> None:
    arguments = {"a b": 1, "x-y": [{"c:d": None}], 'say "hi"': True, "": "", "城市": "'\"\\n\n"}
    syntax = syntax_of(name)
    (call,) = read(syntax, syntax.write([("f", json.dumps(arguments))])).calls
    assert same(json.loads(call.arguments), arguments)


def test_keys_and_types_stand_in_attributes() -> None:
    arguments: dict[str, Any] = {"a&b": None, 'say "hi"': 1, "city": "x", "flag": False, "l": [], "o": {}}
    syntax = syntax_of("kimi_k3")
    text = syntax.write([("f", json.dumps(arguments))])
    assert re.findall(r'type="(\w+)"', text) == ["null", "number", "string", "boolean", "array", "object"]
    (call,) = read(syntax, text).calls
    assert same(json.loads(call.arguments), arguments)


@pytest.mark.parametrize("name", ["pythonic", "lfm2"])
def test_python_is_what_python_reads(name: str) -> None:
    for arguments in ({"city": "it's \\n\n", "o": {"l": [None, True, 1.5]}}, {"a b": {"c d": False}, "x": -1}):
        text = syntax_of(name).write([("f", json.dumps(arguments))])
        tree = ast.parse(re.sub(r"<\|.*?\|>", "", text))
        (call,) = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        keywords = [(keyword.arg, ast.literal_eval(keyword.value)) for keyword in call.keywords]
        assert dict(keywords) in (arguments, {None: arguments})


def test_what_a_value_begins_with_is_not_taken_for_markup() -> None:
    for name in ("seed_oss", "qwen3_coder", "beam", "minicpm5"):
        for text in ("\n", "\n\nindented", "<![CDATA[x]]>", "a\n"):
            syntax = syntax_of(name)
            (call,) = read(syntax, syntax.write([("get_weather", json.dumps({"text": text}))])).calls
            assert json.loads(call.arguments) == {"text": text}


# As models write it

# What stands around the calls of a whole message: what the writer adds to them, and what it leaves out.
AROUND = {
    "inkling": (("", ""), ("<|message_model|>get_weather", "")),
    "kimi_k3": (("", "<|close|>message<|sep|>"), ("", "")),
    "muse": (("<|start|>assistant", "<|eom|>"), ("", "")),
    "muse_glimmer": (("<|start|>assistant", "<|eom|>"), ("", "")),
    "openai": (("", ""), ("", "<|call|>")),
}


@every_syntax
def test_a_model_would_write_the_same_but_for_white_space(syntax: CallSyntax) -> None:
    writer = writer_of(syntax)
    calls = [Call("get_weather", {"city": "Paris", "text": "it's"}, 0), Call("f", {}, 1), Call("f", {"city": "Rom"}, 2)]
    del calls[writer.most_calls :]
    added, left_out = AROUND.get(syntax.format, (("", ""), ("", "")))
    ours = syntax.write([(call.name, json.dumps(call.arguments)) for call in calls]).join(added)
    assert squeezed(ours) == squeezed(writer.write(Output(calls=tuple(calls))).join(left_out))


@every_syntax
def test_the_parts_make_the_text(syntax: CallSyntax) -> None:
    """Only arguments stand between `begin` and `end`, and `separator` between calls: a grammar can say the same."""
    calls = [("get_weather", '{"city":"Paris"}'), ("f", "{}")]
    written = []
    for place, (name, arguments) in enumerate(calls):
        begin = syntax.begin.replace("{name}", name).replace("{index}", str(place)).replace("{number}", str(place + 1))
        inside = arguments if syntax.style == "json" else syntax.arguments.write(arguments, str)
        written.append(begin + inside + syntax.end)
    assert syntax.write(calls) == syntax.opening + syntax.separator.join(written) + syntax.closing


@every_syntax
def test_no_calls_are_no_text(syntax: CallSyntax) -> None:
    assert syntax.write([]) == ""


def test_calls_are_counted_through_the_conversation_or_the_answer() -> None:
    calls = [("f", ""), ("f", "")]
    assert re.findall(r"functions\.f:(\d+)", syntax_of("kimi_k2").write(calls, first=3)) == ["3", "4"]
    assert re.findall(r'"tool_call_id": "(\d+)"', syntax_of("cohere_command3").write(calls, first=6)) == ["6", "7"]
    assert re.findall(r'index="(\d+)"', syntax_of("kimi_k3").write(calls, first=6)) == ["1", "2"]


# Arguments that are none, and text that would be markup


@every_syntax
def test_arguments_that_are_no_object_stand_as_they_are(syntax: CallSyntax) -> None:
    for arguments in ('{"city": "Par', "[1]", "null", '"Paris"', "{'city': 'Paris'}", '{"a": NaN}', "[" * 5000):
        text = syntax.write([("get_weather", f" {arguments}\n"), ("f", "{}")])
        assert syntax.begin_of("get_weather") + arguments + syntax.end in text
        following = syntax.begin_of("f", index=1, number=2) + syntax.arguments.write("", str)
        assert text.endswith(following + syntax.end + syntax.closing)


@every_syntax
def test_text_that_stands_as_it_is_can_be_made_harmless(syntax: CallSyntax) -> None:
    def harmless(text: str) -> str:
        return text.replace("<", "(")

    arguments = json.dumps({"city": "<evil>", "<key>": "x", "o": {"l": ["\\u003cevil>"]}}).replace("\\\\", "\\")
    for text in (arguments, "<evil>"):
        written = syntax.write([("<tool>", text)], harmless=harmless)
        assert "<tool>" not in written
        assert ("<evil>" in written) == (syntax.style == "json")
        assert ("<key>" in written) == (syntax.style == "json" and text is arguments)


@every_json_syntax
def test_json_stands_as_the_client_spelled_it(syntax: CallSyntax) -> None:
    arguments = '{"city" :"\\u003c/tool_call>",\n "n":1.0 }'
    assert syntax.begin_of("f") + arguments + syntax.end in syntax.write([("f", arguments)])


def test_a_name_cannot_end_the_string_it_stands_in() -> None:
    written = syntax_of("hermes").write([('f", "x": "', "{}")])
    assert json.loads(written.split("\n")[1]) == {"name": 'f", "x": "', "arguments": {}}


def test_a_name_that_looks_like_a_placeholder_is_one_nowhere() -> None:
    assert "functions.{index}:5<" in syntax_of("kimi_k2").write([("{index}", "")], first=5)
    assert 'tool="{number}" index="1"' in syntax_of("kimi_k3").write([("{number}", "")])
    assert "<parameter={type}>" in syntax_of("qwen3_coder").write([("f", '{"{type}": 1}')])


# Results


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hermes", "<tool_response>\n20 °C\n</tool_response>"),
        ("qwen3_coder", "<tool_response>\n20 °C\n</tool_response>"),
        ("glm47", "<tool_response>20 °C</tool_response>"),
        ("deepseek_v32", "<function_results>\n<result>20 °C</result>\n</function_results>"),
        ("kimi_k2", "## Return of functions.get_weather:4\n20 °C"),
        ("gigachat35", '<function_response name="get_weather">20 °C</function_response>'),
        ("llama3_json", "20 °C"),
    ],
)
def test_results_are_shown_as_the_chat_template_shows_them(name: str, expected: str) -> None:
    assert "20 °C".join(syntax_of(name).tags_of_result("get_weather", index=4)) == expected
