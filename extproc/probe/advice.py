"""From what was found to how the model is best served."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Literal

from extproc.contract.servers import SERVERS, ServerName
from extproc.diagnosis.notation import has_markup, needs_markup, readers, written_in
from extproc.probe.families import format_by_name
from extproc.probe.questions import Card, Chat, Forcing, Offer, Rendering
from extproc.toolcalls import get_format

_FALLBACK = "hermes"
"""What a model is asked for when it isn't known how it writes calls."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What one model of a server answered."""

    card: Card
    server: ServerName
    chat: Chat
    prompt_tokens: int | None
    """Without tools; the offers' prompts are compared with it."""
    auto: Offer
    none: Offer
    rendering: Rendering | None
    forcing: Forcing


class Source(enum.Enum):
    """Why a format is taken for the model's."""

    CHAT_TEMPLATE = "the chat template writes calls so"
    TRIAL = "the model wrote a call so"
    NAME = "a guess by the model's name"


@dataclass(frozen=True, slots=True)
class Advice:
    """How the model is best served, and why."""

    tools: Literal["native", "template", "prompt"]
    because: str
    format: str
    format_because: str
    thinking: Literal["tags", "open"]
    structured_outputs: bool | None
    """None: the server isn't one that has them."""
    forcing_because: str
    warnings: tuple[str, ...] = ()
    example: bool = False
    forced: Literal[False, "begun"] = False
    retry: bool = False
    min_confidence: float | None = None


def advise(findings: Findings) -> Advice:
    """The whole decision; the reasons are lines for the reader of the configuration."""
    own, source = _own_format(findings)
    tools, because = _mode(findings, own)
    bound, forcing_because = _FORCING[findings.forcing]
    return Advice(
        tools=tools,
        because=because,
        format=own or _FALLBACK,
        format_because=source.value if source is not None else "unknown; this is what most models can be told to write",
        thinking=_thinking(findings, own or _FALLBACK),
        structured_outputs=bound,
        forcing_because=forcing_because,
        warnings=tuple(_warnings(findings)),
    )


def shows_tools(findings: Findings, offer: Offer) -> bool | None:
    """Whether the offered tool was in the prompt; None when nothing tells.

    A call of it tells more than the count: that is of several prompts, or without what was added to them, where a
    gateway or a character answers.
    """
    if offer.called:
        return True
    if offer.prompt_tokens is None or findings.prompt_tokens is None:
        return None
    return offer.prompt_tokens > findings.prompt_tokens


def _own_format(findings: Findings) -> tuple[str | None, Source | None]:
    """How the model writes calls when it writes them as it learned to, and how that is known."""
    named = format_by_name(findings.card.root, findings.card.name)
    rendered = findings.rendering.call if findings.rendering is not None else None
    if rendered is not None and (found := written_in(rendered, expected=named, exactly=True)):
        return found, Source.CHAT_TEMPLATE
    if named is not None:
        return named, Source.NAME
    for offer in (findings.none, findings.auto):
        if has_markup(offer.text):
            return written_in(offer.text), Source.TRIAL
    return None, None


def _mode(findings: Findings, own: str | None) -> tuple[Literal["native", "template", "prompt"], str]:
    auto, none = findings.auto, findings.none
    unread = SERVERS[findings.server].unread
    if unread == "auto" and auto.accepted and not auto.called and shows_tools(findings, auto) is not False:
        return _read_here(findings, own)
    if auto.accepted is None:
        return "prompt", f"whether the server takes tools is open ({auto.complaint})"
    if auto.accepted:
        if shows_tools(findings, auto) is False:
            return "prompt", "the server takes tools, but its chat template doesn't show them to the model"
        if auto.called:
            return "native", "a tool parser is configured, and it found the call of a trial"
        if auto.complete:
            return "prompt", "the server takes tools, but no tool parser found a call in a trial's answer"
        return "native", "the server takes tools; whether a tool parser finds calls is open: a trial took too long"
    if unread is None:
        return "prompt", f"tools are refused ({auto.complaint})"
    if not none.accepted:
        return "prompt", f"tools are refused, even with tool_choice none ({none.complaint})"
    return _read_here(findings, own)


def _read_here(findings: Findings, own: str | None) -> tuple[Literal["template", "prompt"], str]:
    """Where the server leaves the text alone: whether the model writes calls as it learned to."""
    none = findings.none
    no_parser = "no tool parser is configured"
    sees_tools = shows_tools(findings, none)
    if sees_tools is None:
        return "prompt", f"{no_parser}; whether the model sees tools is open, as no tokens are counted"
    if not sees_tools:
        return "prompt", f"{no_parser}, and {_hidden(findings)}"
    shown = f"{no_parser}, but the chat template shows tools to the model"
    if own is None:
        return "prompt", f"{shown}; how it writes calls isn't known"
    found = readers(none.text)
    if own in found and (has_markup(none.text) or not needs_markup(own)):
        return "template", f"{shown}, and in a trial it wrote a call as it should"
    if found:
        return "prompt", f"{shown}; in a trial it wrote a call, but not in its format, so it needs to be told"
    if none.complete:
        return "prompt", f"{shown}; in a trial it wrote no call, so it needs to be told"
    return "template", f"{shown}; whether it then calls them is open: a trial took too long"


def _hidden(findings: Findings) -> str:
    """Why the model doesn't see the tools of a request with tool_choice none."""
    excluded = "the server was started with --exclude-tools-when-tool-choice-none, or is too old to show them"
    if findings.rendering is None:
        return f"the model doesn't see tools: its chat template has no place for them, or {excluded}"
    if findings.rendering.shows_tools:
        return f"the model doesn't see tools: {excluded}"
    return "the chat template shows no tools"


def _thinking(findings: Findings, format_: str) -> Literal["tags", "open"]:
    """Whether the text begins inside thinking: the chat template opened it, and no reasoning parser takes it out."""
    opened = findings.rendering is not None and findings.rendering.opens_thinking
    begun = opened and not findings.chat.reasoning_parser and get_format(format_).thinking is not None
    return "open" if begun else "tags"


_FORCING: dict[Forcing, tuple[bool | None, str]] = {
    Forcing.ABSENT: (None, ""),
    Forcing.BINDS: (
        True,
        "a structural tag binds: required, named and strict calls can be forced, all others with `forced: begun`",
    ),
    Forcing.BINDS_REASONING: (False, "a structural tag binds, but what it binds is taken for reasoning"),
    Forcing.LIFTED: (False, "the reasoning parser lifts them: the model doesn't think, and never ends thinking"),
    Forcing.CHOICE_ONLY: (False, "a choice binds, but no structural tag: a newer vLLM would"),
    Forcing.IGNORED: (False, "they don't bind: calls can only be asked for, not forced"),
    Forcing.UNDECIDED: (True, "whether they bind is open: the answer took too long or failed"),
}


def _warnings(findings: Findings) -> list[str]:
    """What the operator has to change at the server."""
    if findings.chat.swallowed or findings.forcing is Forcing.LIFTED:
        server = SERVERS[findings.server]
        return [
            "a reasoning parser is configured, but the model doesn't think: whole answers are taken for reasoning, "
            f"and calls with them; start {server.title} {' '.join(server.leaves_thinking)}"
        ]
    if findings.forcing is Forcing.BINDS_REASONING:
        return [
            "forced calls are taken for reasoning: start vLLM without enable_in_reasoning "
            "in --structured-outputs-config"
        ]
    return []
