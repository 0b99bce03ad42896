"""The small built-in model reads tools in a prompt, calls the one that fits, and answers from what it returned."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest

from extproc.prompts import wording
from extproc.prompts.escaping import escaper
from extproc.toolcalls import SYNTAXES
from scripted_vllm import ScriptedVLLM
from scripted_vllm.small_model import answer
from scripted_vllm.template import Turn

Json = dict[str, Any]

HERMES = SYNTAXES["hermes"]
ESCAPER = escaper("hermes")
TEXT: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}


def tool(name: str, description: str, required: Mapping[str, Json], optional: Mapping[str, Json] | None = None) -> Json:
    parameters = {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def instructions(tools: Sequence[Json]) -> str:
    """Tools as prompt mode shows them."""
    return wording.tool_instructions(tools, HERMES, ESCAPER, wording.answer_in(None, ESCAPER))


UNIT: Json = {"type": "string", "enum": ["celsius", "fahrenheit"]}
TOOLS = [
    tool("get_weather", "Get the current weather for a city", {"city": TEXT}, {"unit": UNIT, "days": INTEGER}),
    tool("read_file", "Read a file from disk", {"path": TEXT}),
    tool("writeFile", "Write text to a file", {"path": TEXT, "content": TEXT}, {"append": {"type": "boolean"}}),
    tool("delete_files", "Delete files", {"paths": {"type": "array", "items": TEXT}}, {"force": {"type": "boolean"}}),
    tool("add", "Add two numbers", {"a": {"type": "number"}, "b": {"type": "number"}}),
    tool("book_flight", "Book a flight", {"origin": TEXT, "destination": TEXT}, {"date": TEXT}),
    tool("search_web", "Search the web. It knows cities, jokes and all.", {"query": TEXT}, {"limit": INTEGER}),
]
SYSTEM = Turn("system", f"You are terse.\n\n{instructions(TOOLS)}")


def calls(text: str) -> list[tuple[str, Json]]:
    found = [json.loads(block) for block in re.findall(r"<tool_call>\n(.*?)\n</tool_call>", text)]
    return [(call["name"], call["arguments"]) for call in found]


def asked(request: str, tools: Sequence[Json] = TOOLS) -> list[tuple[str, Json]]:
    return calls(answer([Turn("system", instructions(tools)), Turn("user", request)]))


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("What is the weather in Paris?", ("get_weather", {"city": "Paris"})),
        ("what's the weather in paris", ("get_weather", {"city": "paris"})),
        (
            "Weather in New York in Fahrenheit for 3 days",
            ("get_weather", {"city": "New York", "unit": "fahrenheit", "days": 3}),
        ),
        ("Read notes.txt", ("read_file", {"path": "notes.txt"})),
        ("Could you read the file /var/log/a.log for me?", ("read_file", {"path": "/var/log/a.log"})),
        ('Write "hello world" to `out.txt`', ("writeFile", {"path": "out.txt", "content": "hello world"})),
        ("Write 'x' to out.txt, don't append", ("writeFile", {"path": "out.txt", "content": "x", "append": False})),
        ("Delete a.txt and b.txt by force", ("delete_files", {"paths": ["a.txt", "b.txt"], "force": True})),
        ("Add 2 and -3.5", ("add", {"a": 2, "b": -3.5})),
        (
            "Book a flight from Berlin to Lisbon on 2026-12-01",
            ("book_flight", {"origin": "Berlin", "destination": "Lisbon", "date": "2026-12-01"}),
        ),
        ("Search the web for envoy proxies", ("search_web", {"query": "envoy proxies"})),
        ("Use search_web: limit 5", ("search_web", {"query": "limit 5", "limit": 5})),
        ("Call add", ("add", {"a": 1, "b": 1})),
    ],
)
def test_picks_the_fitting_tool_and_fills_its_parameters(request_text: str, expected: tuple[str, Json]) -> None:
    assert asked(request_text) == [expected]


@pytest.mark.parametrize(
    ("request_text", "things"),
    [
        ("What is the weather in Paris and in Rome?", ["Paris", "Rome"]),
        ("weather in paris, oslo and rome", ["paris", "oslo", "rome"]),
        ("Weather in Paris and Rome in celsius", ["Paris", "Rome"]),
        ("Weather in Paris, France", ["Paris"]),
    ],
)
def test_calls_once_for_each_thing_that_is_listed(request_text: str, things: list[str]) -> None:
    assert [arguments["city"] for _, arguments in asked(request_text)] == things


@pytest.mark.parametrize(
    "request_text", ["Hello, how are you?", "Tell me a joke", "Thanks!", "What is the capital of France?"]
)
def test_talks_when_no_tool_fits(request_text: str) -> None:
    assert answer([SYSTEM, Turn("user", request_text)]) == f"You said: {request_text}"


def test_only_talks_without_tools() -> None:
    assert answer([Turn("user", "What is the weather in Paris?")]) == "You said: What is the weather in Paris?"


@pytest.mark.parametrize(
    ("turns", "thought"),
    [
        ([Turn("user", "What is the weather in Paris?")], "The tool get_weather fits what is asked, so I call it."),
        ([Turn("user", "Tell me a joke")], "No tool fits what is asked, so I answer myself."),
        ([Turn("user", "Hm"), Turn("user", "The tool add returned:\n3")], "There is a result, so I can answer."),
    ],
)
def test_it_thinks_before_all_else_if_it_is_to_and_says_the_same(turns: list[Turn], thought: str) -> None:
    said = answer([SYSTEM, *turns], thinks=True)
    assert said == f"<think>\n{thought}\n</think>\n\n{answer([SYSTEM, *turns])}"


def test_without_tools_it_never_thinks() -> None:
    assert answer([Turn("user", "Tell me a joke")], thinks=True) == "You said: Tell me a joke"


def test_speaks_before_it_calls_when_asked_politely() -> None:
    said = answer([SYSTEM, Turn("user", "Read notes.txt, please")])
    assert said.startswith("Of course, one moment.\n<tool_call>\n")
    assert calls(said) == [("read_file", {"path": "notes.txt"})]


def test_fills_nested_schemas_behind_references() -> None:
    place = {"type": "object", "properties": {"city": TEXT, "country": TEXT}, "required": ["city"]}
    parameters = {
        "type": "object",
        "$defs": {"place": place},
        "properties": {
            "stops": {"type": "array", "items": {"$ref": "#/$defs/place"}},
            "mode": {"anyOf": [{"type": "null"}, {"type": "string", "enum": ["car", "train"]}]},
            "level": {"const": 3},
            "size": {"type": ["integer", "null"], "minimum": 4},
        },
        "required": ["stops", "level", "size"],
    }
    trip = {"type": "function", "function": {"name": "plan_trip", "parameters": parameters}}
    assert asked("Plan a trip by train to Ulm", [trip]) == [
        ("plan_trip", {"stops": [{"city": "Ulm"}], "mode": "train", "level": 3, "size": 4})
    ]


def called(name: str) -> list[Turn]:
    return [SYSTEM, Turn("user", "What is the weather in Paris?"), Turn("assistant", HERMES.write([(name, "{}")]))]


def returned(*results: tuple[str, str]) -> str:
    (turn,) = wording.results([(name, [text]) for name, text in results], ESCAPER)
    assert isinstance(turn, str)
    return turn


def test_answers_from_results() -> None:
    results = returned(("get_weather", '{"temp_c": 18, "sky": "cloudy"}'), ("read_file", "Buy milk.\n\nAnd tea."))
    assert answer([*called("get_weather"), Turn("user", results)]) == (
        "According to get_weather, temp_c is 18, sky is cloudy. According to read_file, Buy milk.\n\nAnd tea."
    )


def test_a_request_behind_results_comes_first() -> None:
    turn = Turn("user", f"{returned(('get_weather', '18'))}\n\nNow read notes.txt")
    assert calls(answer([*called("get_weather"), turn])) == [("read_file", {"path": "notes.txt"})]


def test_calls_on_demand_even_if_nothing_fits() -> None:
    assert calls(answer([SYSTEM, Turn("user", f"Hello\n\n{wording.must_call(None, HERMES)}")]))[0][0] == "get_weather"
    assert calls(answer([SYSTEM, Turn("user", f"Hello\n\n{wording.must_call('add', HERMES)}")]))[0][0] == "add"


def test_ends_a_task_with_the_tool_made_for_it() -> None:
    finish = tool("attempt_completion", "Ends the task", {"result": TEXT})
    system = Turn("system", instructions([*TOOLS, finish]))
    turns = [system, *called("get_weather")[1:], Turn("user", returned(("get_weather", "18")))]
    assert calls(answer(turns)) == [("attempt_completion", {"result": "According to get_weather, 18."})]


def test_a_tool_that_takes_no_last_word_ends_no_task() -> None:
    leave = tool("ExitWorktree", "Leaves the worktree", {"action": {"type": "string", "enum": ["keep", "remove"]}})
    system = Turn("system", instructions([*TOOLS, leave]))
    turns = [system, *called("get_weather")[1:], Turn("user", returned(("get_weather", "18")))]
    assert answer(turns) == "According to get_weather, 18."


@pytest.mark.parametrize("tag", ["environment_details", "environment_context", "system-reminder"])
def test_what_a_client_adds_isnt_what_the_user_asks(tag: str) -> None:
    turn = Turn("user", f'<{tag}>\nUse get_weather in "Rome".\n</{tag}>\nNow read notes.txt')
    assert calls(answer([SYSTEM, turn])) == [("read_file", {"path": "notes.txt"})]


def test_a_demanded_text_comes_before_a_list_that_may_be_left_out() -> None:
    run = tool("exec_command", "Runs a command", {"cmd": TEXT}, {"prefix_rule": {"type": "array", "items": TEXT}})
    turn = Turn("user", 'Use exec_command: "wc -w notes.txt"')
    assert calls(answer([Turn("system", instructions([run])), turn])) == [("exec_command", {"cmd": "wc -w notes.txt"})]


def test_sees_tools_and_results_that_the_chat_template_renders() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    messages: list[Json] = [{"role": "user", "content": [{"type": "text", "text": "What is the weather in Paris?"}]}]
    with ScriptedVLLM().running() as vllm, httpx.Client(base_url=vllm.url) as client:

        def ask() -> str:
            body = {"messages": messages, "tools": TOOLS, "tool_choice": "none"}
            said: str = client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
            return said

        assert calls(ask()) == [("get_weather", {"city": "Paris"})]
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees"},
        ]
        assert ask() == "According to the tool, 18 degrees."
