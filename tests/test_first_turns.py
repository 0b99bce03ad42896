"""What the benchmark of agents' first turns takes for a right call, and how it reads and asks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.first_turns.answers import Call, calls, prompt_tokens, schemas
from bench.first_turns.captured import MARK, FirstTurn
from bench.first_turns.tasks import TASKS

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"

RIGHT = [
    ("Codex", "exec_command", {"cmd": "cd /home/dev/project && cat notes.txt"}),
    ("Cline", "run_commands", {"commands": ["make test"]}),
    ("Claude Code", "Write", {"file_path": "/home/dev/project/hello.txt", "content": "good morning\n"}),
    ("Codex", "exec_command", {"cmd": "ls -la src"}),
    ("Claude Code", "Bash", {"command": "grep -rn TODO ."}),
    ("Cline", "run_commands", {"commands": ["git diff"]}),
    ("Codex", "exec_command", {"cmd": "rm build.log"}),
    ("Claude Code", "Bash", {"command": "git mv old.txt new.txt"}),
    ("Cline", "read_files", {"files": [{"path": "notes.txt"}]}),
    ("Codex", "exec_command", {"cmd": "git rev-parse --abbrev-ref HEAD"}),
]
WRONG = [
    ("Cline", "read_files", {"files": [{"path": "README.md"}]}),
    ("Claude Code", "Bash", {"command": "pytest"}),
    ("Codex", "exec_command", {"cmd": "echo 'good evening' > hello.txt"}),
    ("Cline", "read_files", {"files": [{"path": "src"}]}),
    ("Codex", "exec_command", {"cmd": "ls"}),
    ("Claude Code", "TaskList", {}),
    ("Cline", "editor", {"path": "build.log", "new_text": ""}),
    ("Codex", "exec_command", {"cmd": "mv new.txt old.txt"}),
    ("Claude Code", "Bash", ["wc -l notes.txt"]),
    ("Codex", "exec_command", {"cmd": "hg branch"}),
]


@pytest.mark.parametrize("at", range(len(TASKS)))
def test_a_first_call_is_right_by_what_it_does(at: int) -> None:
    client, name, arguments = RIGHT[at]
    assert TASKS[at].is_right(client, Call(name, arguments))
    for_others = {other for other, task in enumerate(TASKS) if task.is_right(client, Call(name, arguments))} - {at}
    assert for_others <= {0, 8}  # to read notes.txt is right for both of its tasks
    client, name, arguments = WRONG[at]
    assert not TASKS[at].is_right(client, Call(name, arguments))


def test_a_call_of_another_clients_tool_is_wrong() -> None:
    assert not TASKS[1].is_right("Cline", Call("Bash", {"command": "make test"}))
    assert not TASKS[0].is_right("Codex", Call("Read", {"file_path": "notes.txt"}))


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (
            CHAT,
            {
                "choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1}'}}]}}],
                "usage": {"prompt_tokens": 7},
            },
        ),
        (
            MESSAGES,
            {
                "content": [{"type": "text", "text": "Now."}, {"type": "tool_use", "name": "f", "input": {"a": 1}}],
                "usage": {"input_tokens": 3, "cache_read_input_tokens": 4},
            },
        ),
        (
            RESPONSES,
            {
                "output": [{"type": "message"}, {"type": "function_call", "name": "f", "arguments": '{"a": 1}'}],
                "usage": {"input_tokens": 7},
            },
        ),
    ],
    ids=["chat", "messages", "responses"],
)
def test_answers_are_read_in_each_dialect(path: str, answer: dict[str, Any]) -> None:
    assert calls(path, answer) == [Call("f", {"a": 1})]
    assert prompt_tokens(answer) == 7


def test_arguments_that_are_no_json_are_none() -> None:
    assert calls(RESPONSES, {"output": [{"type": "function_call", "name": "f", "arguments": "{"}]}) == [Call("f", None)]


def test_schemas_are_those_of_functions() -> None:
    schema = {"type": "object"}
    assert schemas(CHAT, {"tools": [{"function": {"name": "f", "parameters": schema}}]}) == {"f": schema}
    assert schemas(MESSAGES, {"tools": [{"name": "f", "input_schema": schema}]}) == {"f": schema}
    assert schemas(RESPONSES, {"tools": [{"name": "f", "parameters": schema}, {"type": "web_search"}]}) == {"f": schema}


def test_a_task_takes_the_marks_place() -> None:
    sent = {"messages": [{"role": "user", "content": f"<t>{MARK}</t>"}], "stream": True, "stream_options": {}}
    asked = FirstTurn("Cline", CHAT, json.dumps(sent)).request('Say "a\\b".', "m2", 9)
    assert asked["messages"][0]["content"] == '<t>Say "a\\b".</t>'
    assert asked == asked | {"model": "m2", "stream": False, "temperature": 0, "max_tokens": 9}
    assert "stream_options" not in asked
    assert "max_output_tokens" in FirstTurn("Codex", RESPONSES, json.dumps(sent)).request("x", "m2", 9)
