"""What agents send first. Each client is run once with a mark for its task; the words of a task are put in its place.

The client runs as in the tests, in a home and a workspace of its own. Their paths are replaced, so that a model is told
the same on every machine.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.claude_code import run_claude
from tests.clients.cline import run_cline
from tests.clients.codex import run_codex
from tests.clients.sandbox import Sandbox
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
_CLIENTS: dict[str, _Run] = {
    "Cline": lambda sandbox, url: run_cline(sandbox, f"{url}/v1", "m1", MARK, seconds=_SECONDS),
    "Claude Code": lambda sandbox, url: run_claude(sandbox, url, "m1", MARK, seconds=_SECONDS),
    "Codex": lambda sandbox, url: run_codex(sandbox, f"{url}/v1", "m1", MARK, seconds=_SECONDS),
}
CLIENTS = tuple(_CLIENTS)


def first_turns() -> Iterator[FirstTurn]:
    """That of each client. Raises `AssertionError` if one sends no such request."""
    for name, run in _CLIENTS.items():
        with tempfile.TemporaryDirectory() as folder:
            kept, place = Path(folder) / "kept", Path(folder) / "client"
            place.mkdir()
            sandbox = Sandbox(place)
            with Recorder({"turns": []}, kept) as recorder:  # it refuses all that offers tools, so that the client ends
                threading.Thread(target=recorder.serve_forever, daemon=True).start()
                ended = run(sandbox, f"http://127.0.0.1:{recorder.server_port}")
                recorder.shutdown()
            sent = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(kept.iterdir())]
            offering = [one for one in sent if one["body"].get("tools")]
            assert offering, f"{name} sent no request with tools: {ended}"
            body = json.dumps(offering[0]["body"], ensure_ascii=False)
            assert body.count(MARK) == 1, f"{name} says its task more than once, or in other words"
            yield FirstTurn(name, offering[0]["path"].partition("?")[0], _anywhere(body, sandbox))


def _anywhere(body: str, sandbox: Sandbox) -> str:
    """With a developer's paths for the sandbox's, also where Claude Code names a folder after one."""
    for own, told in ((sandbox.workspace, _WORKSPACE), (sandbox.home, _HOME)):
        body = body.replace(str(own), told).replace(str(own).replace("/", "-"), told.replace("/", "-"))
    return body
