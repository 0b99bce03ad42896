"""The many forms of one request: legacy functions, choices, strict tools, arguments that are no JSON."""

from __future__ import annotations

import json
import time
from typing import Any

import orjson
import pytest

from extproc.config import parse
from extproc.contract.errors import ApiError
from extproc.contract.json_body import decode
from extproc.contract.rules import Rules
from extproc.contract.tool_choice import NamedTool
from extproc.surfaces import find_problems, prepare
from extproc.surfaces.chat import request as chat_request
from extproc.turn.turn import Turn

ASK = {"role": "user", "content": "Weather in Paris?"}
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": PARAMETERS, **more}}


def called(arguments: str, call_id: str = "call_1") -> dict[str, Any]:
    call = {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def read(rules: Rules | None = None, **fields: Any) -> Turn:
    return chat_request.read({"model": "coder", "messages": [ASK], **fields}, rules or Rules())


def refused(rules: Rules | None = None, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as error:
        read(rules, **fields)
    return error.value


class TestChoices:
    TOOLS = (tool("get_weather"), tool("get_time"))

    @pytest.mark.parametrize("choice", [None, "auto"])
    def test_the_model_chooses_unless_told_otherwise(self, choice: str | None) -> None:
        assert read(tools=[*self.TOOLS], tool_choice=choice).tool_choice == "auto"

    @pytest.mark.parametrize("choice", ["none", "required"])
    def test_a_word_is_the_choice(self, choice: str) -> None:
        assert read(tools=[*self.TOOLS], tool_choice=choice).tool_choice == choice

    def test_a_named_tool(self) -> None:
        request = read(tools=[*self.TOOLS], tool_choice={"type": "function", "function": {"name": "get_time"}})
        assert request.tool_choice == NamedTool("get_time")
        assert request.tools == [*self.TOOLS]

    @pytest.mark.parametrize("mode", ["auto", "required"])
    def test_of_allowed_tools_the_others_are_not_offered(self, mode: str) -> None:
        allowed = {"mode": mode, "tools": [{"type": "function", "function": {"name": "get_time"}}]}
        request = read(tools=[*self.TOOLS], tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
        assert request.tool_choice == mode
        assert request.tools == [tool("get_time")]

    @pytest.mark.parametrize("choice", [None, "none", "auto"])
    def test_an_empty_list_of_tools_is_none(self, choice: str | None) -> None:
        request = read(tools=[], tool_choice=choice, parallel_tool_calls=True)
        assert not request.offers_tools


class TestStrictTools:
    def test_several_may_be_called_at_a_time_unless_the_client_says_otherwise(self) -> None:
        strict = tool("get_weather", strict=True)
        assert read(tools=[strict, tool("get_time")]).parallel_tool_calls
        assert read(tools=[strict], parallel_tool_calls=None).parallel_tool_calls
        assert read(tools=[strict], parallel_tool_calls=True).parallel_tool_calls
        assert not read(tools=[strict], parallel_tool_calls=False).parallel_tool_calls


class TestLegacyFunctions:
    FUNCTION = tool("get_weather")["function"]

    def test_they_are_tools(self) -> None:
        request = read(functions=[self.FUNCTION])
        assert request.legacy
        assert request.tools == [{"type": "function", "function": self.FUNCTION}]
        assert request.tool_choice == "auto"

    @pytest.mark.parametrize(
        ("call", "choice"), [("none", "none"), ("auto", "auto"), ({"name": "get_weather"}, NamedTool("get_weather"))]
    )
    def test_function_call_is_the_choice(self, call: Any, choice: Any) -> None:
        assert read(functions=[self.FUNCTION], function_call=call).tool_choice == choice

    def test_earlier_calls_and_results_belong_together(self) -> None:
        function_call = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
        said = {"role": "assistant", "content": None, "function_call": function_call}
        returned = {"role": "function", "name": "get_weather", "content": "18"}
        request = read(functions=[self.FUNCTION], messages=[ASK, said, returned, said, returned])
        _, first, its_result, second, other_result = request.messages
        assert first["tool_calls"][0]["function"] == function_call
        assert "function_call" not in first
        assert its_result["role"] == "tool"
        assert its_result["tool_call_id"] == first["tool_calls"][0]["id"]
        assert other_result["tool_call_id"] == second["tool_calls"][0]["id"] != first["tool_calls"][0]["id"]

    def test_the_first_result_belongs_to_the_first_call(self) -> None:
        said = {"role": "assistant", "function_call": {"name": "get_weather", "arguments": "{}"}}
        results = [{"role": "function", "name": "get_weather", "content": text} for text in ("first", "second")]
        _, one, two, *answered = read(messages=[ASK, said, said, *results]).messages
        assert [message["tool_call_id"] for message in answered] == [
            one["tool_calls"][0]["id"],
            two["tool_calls"][0]["id"],
        ]

    def test_a_longer_conversation_keeps_the_ids_of_a_shorter_one(self) -> None:
        said = {"role": "assistant", "function_call": {"name": "get_weather", "arguments": "{}"}}
        returned = {"role": "function", "name": "get_weather", "content": "18"}
        shorter, longer = [ASK, said, returned], [ASK, said, returned, ASK, said, returned]
        assert read(messages=longer).messages[:3] == read(messages=shorter).messages

    def test_a_result_without_its_call_is_shown_all_the_same(self) -> None:
        returned = {"role": "function", "name": "get_weather", "content": "18 degrees"}
        body = prepare(orjson.dumps({"model": "coder", "messages": [ASK, returned]}), CONFIG).body
        assert b"The tool get_weather returned:\\n```\\n18 degrees" in (body or b"")


CONFIG = parse("""
models:
  - {name: coder, backend: qwen, tools: prompt}
  - {name: refusing, backend: qwen, tools: prompt, malformed_history: error}
  - {name: passing, backend: qwen, tools: prompt, malformed_history: pass}
backends: [{name: qwen, address: 127.0.0.1:8000, parameters: [made_up]}]
""")


class TestArgumentsOfEarlierTurns:
    RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "18"}  # noqa: RUF012 - never changed

    @pytest.mark.parametrize("arguments", ["", " \n", "{}", '{"city": "Paris"}', ' \n{"a": {"b": [1e300]}}\t'])
    def test_an_object_goes_on_as_it_is(self, arguments: str) -> None:
        messages = [ASK, called(arguments), self.RESULT]
        for history in ("error", "repair", "pass"):
            request = read(Rules(malformed_history=history), messages=messages)
            assert request.messages == messages
            assert request.repaired == 0

    @pytest.mark.parametrize(
        "arguments", ['{"city": "Par', "{'city': 'Paris'}", "not json", '{"a": NaN}', "{} {}", "[1]", "null", '"{}"']
    )
    def test_anything_else_is_refused_on_demand(self, arguments: str) -> None:
        error = refused(Rules(malformed_history="error"), messages=[ASK, called(arguments), self.RESULT])
        assert (error.status, error.code) == (400, "malformed_tool_arguments")
        assert error.param == "messages[1].tool_calls[0].function.arguments"

    @pytest.mark.parametrize(
        ("arguments", "mended"),
        [
            ('{"city": "Par', {"city": "Par"}),
            ('{"city": "Paris", "days', {"city": "Paris"}),
            ("{'city': 'Paris',}", {"city": "Paris"}),
            ('{"text": "one\ntwo"}', {"text": "one\ntwo"}),
            (json.dumps('{"city": "Paris"}'), {"city": "Paris"}),
            (json.dumps(json.dumps('{"city": "Par')), {"city": "Par"}),
            (json.dumps('{"city": "Paris"}')[:-6], {"city": "Par"}),
            (json.dumps("{'city': 'Paris'}"), {"city": "Paris"}),
            ("null", {}),
            ('""', {}),
            ('" null "', {}),
            ("[1, {}]", {"arguments": [1, {}]}),
            ("0.5", {"arguments": 0.5}),
            ("false", {"arguments": False}),
            ('"Paris"', {"arguments": "Paris"}),
            ("no object at all", {"arguments": "no object at all"}),
            ('{"city": "Paris"} there', {"city": "Paris"}),
            ('"\\ud800"', {"arguments": '"\\ud800"'}),
            ("{" * 5_000, {"arguments": "{" * 5_000}),
            ("[" * 250 + "]" * 250, {"arguments": "[" * 250 + "]" * 250}),
            ("x" * 100_000, {"arguments": "x" * 100_000}),
            ('"' + "\\" * 2**17, {"arguments": "\\" * 2**16}),
            (json.dumps('{"city": "Paris"}')[:-4], {"city": "Paris"}),
            ('1,"b":2', {"arguments": '1,"b":2'}),
            ('true,"arguments":3', {"arguments": 'true,"arguments":3'}),
            ('"x","city":"Rome"', {"arguments": '"x","city":"Rome"'}),
            ('"{}" x', {"arguments": '"{}" x'}),
        ],
        ids=lambda value: str(value)[:30],
    )
    def test_or_made_one(self, arguments: str, mended: dict[str, Any]) -> None:
        request = read(messages=[ASK, called(arguments), self.RESULT])
        assert json.loads(request.messages[1]["tool_calls"][0]["function"]["arguments"]) == mended
        assert request.repaired == 1

    def test_or_passed_on(self) -> None:
        request = read(Rules(malformed_history="pass"), messages=[ASK, called('{"city": '), self.RESULT])
        assert request.messages[1] == called('{"city": ')

    @pytest.mark.parametrize(("model", "repaired"), [("coder", 1), ("passing", 0)])
    def test_the_models_configuration_decides(self, model: str, repaired: int) -> None:
        body = {"model": model, "messages": [ASK, called('{"city": "Par'), self.RESULT], "tools": [tool("x")]}
        prepared = prepare(orjson.dumps(body), CONFIG)
        assert prepared.repaired == repaired
        assert (b'\\"Par\\"}' in (prepared.body or b"")) is bool(repaired)
        assert [problem.code for problem in find_problems(orjson.dumps({**body, "model": "refusing"}), CONFIG)] == [
            "malformed_tool_arguments"
        ]


class TestForwarding:
    def test_what_the_backend_does_not_know_is_dropped_and_named(self) -> None:
        body = {"model": "coder", "messages": [ASK], "web_search_options": {}, "a_b": 1, "top_k": 3, "made_up": 4}
        prepared = prepare(orjson.dumps(body), CONFIG)
        assert prepared.dropped == ("a_b", "web_search_options")
        assert orjson.loads(prepared.body or b"") == {"model": "coder", "messages": [ASK], "top_k": 3, "made_up": 4}

    def test_what_concerns_tools_is_never_dropped_nor_sent(self) -> None:
        body = {"model": "coder", "messages": [ASK], "tools": [], "tool_choice": "none", "parallel_tool_calls": True}
        prepared = prepare(orjson.dumps(body), CONFIG)
        assert prepared.dropped == ()
        assert orjson.loads(prepared.body or b"") == {"model": "coder", "messages": [ASK]}

    def test_integers_of_any_size_stay_what_they_are(self) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 2**70}}}
        body = {"model": "coder", "messages": [ASK], "chat_template_kwargs": {"n": 2**70}}
        body["tools"] = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
        prepared = prepare(json.dumps(body).encode(), CONFIG)
        assert decode(prepared.body or b"")["chat_template_kwargs"] == {"n": 2**70}
        assert str(2**70).encode() in (prepared.body or b"")


class TestProblems:
    def test_all_are_found_in_the_order_of_the_contract_not_of_the_request(self) -> None:
        body = {
            "temperature": 9,
            "tool_choice": "any",
            "tools": [{"type": "function", "function": {"name": "a b"}}],
            "messages": [{"role": "tool", "content": None}, {"role": "user", "content": 5}],
        }
        params = [
            "model",
            "messages[0].content",
            "messages[0].tool_call_id",
            "messages[1].content",
            "tools[0].function.name",
            "tool_choice",
            "temperature",
        ]
        for fields in (body, dict(reversed(body.items()))):
            found = find_problems(orjson.dumps(fields), CONFIG)
            assert [problem.param for problem in found] == params
            with pytest.raises(ApiError) as raised:
                prepare(orjson.dumps(fields), CONFIG)
            assert str(raised.value) == str(found[0])

    def test_an_unknown_model_comes_first(self) -> None:
        found = find_problems(b'{"model": "gpt-4", "messages": []}', CONFIG)
        assert [(problem.status, problem.param) for problem in found] == [(404, "model"), (400, "messages")]

    def test_a_good_request_has_none(self) -> None:
        assert find_problems(orjson.dumps({"model": "coder", "messages": [ASK]}), CONFIG) == []


class TestJson:
    @pytest.mark.parametrize(
        ("body", "param"),
        [
            (b'{"model": "a", "model": "b"}', "model"),
            (b'{"model": "a", "messages": [{"role": "user", "content": "x", "role": "user"}]}', "messages[0].role"),
            (b'{"a": {"b": 1, "c": {}, "b": 2}, "a": 1}', "a.b"),
            (b'{"a": 1, "a": ' + b"[" * 100_000, None),
        ],
    )
    def test_a_key_that_comes_twice_is_named(self, body: bytes, param: str | None) -> None:
        with pytest.raises(ApiError) as error:
            decode(body)
        assert (error.value.code, error.value.param) == ("invalid_json", param)

    def test_the_place_is_told_and_a_long_key_is_not(self) -> None:
        with pytest.raises(ApiError) as error:
            decode(b'{"' + b"k" * 10_000 + b'": 1,\n"' + b"k" * 10_000 + b'": 2}')
        assert "line 2 column" in error.value.message
        assert len(error.value.message) < 400

    @pytest.mark.parametrize(
        ("body", "param"),
        [
            (b'{"temperature": 1e400}', "temperature"),
            (b'{"a": [1, {"b": [[-1e999]]}, 1e999]}', "a[1].b[0][0]"),
            (b'{"' + b"k" * 300 + b'": {"": 1e999}}', "k" * 100 + "\u2026."),
            (
                b'{"tools": [{"function": {"parameters": {"properties": {"n": {"maximum": 1e999}}}}}]}',
                "tools[0].function.parameters.properties.n.maximum",
            ),
        ],
    )
    def test_a_number_too_large_for_a_float_is_named(self, body: bytes, param: str) -> None:
        with pytest.raises(ApiError) as error:
            decode(body)
        assert (error.value.code, error.value.param) == ("invalid_json", param)
        assert f"the number at '{param}' is too large for a 64-bit float" in error.value.message

    @pytest.mark.parametrize("depth", [0, 190])
    def test_to_place_a_key_that_comes_twice_takes_no_longer_than_to_decode(self, depth: int) -> None:
        members = b",".join(b'"%d":1' % number for number in range(200_000))
        around = b'{"' + "\U0001f600".encode() * 100 + b'":'
        body, broken = (
            b'{"x":' + around * depth + b"{" + inner + b"}" + b"}" * depth + b"}"
            for inner in (members, members + b',"0":1')
        )
        start = time.process_time()
        decode(body)
        decoded = time.process_time()
        with pytest.raises(ApiError) as error:
            decode(broken)
        assert time.process_time() - decoded < 4 * (decoded - start) + 0.1
        assert (error.value.code, error.value.param) == ("invalid_json", None)
        assert "the key '0' is given twice in one object, at line 1 column " in error.value.message

    @pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"[[1e400]]", b"NaN", b"Infinity", b"1" * 5_000])
    def test_a_number_must_be_one_for_every_reader(self, number: bytes) -> None:
        with pytest.raises(ApiError) as error:
            decode(b'{"temperature": ' + number + b"}")
        assert error.value.code == "invalid_json"
