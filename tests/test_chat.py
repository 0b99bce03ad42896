"""`extproc chat`: a conversation through the gateway, with tools that run at the terminal."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from extproc.chat.answers import Answer, AnswerError, CallBegun, Text, Thinking
from extproc.chat.terminal import printable
from extproc.chat.tools import TOOLS, run
from extproc.cli import main
from scripted_vllm import Reply
from scripted_vllm.troubles import Fail
from tests.gateway import MODEL, Gateway, free_port, wait_until


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def chat(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, *lines: str, options: tuple[str, ...] = ()) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    return main(["chat", gateway.url, "--model", MODEL, *options])


def asked(gateway: Gateway) -> list[Any]:
    return [json.loads(request.body)["messages"] for request in gateway.backend.requests]


# Through the gateway


def test_the_models_words_are_shown_and_the_next_line_has_the_ones_before(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.backend.play(Reply("Good morning."), Reply("As I said."))
    assert chat(gateway, monkeypatch, "Hello", "", "Again", options=("--no-tools",)) == 0
    assert capsys.readouterr().out == "Good morning.\nAs I said.\n"
    assert [turn["content"] for turn in asked(gateway)[1]] == ["Hello", "Good morning.", "Again"]


def test_it_stays_to_the_end_of_an_answer(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the gateway would take it for a client that has left."""
    begun = datetime.now(UTC).isoformat(timespec="milliseconds")[: len("2026-11-27T07:18:32.677")]

    def flags() -> list[str]:
        """Of requests that have begun since: earlier ones may be logged only now."""
        return [line["flags"] for line in gateway.whole_access_log() if line["time"] >= begun]

    gateway.backend.play(*[Reply("Good morning.")] * 5)
    assert chat(gateway, monkeypatch, *["Hello"] * 5) == 0
    wait_until(lambda: len(flags()) == 6)
    assert flags() == ["-"] * 6


def test_a_call_runs_here_and_its_result_goes_to_the_model(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "letter.txt").touch()
    monkeypatch.chdir(tmp_path)
    gateway.backend.play(Reply(f"I'll look.\n{call('list_directory', path='.')}"), Reply("There is a letter."))
    assert chat(gateway, monkeypatch, "What is here?", "/quit", "never said") == 0
    assert capsys.readouterr().out == (
        'I\'ll look.\n-> list_directory({"path": "."})\n<- ["letter.txt"]\nThere is a letter.\n'
    )
    assert "letter.txt" in asked(gateway)[1][-1]["content"]
    assert len(asked(gateway)) == 2


def test_thinking_is_shown_as_such_and_is_no_part_of_what_was_said(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    thought = "<think>\nI need\nthe time.\n</think>\n\n"
    gateway.backend.play(Reply(f"{thought}{call('current_time')}"), Reply(f"{thought}Noon."))
    assert chat(gateway, monkeypatch, "What time is it?") == 0
    shown = re.sub(r"<- .*", "<- TIME", capsys.readouterr().out)
    thinking = "-- thinking: I need\nthe time.\n"
    assert shown == f"{thinking}-> current_time({{}})\n<- TIME\n{thinking}Noon.\n"
    assert "I need" not in json.dumps(asked(gateway)[1])


def test_an_error_is_told_and_leaves_the_conversation_as_it_was(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.backend.play(Reply(trouble=Fail(429)), Reply("Now."))
    assert chat(gateway, monkeypatch, "First", "Second", options=("--no-tools",)) == 0
    assert re.fullmatch(r"\n-- error: status 429: .+\nNow\.\n", capsys.readouterr().out)
    assert [turn["content"] for turn in asked(gateway)[-1]] == ["Second"]


def test_a_conversation_can_be_forgotten(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway.backend.play(Reply("One."), Reply("Two."))
    assert chat(gateway, monkeypatch, "First", "/clear", "Second", options=("--no-tools",)) == 0
    assert [turn["content"] for turn in asked(gateway)[-1]] == ["Second"]


def test_the_commands_are_told(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chat(gateway, monkeypatch, "/tools", "/what") == 0
    told = capsys.readouterr().out
    assert all(tool["function"]["name"] in told for tool in TOOLS)
    assert "/clear" in told
    assert gateway.backend.requests == []


def test_a_model_that_is_not_there_brings_those_that_are(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["chat", gateway.url, "--model", "other"]) == 1
    assert MODEL in capsys.readouterr().err


def test_without_a_gateway_the_next_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", f"127.0.0.1:{free_port()}"]) == 1
    assert "is the gateway running? `extproc up --scripted` starts one" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://", "http://host:1/v1?x=1"])
def test_only_a_base_url_is_asked(url: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["chat", url])


# A stream


def chunk(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def piece(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": more["name"]} if more else {})}
    return {"index": index, "function": function, **({"id": f"call_{index}"} if more else {})}


def test_a_stream_becomes_the_message_of_the_history() -> None:
    chunks: list[dict[str, Any]] = [
        chunk(role="assistant", reasoning="Hm."),
        chunk(content="I'll "),
        chunk(content="ask."),
        chunk(tool_calls=[piece(0, "", name="one"), piece(1, '{"a"', name="two")]),
        chunk(tool_calls=[piece(1, ": 1}")]),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": {}},
    ]
    answer = Answer()
    shown = [each for data in chunks for each in answer.add(data)]
    assert shown == [Thinking("Hm."), Text("I'll "), Text("ask."), CallBegun("one"), CallBegun("two")]
    assert answer.finish_reason == "tool_calls"
    assert answer.message["content"] == "I'll ask."
    assert [(made["id"], made["function"]["arguments"]) for made in answer.message["tool_calls"]] == [
        ("call_0", ""),
        ("call_1", '{"a": 1}'),
    ]


def test_an_error_in_the_stream_is_one() -> None:
    with pytest.raises(AnswerError, match="the backend fell silent"):
        list(Answer().add({"error": {"message": "the backend fell silent"}}))


def test_nothing_that_moves_the_cursor_gets_to_the_terminal() -> None:
    assert printable("a\x1b[2Jb\r\n\tc\u202e") == "a\ufffd[2Jb\ufffd\n\tc\ufffd"


# The tools


def test_the_tools_do_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for number in range(101):
        (tmp_path / "folder" / f"{number:03}").touch()
    assert run("list_directory", "") == '["folder/"]'
    assert json.loads(run("list_directory", '{"path": "folder"}'))[-1] == "and 1 more"
    assert re.fullmatch(r"\w+day, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", run("current_time", "{}"))
    throws = json.loads(run("roll_dice", '{"sides": 2, "count": 50}'))
    assert (len(throws), set(throws) <= {1, 2}) == (50, True)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("other", "{}", "there is no tool other"),
        ("current_time", '{"timezone": "Nowhere/At_All"}', "no such time zone"),
        ("roll_dice", '{"sides": 1}', "dice have 2 to 1000 sides"),
        ("list_directory", '{"path": ".."}', "only this directory"),
        ("list_directory", '{"path": "not-there"}', "No such file"),
        ("roll_dice", "[1]", "can't be used"),
        ("roll_dice", "{", "can't be used"),
        ("roll_dice", '{"unknown": 1}', "can't be used"),
        ("roll_dice", '{"sides": "six"}', "can't be used"),
    ],
)
def test_what_a_tool_can_not_do_it_says(
    name: str, arguments: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(name, arguments).startswith("Error: ")
    assert said in run(name, arguments)
