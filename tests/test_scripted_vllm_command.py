"""`python -m scripted_vllm` as a process."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripted_vllm.answers import load_answers
from tests.scripted_wire import HELLO, STREAM, pieces

COMMAND = [sys.executable, "-m", "scripted_vllm", "--port", "0"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_plays_a_file_and_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "replies.jsonl"
    lines: list[dict[str, Any]] = [
        {"text": "from a file", "usage": {"prompt": 3, "completion": 4}},
        {"trouble": {"kind": "fail", "status": 500, "body": "html"}},
    ]
    script.write_text("\n\n".join(map(json.dumps, lines)))
    arguments = [*COMMAND, "--model", "tiny", "--play", str(script), "--pieces", "2", "--pace", "0.001"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            url = ready.split()[-1]
            assert ready == f"scripted vLLM: tiny at {url}\n"
            said = httpx.post(f"{url}/chat/completions", json=HELLO).json()
            failed = httpx.post(f"{url}/chat/completions", json=HELLO)
            built_in = httpx.post(f"{url}/chat/completions", json=STREAM).content
        finally:
            process.send_signal(number)
            output, errors = process.communicate(timeout=20)
    assert said["choices"][0]["message"]["content"] == "from a file"
    assert (said["model"], said["usage"]["total_tokens"]) == ("tiny", 7)
    assert (failed.status_code, failed.headers["content-type"]) == (500, "text/html")
    assert pieces(built_in)[:3] == ["Yo", "u ", "sa"]
    assert (process.returncode, output, errors) == (0, "", "")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"text": ', "replies.jsonl:2: Expecting value"),
        ('{"txt": "a"}', "replies.jsonl:2: no field is called 'txt'"),
        ('{"trouble": {"kind": "rain"}}', "replies.jsonl:2: no trouble is called 'rain'"),
        ('{"trouble": {"kind": "cut", "at": 1}}', "replies.jsonl:2: no field is called 'at'"),
    ],
)
def test_the_command_says_which_line_of_the_file_is_wrong(tmp_path: Path, line: str, complaint: str) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text(f'{{"text": "fine"}}\n{line}\n')
    done = subprocess.run([*COMMAND, "--play", str(script)], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert complaint in done.stderr


def test_the_command_knows_answers_by_name(tmp_path: Path) -> None:
    script = tmp_path / "answers.jsonl"
    script.write_text(
        '{"to": "row:1", "text": "one"}\n\n{"to": "row:1-and-2", "text": "two", "finish_reason": "length"}\n'
    )
    arguments = [*COMMAND, "--answers", str(script)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            said = [asked(url, question) for question in ("row:1-and-2?", "Say row:1", "Say row:1", "row:12")]
        finally:
            process.terminate()
            process.communicate(timeout=20)
    assert said == [("two", "length"), ("one", "stop"), ("one", "stop"), ("I know no answer to that.", "stop")]


def asked(url: str, question: str) -> tuple[str, str]:
    """What it says to a question that is in two parts, and why it stopped."""
    parts = [{"type": "text", "text": "Please."}, {"type": "text", "text": question}]
    turns = [
        {"role": "user", "content": "row:1"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": parts},
    ]
    body = {"model": "qwen2.5-coder-0.5b", "messages": turns}
    choice = httpx.post(f"{url}/chat/completions", json=body).json()["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"text": "a"}', "answers.jsonl:2: `to` has to be one word, and is None"),
        ('{"to": "two words", "text": "a"}', "answers.jsonl:2: `to` has to be one word, and is 'two words'"),
        ('{"to": "one", "txt": "a"}', "answers.jsonl:2: no field is called 'txt'"),
    ],
)
def test_the_command_says_which_answer_is_wrong(tmp_path: Path, line: str, complaint: str) -> None:
    script = tmp_path / "answers.jsonl"
    script.write_text(f'{{"to": "fine", "text": "fine"}}\n{line}\n')
    with pytest.raises(ValueError, match=re.escape(complaint)):
        load_answers(script)
