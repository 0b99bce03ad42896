"""What agents send first. Each client is run once with a mark for its task; the words of a task are put in its place.

The client runs as in the tests, in a home and a workspace of its own. Their paths are replaced, so that a model is told
the same on every machine. What it sent is kept in the cache, by the client's version: Claude Code's prompt has the date
and more that changes from one run to the next, and ways are compared that were asked on different days.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.clients.claude_code import run_claude
from tests.clients.cline import run_cline
from tests.clients.codex import run_codex
from tests.clients.installed import CLIENTS as INSTALLED
from tests.clients.sandbox import Sandbox
from tests.real_vllm.cache import root
from tests.requests.capture import Recorder

MARK = "Do what the mark EXTPROC-TASK says."
_SECONDS = 40
_HOME, _WORKSPACE = "/home/dev", "/home/dev/project"


@dataclass(frozen=True, slots=True)
class FirstTurn:
    """A client's first request that offers tools."""

    client: str
    path: str
    text: str
    """JSON, with the mark where the task belongs."""

    def request(self, task: str, model: str, max_tokens: int) -> dict[str, Any]:
        """The body to send: whole and at temperature 0, with few tokens for the answer; all else is the client's."""
        body: dict[str, Any] = json.loads(self.text.replace(MARK, json.dumps(task)[1:-1]))
        body.pop("stream_options", None)
        limit = {"/v1/messages": "max_tokens", "/v1/responses": "max_output_tokens"}.get(self.path, "max_tokens")
        return body | {"model": model, "stream": False, "temperature": 0, limit: max_tokens}


_Run = Callable[[Sandbox, str], object]


@dataclass(frozen=True, slots=True)
class _Client:
    installed: str
    """By this name among the tests' clients."""
    run: _Run


_CLIENTS = {
    "Cline": _Client("cline", lambda sandbox, url: run_cline(sandbox, f"{url}/v1", "m1", MARK, seconds=_SECONDS)),
    "Claude Code": _Client("claude-code", lambda sandbox, url: run_claude(sandbox, url, "m1", MARK, seconds=_SECONDS)),
    "Codex": _Client("codex", lambda sandbox, url: run_codex(sandbox, f"{url}/v1", "m1", MARK, seconds=_SECONDS)),
}
CLIENTS = tuple(_CLIENTS)
INSTALLED_NAMES = tuple(client.installed for client in _CLIENTS.values())


def first_turns() -> Iterator[FirstTurn]:
    """That of each client. Raises `AssertionError` if one sends no such request."""
    for name, client in _CLIENTS.items():
        file = kept(client.installed)
        if not file.exists():
            turn = _captured(name, client.run)
            file.parent.mkdir(parents=True, exist_ok=True)
            begun = file.with_suffix(f".{os.getpid()}")
            begun.write_text(json.dumps(asdict(turn), ensure_ascii=False), encoding="utf-8")
            begun.replace(file)
        yield FirstTurn(**json.loads(file.read_text(encoding="utf-8")))


def kept(installed: str) -> Path:
    """Where what a client sent is kept: by its version, and by what it was run with."""
    run_with = hashlib.sha256("\n".join((MARK, _HOME, _WORKSPACE)).encode()).hexdigest()[:8]
    return root() / "first_turns" / f"{INSTALLED[installed].directory.name}-{run_with}.json"


def _captured(name: str, run: _Run) -> FirstTurn:
    with tempfile.TemporaryDirectory() as folder:
        requests, place = Path(folder) / "requests", Path(folder) / "client"
        place.mkdir()
        sandbox = Sandbox(place)
        with Recorder({"turns": []}, requests) as recorder:  # it refuses all that offers tools, so that the client ends
            threading.Thread(target=recorder.serve_forever, daemon=True).start()
            ended = run(sandbox, f"http://127.0.0.1:{recorder.server_port}")
            recorder.shutdown()
        sent = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(requests.iterdir())]
        offering = [one for one in sent if one["body"].get("tools")]
        assert offering, f"{name} sent no request with tools: {ended}"
        body = json.dumps(offering[0]["body"], ensure_ascii=False)
        assert body.count(MARK) == 1, f"{name} says its task more than once, or in other words"
        return FirstTurn(name, offering[0]["path"].partition("?")[0], _anywhere(body, sandbox))


def _anywhere(body: str, sandbox: Sandbox) -> str:
    """With a developer's paths for the sandbox's, also where Claude Code names a folder after one."""
    for own, told in ((sandbox.workspace, _WORKSPACE), (sandbox.home, _HOME)):
        body = body.replace(str(own), told).replace(str(own).replace("/", "-"), told.replace("/", "-"))
    return body
