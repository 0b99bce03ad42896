"""Cline 3 on the command line, as `cline --yolo --json` is run by hand after `cline auth`.

Its exit status says nothing: it is 0 for a task that was given up. What counts is the last line that it prints, and
what is in the workspace.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.clients.installed import client
from tests.clients.sandbox import SECONDS, Finished, Sandbox

QUIET = {"CLINE_NO_AUTO_UPDATE": "1"}
PROVIDER = "openai-compatible"
_SETTINGS = Path(".cline/data/settings")


@dataclass(frozen=True, slots=True)
class ClineRun:
    """A task that Cline has ended, or that was ended."""

    finished: Finished
    events: list[dict[str, Any]]
    """The lines that it printed."""

    @property
    def completed(self) -> bool:
        """Whether it says itself that the task is done."""
        last = self.events[-1] if self.events else {}
        return (last.get("type"), last.get("finishReason")) == ("run_result", "completed")

    @property
    def said(self) -> list[str]:
        """All that the user is shown as words of the model: text and reasoning of each turn, and the last word."""
        ended = [event["event"] for event in self.events if event.get("event", {}).get("type") == "content_end"]
        words = [str(content.get("text", "")) for content in ended if content["contentType"] != "tool"]
        return [*words, *(str(event.get("text", "")) for event in self.events if event.get("type") == "run_result")]

    @property
    def results(self) -> list[tuple[str, Any]]:
        """What its tools returned: names and results, in the order in which they were ready."""
        ended = [event["event"] for event in self.events if event.get("event", {}).get("type") == "content_end"]
        return [(content["toolName"], content.get("output")) for content in ended if content["contentType"] == "tool"]


def providers(sandbox: Sandbox) -> Path:
    """The file that `cline auth` writes."""
    return sandbox.home / _SETTINGS / "providers.json"


def sign_in(sandbox: Sandbox, url: str, model: str) -> None:
    """What `cline auth` does, which takes longer than many a task."""
    settings = {"provider": PROVIDER, "apiKey": "sk-any", "model": model, "baseUrl": url}
    provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    file = providers(sandbox)
    file.parent.mkdir(parents=True)
    file.write_text(
        json.dumps({"version": 1, "lastUsedProvider": PROVIDER, "modes": {}, "providers": {PROVIDER: provider}})
    )
    quiet = {"telemetryOptOut": True, "autoUpdateEnabled": False}
    file.with_name("global-settings.json").write_text(json.dumps(quiet))


def run_cline(
    sandbox: Sandbox,
    url: str,
    model: str,
    task: str,
    *,
    act: bool = False,
    env: Mapping[str, str] = MappingProxyType({}),
    seconds: float = SECONDS,
) -> ClineRun:
    """Set it up for a gateway and let it do a task; in act mode it has all of its tools."""
    sign_in(sandbox, url, model)
    # Without --yolo it would leave the work to a daemon.
    mode, more = ((), {"CLINE_SESSION_BACKEND_MODE": "local"}) if act else (("--yolo",), {})
    arguments = (*mode, "--json", "-c", str(sandbox.workspace), task)
    finished = sandbox.run(client("cline"), *arguments, env={**QUIET, **more, **env}, seconds=seconds)
    return ClineRun(finished, finished.json_lines())
