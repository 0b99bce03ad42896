"""The ways in which a model can be asked, from the plainest to the strictest, as far as its server takes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from extproc.config import Config, parse
from extproc.contract.servers import SERVERS
from extproc.probe.advice import Advice, Findings, shows_tools
from extproc.probe.questions import Forcing
from extproc.toolcalls import get_format
from extproc.toolcalls.formats import call_syntax
from extproc.toolcalls.syntax.forcing import can_be_forced_amid_text

LIST = "xlam"
"""The format by which models are asked for a list of calls: several at once come from it most often
(docs/prompt-mode.md)."""
NAME = "measured"
MIN_CONFIDENCES = (0.92, 0.95)
"""As docs/prompt-mode.md found them, for one model in prompt mode and another with its template."""


@dataclass(frozen=True, slots=True)
class Way:
    """As a gateway would ask with these settings of the model."""

    settings: dict[str, Any] | None = field(default=None)
    """None: the server alone, which gets the request as it is."""

    @property
    def told(self) -> str:
        """For a person."""
        if self.settings is None:
            return "the server alone"
        words = (f"{name}: {json.dumps(value)}" for name, value in self.settings.items() if name not in _MEANT)
        return ", ".join(word.replace('"', "") for word in words)

    def configuration(self, model: str, server: str) -> Config:
        """Of a gateway that asks so."""
        assert self.settings is not None
        settings = {"name": NAME, "backend": "server", "upstream_model": model, **self.settings}
        backend = {"name": "server", "address": "127.0.0.1:1", "server": server}  # asked by us, and at its own address
        return parse(json.dumps({"models": [settings], "backends": [backend]}, ensure_ascii=False))


_MEANT = ("thinking", "repair")
"""What goes without saying in a table."""


def plain(findings: Findings, advice: Advice) -> list[Way]:
    """Those in which nothing is forced, the server alone first if it takes tools."""
    return list(_plain(findings, advice))


def _plain(findings: Findings, advice: Advice) -> Iterator[Way]:
    if findings.auto.accepted:
        yield Way()
        yield Way({"tools": "native", "format": advice.format, "repair": True})
    unread = SERVERS[findings.server].unread
    shown = findings.auto if unread == "auto" else findings.none
    parsed = unread == "none" and findings.auto.accepted  # by the server, whose own parser then stands in the way
    if unread is not None and shown.accepted and not parsed and shows_tools(findings, shown) is not False:
        yield Way({"tools": "template", "format": advice.format, **_thinking(advice, advice.format)})
    told = [name for name in (advice.format, LIST) if call_syntax(name) is not None]
    for name in dict.fromkeys(told):
        settings = {"tools": "prompt", "format": name, **_thinking(advice, name)}
        if name == advice.format:
            yield Way(settings)
        yield Way({**settings, "example": True})


def forced(way: Way, findings: Findings) -> Way | None:
    """The same, held to the schemas once a call has begun; None where that can't be."""
    if way.settings is None or way.settings["tools"] == "native" or findings.forcing is not Forcing.BINDS:
        return None
    syntax = call_syntax(way.settings["format"])
    if syntax is None or not can_be_forced_amid_text(syntax):
        return None
    return Way({**way.settings, "forced": "begun"})


def retried(way: Way) -> Way | None:
    """The same, asked once more where the model made up a tool; None where that isn't the gateway's to ask."""
    return Way({**way.settings, "retry": True}) if way.settings is not None else None


def confident(way: Way, findings: Findings) -> list[Way]:
    """The same, asked once more also where the model is unsure of its call; none where nothing tells how sure it is."""
    if way.settings is None or way.settings["tools"] == "native":
        return []
    if way.settings["tools"] == "template" and not SERVERS[findings.server].logprobs_with_tools:
        return []
    return [Way({**way.settings, "retry": True, "min_confidence": least}) for least in MIN_CONFIDENCES]


def _thinking(advice: Advice, name: str) -> dict[str, Any]:
    """A format that knows no thinking can't begin inside it; what the model thinks is then text, and no call in it."""
    opened = advice.thinking == "open" and get_format(name).thinking is not None
    return {"thinking": "open"} if opened else {}
