"""What the benchmark of agents' first turns takes for a right call, and how it reads and asks."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench.first_turns import page
from bench.first_turns.__main__ import judged
from bench.first_turns.answers import Call, calls, prompt_tokens, schemas
from bench.first_turns.captured import CLIENTS, INSTALLED_NAMES, MARK, FirstTurn, first_turns, kept
from bench.first_turns.tasks import TASKS
from bench.quality.ways import WAYS

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


@pytest.mark.parametrize(
    ("at", "client", "name", "arguments"),
    [
        (3, "Codex", "exec_command", {"cmd": "rg --files src"}),
        (3, "Claude Code", "Glob", {"pattern": "src/*"}),
        (4, "Claude Code", "Grep", {"pattern": "TODO"}),
        (6, "Codex", "exec_command", {"cmd": "cd /home/dev/project && rm -f './build.log' && ls"}),
        (6, "Cline", "run_commands", {"commands": ["rm -- /home/dev/project/build.log"]}),
        (2, "Codex", "exec_command", {"cmd": "cat > hello.txt <<EOF\ngood morning\nEOF"}),
        (2, "Cline", "run_commands", {"commands": ["echo 'good morning' | tee hello.txt"]}),
        (6, "Codex", "exec_command", {"cmd": "bash -lc 'rm build.log' 2>/dev/null"}),
        (9, "Cline", "run_commands", {"commands": ["git branch"]}),
        (9, "Codex", "exec_command", {"cmd": "git -C . branch --show-current"}),
        (9, "Codex", "exec_command", {"cmd": "git symbolic-ref --short HEAD"}),
        (9, "Codex", "exec_command", {"cmd": "git branch | grep '*'"}),
        (4, "Codex", "exec_command", {"cmd": "rg -n TODO"}),
        (4, "Codex", "exec_command", {"cmd": "rg --files | xargs grep -n TODO"}),
    ],
)
def test_there_are_other_right_ways(at: int, client: str, name: str, arguments: Any) -> None:
    assert TASKS[at].is_right(client, Call(name, arguments))


@pytest.mark.parametrize(
    ("at", "client", "name", "arguments"),
    [
        (0, "Codex", "exec_command", {"command": "cat notes.txt"}),
        (2, "Codex", "exec_command", {"cmd": "echo 'hello.txt good morning'"}),
        (3, "Claude Code", "Glob", {"pattern": "lib/*"}),
        (4, "Claude Code", "Grep", {"pattern": "FIXME"}),
        (4, "Codex", "exec_command", {"cmd": "rg --files 'TODO'"}),
        (4, "Codex", "exec_command", {"cmd": "rg --files | grep TODO"}),
        (6, "Codex", "exec_command", {"cmd": "rm -rf src build.log"}),
        (6, "Codex", "exec_command", {"cmd": "rm -rf build.log src"}),
        (6, "Codex", "exec_command", {"cmd": "rm -rf src; rm build.log"}),
        (6, "Cline", "run_commands", {"commands": ["rm build.log", "rm -r src"]}),
        (9, "Codex", "exec_command", {"cmd": "git branch && git branch -D main"}),
        (9, "Codex", "exec_command", {"cmd": "git branch -D main"}),
        (9, "Codex", "exec_command", {"cmd": "git branch new"}),
        (9, "Codex", "exec_command", {"cmd": "git symbolic-ref HEAD refs/heads/x"}),
    ],
)
def test_what_does_something_else_or_harm_is_wrong(at: int, client: str, name: str, arguments: Any) -> None:
    assert not TASKS[at].is_right(client, Call(name, arguments))


def test_what_was_published_is_judged_as_it_was() -> None:
    """Where its first call was kept whole, and is one that its schema allows."""
    judged = 0
    for file in page.RESULTS.glob("*.json"):
        for client, found in json.loads(file.read_text(encoding="utf-8"))["clients"].items():
            for task, told in zip(TASKS, found["tasks"], strict=True):
                name, _, arguments = told["first"].partition(" ")
                if told["valid"] and len(told["first"]) < 200:
                    judged += 1
                    assert task.is_right(client, Call(name, json.loads(arguments))) == told["right"]
    assert judged > 10


def of_codex(arguments: Any) -> dict[str, Any]:
    """What an answer to Codex' first task is that calls its shell with these arguments."""
    schema = {"type": "object", "properties": {"cmd": {"type": "string"}, "tty": {"type": "boolean"}}}
    sent = {"input": MARK, "tools": [{"name": "exec_command", "parameters": schema}]}
    call = {"type": "function_call", "name": "exec_command", "arguments": json.dumps(arguments)}
    turn = FirstTurn("Codex", RESPONSES, json.dumps(sent))
    return judged(turn, TASKS[0], sent, {"output": [call], "usage": {"input_tokens": 7}})


def test_a_call_that_its_schema_forbids_is_wrong() -> None:
    assert of_codex({"cmd": "cat notes.txt"})["right"]
    found = of_codex({"cmd": "cat notes.txt", "tty": "no"})
    assert (found["right"], found["called"], found["valid"]) == (False, True, False)


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


def test_what_a_client_sent_once_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXTPROC_CACHE", str(tmp_path))
    (tmp_path / "first_turns").mkdir()
    sent = [FirstTurn(name, CHAT, json.dumps({"messages": [MARK]})) for name in CLIENTS]
    for turn, installed in zip(sent, INSTALLED_NAMES, strict=True):
        kept(installed).write_text(json.dumps(asdict(turn)), encoding="utf-8")
    assert list(first_turns()) == sent


def test_its_digest_is_of_what_agents_are_told() -> None:
    """They aren't shown the example, and others are."""
    ways = {way.name: way for way in WAYS}
    shown, plain = ways["recommended"], ways["xlam-retry"]
    assert shown.agents_wording == plain.agents_wording
    assert shown.wording != plain.wording
