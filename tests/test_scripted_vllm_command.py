"""`python -m scripted_vllm` as a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

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
