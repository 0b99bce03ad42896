"""Tools that OpenAI's models know without a definition, and a custom tool's grammar, in the Responses dialect."""

from __future__ import annotations

from typing import Any, TypeAlias

import orjson
import pytest

from extproc.config import Config, parse
from extproc.contract.errors import ApiError
from extproc.names import RESPONSES_PATH
from extproc.prompts.grammar import _around_text, writes_texts
from extproc.surfaces import prepare, rewrite_completion, streamed_answer
from extproc.surfaces.responses.taught_tools import TAUGHT
from extproc.toolcalls import SYNTAXES
from extproc.toolcalls import parse as parse_output
from extproc.turn.upstream import UpstreamRequest
from tests.responses import Json, events_of, response_of
from tests.test_answer import completion, stream

CONFIG: Config = parse("""
models:
  - {name: native, backend: qwen, tools: native}
  - {name: hermes, backend: qwen, tools: prompt, format: hermes}
  - {name: qwen3, backend: qwen, tools: template, format: qwen3_coder}
  - {name: pythonic, backend: qwen, tools: template, format: pythonic}
  - {name: poolside, backend: qwen, tools: template, format: poolside_v1}
  - {name: inkling, backend: qwen, tools: template, format: inkling, defaults: {structured_outputs: {regex: x}}}
  - {name: bare, backend: plain, tools: prompt, format: hermes}
backends:
  - {name: qwen, address: 127.0.0.1:8000}
  - {name: plain, address: 127.0.0.1:8001, structured_outputs: false}
""")
INPUT_SCHEMA: Json = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
LOCAL_SHELL: Json = {"type": "local_shell"}
SHELL: Json = {"type": "shell", "environment": {"type": "local"}}
PATCH: Json = {"type": "apply_patch"}
SEARCH: Json = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools of the office.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}
ALL = [LOCAL_SHELL, SHELL, PATCH, SEARCH]
USER: Json = {"role": "user", "content": "Go on."}


def prepared(model: str = "hermes", **fields: Any) -> UpstreamRequest:
    return prepare(orjson.dumps({"model": model, "input": [USER], **fields}), CONFIG, RESPONSES_PATH)


def sent(model: str = "native", **fields: Any) -> Json:
    """The body that the backend gets."""
    body: Json = orjson.loads(prepared(model, **fields).body or b"")
    return body


def refusal(**fields: Any) -> str | None:
    """Where the mistake is."""
    with pytest.raises(ApiError) as refused:
        prepared(**fields)
    return refused.value.param


def said(name: str, arguments: Any) -> str:
    call = orjson.dumps({"name": name, "arguments": arguments}).decode()
    return f"<tool_call>\n{call}\n</tool_call>"


class TestRequests:
    def test_the_model_is_told_what_others_were_taught(self) -> None:
        tools = sent(tools=ALL)["tools"]
        assert [tool["function"]["name"] for tool in tools] == ["local_shell", "shell", "apply_patch", "tool_search"]
        assert all(tool["function"]["description"] for tool in tools)
        assert tools[3]["function"]["parameters"] == SEARCH["parameters"]

    def test_nothing_of_them_is_named_as_kept_back(self) -> None:
        assert not [name for name in prepared(tools=ALL).dropped if name.startswith("tools")]

    @pytest.mark.parametrize(
        ("tool", "name"),
        [
            ({"type": "tool_search"}, "tools.tool_search"),
            ({"type": "shell", "environment": {"type": "container_auto"}}, "tools.shell"),
            ({"type": "shell", "environment": {"type": "local", "skills": [{}]}}, "tools.shell.environment.skills"),
        ],
    )
    def test_what_openais_servers_would_run_is(self, tool: Json, name: str) -> None:
        assert name in prepared(tools=[PATCH, tool]).dropped

    def test_names_are_told_apart(self) -> None:
        assert refusal(tools=[SHELL, {"type": "function", "name": "shell"}]) == "tools[1].name"
        assert refusal(tools=[{"type": "function", "name": "shell"}, SHELL]) == "tools[1].type"

    def test_one_may_be_demanded(self) -> None:
        asked = sent(tools=ALL, tool_choice={"type": "shell"})
        assert asked["tool_choice"] == {"type": "function", "function": {"name": "shell"}}
        allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "apply_patch"}]}
        assert [tool["function"]["name"] for tool in sent(tools=ALL, tool_choice=allowed)["tools"]] == ["apply_patch"]
        assert refusal(tools=[PATCH], tool_choice={"type": "shell"}) == "tool_choice.type"

    def test_tools_that_the_client_found_may_be_called(self) -> None:
        call = {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"query": "mail"}}
        found = {
            "type": "tool_search_output",
            "call_id": "c1",
            "execution": "client",
            "tools": [{"type": "function", "name": "send_mail", "parameters": {"type": "object", "properties": {}}}],
        }
        body = sent(tools=[SEARCH], input=[USER, call, found])
        assert [tool["function"]["name"] for tool in body["tools"]] == ["tool_search", "send_mail"]
        *_, called, result = body["messages"]
        assert called["tool_calls"][0]["function"] == {"name": "tool_search", "arguments": '{"query":"mail"}'}
        assert "send_mail" in result["content"]

    def found(self, *tools: Any, execution: str = "client") -> list[Json]:
        call = {"type": "tool_search_call", "call_id": "c1", "execution": execution, "arguments": {}}
        return [
            USER,
            call,
            {"type": "tool_search_output", "call_id": "c1", "execution": execution, "tools": list(tools)},
        ]

    def test_what_is_found_twice_is_offered_once(self) -> None:
        mail: Json = {"type": "function", "name": "send_mail", "parameters": {"type": "object", "properties": {}}}
        body = sent(tools=[mail], input=[*self.found({**mail, "description": "New"}), *self.found(mail)[1:]])
        assert [tool["function"]["name"] for tool in body["tools"]] == ["send_mail"]

    def test_a_found_namespace_is_told_by_its_functions_names(self) -> None:
        space = {"type": "namespace", "name": "mail", "tools": [{"type": "function", "name": "send"}]}
        body = sent(input=self.found(space))
        assert [tool["function"]["name"] for tool in body["tools"]] == ["mail__send"]
        assert body["messages"][-1]["content"].endswith(": mail__send")

    def test_a_found_tool_that_nobody_here_runs_is_kept_back(self) -> None:
        request = prepared(input=self.found({"type": "web_search", "name": "zz"}))
        assert "tools.zz" in request.dropped
        assert b"zz" not in (request.body or b"")

    def test_what_openais_servers_found_is_not_offered(self) -> None:
        items = self.found({"type": "function", "name": "f"}, execution="server")
        assert b'"f"' not in (prepared(input=items).body or b"")

    @pytest.mark.parametrize(
        ("tool", "param"),
        [
            ({"type": "custom", "name": "q", "format": 5}, "format"),
            ({"type": "shell", "environment": [1]}, "environment"),
            ({"type": "function", "name": "a b"}, "name"),
            ({"type": "function", "name": "q", "description": 5}, "description"),
            ({"type": "tool_search", "execution": "client", "parameters": 7}, "parameters"),
        ],
    )
    def test_a_malformed_found_tool_is_refused_without_other_tools_too(self, tool: Json, param: str) -> None:
        assert refusal(input=self.found(tool)) == f"input[2].tools[0].{param}"

    @pytest.mark.parametrize(
        ("tool", "member"),
        [
            ({"type": "custom", "name": "w", "strict": True}, "tools.w.strict"),
            ({"type": "function", "name": "f", "format": {"type": "text"}}, "tools.f.format"),
            ({"type": "shell", "parameters": {}}, "tools.shell.parameters"),
            ({"type": "namespace", "name": "n", "tools": [], "x": 1}, "tools.n.x"),
        ],
    )
    def test_a_member_that_another_kind_of_tool_has_is_named(self, tool: Json, member: str) -> None:
        assert member in prepared(tools=[PATCH, tool]).dropped

    def test_nothing_but_what_nobody_is_shown_is_refused(self) -> None:
        search: Json = {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}}
        thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": ""}]}
        assert refusal(input=[search]) == "input"
        assert refusal(input=[thought]) == "input"

    def test_what_openais_servers_found_is_left_out(self) -> None:
        item: Json = {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}}
        assert "input.tool_search_call" in prepared(input=[USER, item]).dropped


Case: TypeAlias = tuple[str, Json, Json, Json, str]
"""A kind of tool, arguments of a call, the field of its item, of its result's item, and what the model is told."""
CALLS: list[Case] = [
    (
        "local_shell",
        {"command": ["ls", "-l"], "timeout_ms": 100},
        {
            "type": "exec",
            "command": ["ls", "-l"],
            "env": {},
            "timeout_ms": 100,
            "user": None,
            "working_directory": None,
        },
        {"output": '{"output": "a.txt"}'},
        '{"output": "a.txt"}',
    ),
    (
        "shell",
        {"commands": ["ls", "false"]},
        {"commands": ["ls", "false"], "timeout_ms": None, "max_output_length": None},
        {
            "output": [
                {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                {"stdout": "", "stderr": "b", "outcome": {"type": "timeout"}},
            ]
        },
        '[{"stdout":"a","stderr":"","exit_code":0},{"stdout":"","stderr":"b","timed_out":true}]',
    ),
    (
        "apply_patch",
        {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b\n"},
        {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b\n"},
        {"status": "failed", "output": "no such file"},
        "failed\nno such file",
    ),
    (
        "tool_search",
        {"query": "mail"},
        {"query": "mail"},
        {"execution": "client", "tools": []},
        "No tool was found.",
    ),
]
each_call = pytest.mark.parametrize("case", CALLS, ids=[kind for kind, *_ in CALLS])


class TestCalls:
    def streamed(self, *pieces: str, reason: str | None = "stop") -> bytes:
        spec = prepared(tools=ALL).answer
        assert spec is not None
        answer = streamed_answer(spec)
        return answer.feed(stream(list(pieces), reason)) + answer.close()

    def whole(self, text: str, reason: str = "stop") -> Json:
        spec = prepared(tools=ALL).answer
        assert spec is not None
        response: Json = orjson.loads(rewrite_completion(completion(text, reason), spec).body)
        return response

    @each_call
    def test_each_is_an_item_of_its_own(self, case: Case) -> None:
        kind, arguments, value, _, _ = case
        text = said(kind, arguments)
        for response in (self.whole(text), *(response_of(self.streamed(*cut)) for cut in (text, [text]))):
            [item] = response["output"]
            assert (item["type"], item["status"]) == (TAUGHT[kind].call, "completed")
            assert item[TAUGHT[kind].field] == value

    @each_call
    def test_each_comes_back_as_a_call(self, case: Case) -> None:
        kind, arguments, _, result, told = case
        [item] = self.whole(said(kind, arguments))["output"]
        answer = {"type": TAUGHT[kind].result, "call_id": item["call_id"], **result}
        *_, called, output = sent(tools=ALL, input=[USER, item, answer])["messages"]
        [call] = called["tool_calls"]
        assert call["function"]["name"] == kind
        assert orjson.loads(call["function"]["arguments"]) == arguments
        assert output == {"role": "tool", "tool_call_id": item["call_id"], "content": told}

    def test_a_local_shells_result_may_name_the_item(self) -> None:
        [item] = self.whole(said("local_shell", {"command": ["ls"]}))["output"]
        answer = {"type": "local_shell_call_output", "id": item["id"], "output": "a"}
        *_, output = sent(tools=ALL, input=[USER, item, answer])["messages"]
        assert output["tool_call_id"] == item["call_id"]

    def test_an_id_of_a_call_counts_before_that_of_an_item(self) -> None:
        shell = {"type": "shell_call", "id": "c2", "call_id": "c1", "action": {"commands": ["ls"]}}
        call = {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"}
        result = {"type": "function_call_output", "call_id": "c2", "output": "done"}
        assert sent(input=[USER, shell, call, result])["messages"][-1]["tool_call_id"] == "c2"

    @pytest.mark.parametrize(
        ("item", "param"),
        [
            ({"type": "shell_call", "id": [], "call_id": "c", "action": {"commands": ["ls"]}}, "input[1].id"),
            ({"type": "shell_call", "call_id": "c", "action": {"commands": "ls"}}, "input[1].action"),
            ({"type": "shell_call", "action": {"commands": ["ls"]}}, "input[1].call_id"),
            ({"type": "local_shell_call", "call_id": "c"}, "input[1].action"),
            ({"type": "apply_patch_call", "call_id": "c", "operation": {"type": "move"}}, "input[1].operation"),
            ({"type": "shell_call_output", "call_id": "nobody's", "output": []}, "input[1].call_id"),
        ],
    )
    def test_a_malformed_item_is_refused(self, item: Json, param: str) -> None:
        assert refusal(tools=ALL, input=[USER, item]) == param

    @pytest.mark.parametrize("arguments", [{"commands": "ls"}, {}, {"commands": []}, []])
    def test_one_that_cannot_be_run_is_an_error(self, arguments: Any) -> None:
        """There is no item that it could be."""
        *_, last = events_of(self.streamed(said("shell", arguments)))
        assert last["type"] == "response.failed"
        with pytest.raises(ApiError) as failed:
            self.whole(said("shell", arguments))
        assert failed.value.code == "malformed_tool_arguments"

    @pytest.mark.parametrize(
        ("arguments", "value"),
        [
            ({"commands": ["ls"], "timeout_ms": 100.0}, {"timeout_ms": 100}),
            ({"commands": ["ls"], "timeout_ms": None}, {"timeout_ms": None}),
        ],
    )
    def test_what_the_schema_allows_can_be_run(self, arguments: Json, value: Json) -> None:
        [item] = self.whole(said("shell", arguments))["output"]
        assert item["action"] == {"commands": ["ls"], "max_output_length": None, **value}

    def test_a_file_may_be_empty(self) -> None:
        [item] = self.whole(said("apply_patch", {"type": "create_file", "path": "a"}))["output"]
        assert item["operation"] == {"type": "create_file", "path": "a", "diff": ""}

    def test_a_number_in_an_environment_is_its_text(self) -> None:
        [item] = self.whole(said("local_shell", {"command": ["ls"], "env": {"A": 1}}))["output"]
        assert item["action"]["env"] == {"A": "1"}

    @each_call
    def test_a_call_that_was_complete_stays_when_the_rest_is_cut_off(self, case: Case) -> None:
        kind, arguments, *_ = case
        text = said(kind, arguments) + "\nNow I"
        for response in (self.whole(text, "length"), response_of(self.streamed(text, reason="length"))):
            assert [item["type"] for item in response["output"]] == [TAUGHT[kind].call, "message"]
            assert response["status"] == "incomplete"

    def test_one_that_cannot_be_run_is_counted_in_a_stream_too(self) -> None:
        spec = prepared(tools=ALL).answer
        assert spec is not None
        answer = streamed_answer(spec)
        answer.feed(stream([said("shell", [])], "stop"))
        answer.close()
        assert sum(answer.violations.values()) == 1
        assert answer.violations.first

    def test_one_that_the_backend_cut_off_is_none(self) -> None:
        text = 'One moment.\n<tool_call>\n{"name": "shell", "arguments": {"commands": ["l'
        response = response_of(self.streamed(text, reason="length"))
        assert [item["type"] for item in response["output"]] == ["message"]
        assert response["status"] == "incomplete"

    def test_several_stand_in_their_order(self) -> None:
        text = said("shell", {"commands": ["ls"]}) + "\n" + said("apply_patch", {"type": "delete_file", "path": "a"})
        response = response_of(self.streamed(text))
        assert [item["type"] for item in response["output"]] == ["shell_call", "apply_patch_call"]


GRAMMAR: Json = {"type": "grammar", "syntax": "regex", "definition": "[a-z]+\\n"}


class TestGrammars:
    """What of them is forced; what the grammars allow, tests/real_vllm/test_grammars.py asks the real xgrammar."""

    def tag(self, model: str, **fields: Any) -> str:
        body = orjson.loads(
            prepared(model, tools=[{"type": "custom", "name": "w", "format": GRAMMAR}], **fields).body or b""
        )
        found: str = (body.get("structured_outputs") or {}).get("structural_tag", "")
        return found

    @pytest.mark.parametrize("model", ["hermes", "qwen3"])
    @pytest.mark.parametrize("choice", ["auto", "required", {"type": "custom", "name": "w"}])
    def test_one_is_forced(self, model: str, choice: Any) -> None:
        assert '"type":"grammar"' in self.tag(model, tool_choice=choice)
        assert self.dropped(model, tool_choice=choice) == []

    def dropped(self, model: str, **fields: Any) -> list[str]:
        tools = [{"type": "custom", "name": "w", "format": GRAMMAR}]
        return [name for name in prepared(model, tools=tools, **fields).dropped if name.startswith("tools")]

    @pytest.mark.parametrize("model", ["native", "pythonic", "bare"])
    def test_where_it_cannot_be_that_is_said(self, model: str) -> None:
        assert self.tag(model) == ""
        assert self.dropped(model) == ["tools.w.format"]

    def test_of_a_namespace_it_has_the_name_that_others_have(self) -> None:
        space = {"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "w", "format": GRAMMAR}]}
        assert "tools.n__w.format" in prepared("native", tools=[space]).dropped

    def test_a_models_own_structured_outputs_force_no_grammar(self) -> None:
        tools = [{"type": "custom", "name": "w", "format": GRAMMAR}]
        assert "tools.w.format" in prepared("inkling", tools=tools).dropped

    def test_one_that_is_too_large_between_tags_is_not_forced(self) -> None:
        tools = [{"type": "custom", "name": "w", "format": {**GRAMMAR, "definition": "." * 7000}}]
        for model in ("hermes", "qwen3"):
            assert "tools.w.format" in prepared(model, tools=tools).dropped

    def test_a_bare_object_holds_json_whatever_the_format_writes(self) -> None:
        """Poolside writes arguments in elements, and reads bare objects as well."""
        tag = orjson.loads(self.tag("poolside"))
        bare = [found for found in tag["format"]["tags"] if found["begin"].startswith('"name"')]
        assert bare
        assert all('{"input": "' in orjson.dumps(found).decode().replace('\\"', '"') for found in bare)
        assert not any("arg_key" in orjson.dumps(found).decode() for found in bare)

    @pytest.mark.parametrize("text", ["a", "\na", "a\n", "\n", "\n\na\n\n", 'say "a\\n"', "größe"])
    @pytest.mark.parametrize("name", [name for name, syntax in SYNTAXES.items() if writes_texts(syntax)])
    def test_what_stands_around_a_text_is_read_back_with_it(self, name: str, text: str) -> None:
        around = _around_text(SYNTAXES[name], "input")
        assert around is not None
        before, behind, in_json = around
        inside = orjson.dumps(text).decode()[1:-1] if in_json else text
        syntax = SYNTAXES[name]
        written = f"{syntax.opening}{syntax.begin_of('w')}{before}{inside}{behind}{syntax.end}{syntax.closing}"
        tool = {"type": "function", "function": {"name": "w", "parameters": INPUT_SCHEMA}}
        [call] = parse_output(written, format=name, tools=[tool]).calls
        assert orjson.loads(call.arguments) == {"input": text}

    def test_a_tool_that_may_not_be_called_is_forced_to_nothing(self) -> None:
        assert self.dropped("native", tool_choice="none") == []

    @pytest.mark.parametrize(
        ("format_", "param"),
        [
            ({"type": "grammar", "syntax": "bnf", "definition": "a"}, "tools[0].format.syntax"),
            ({"type": "grammar", "syntax": "lark"}, "tools[0].format.definition"),
            ({"type": "grammar", "syntax": "lark", "definition": 1}, "tools[0].format.definition"),
            ({"type": "words"}, "tools[0].format.type"),
        ],
    )
    def test_a_malformed_one_is_refused(self, format_: Json, param: str) -> None:
        assert refusal(tools=[{"type": "custom", "name": "w", "format": format_}]) == param
