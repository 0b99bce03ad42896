"""What is printed: the configuration, with comments that say why, and a summary for a person."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from extproc.diagnosis import told
from extproc.probe.advice import Advice, Findings, shows_tools
from extproc.probe.causes import causes
from extproc.probe.kinds import Kind
from extproc.probe.measuring import Measured
from extproc.probe.measuring.table import table
from extproc.probe.questions import Card, Forcing
from extproc.probe.server import Origin, one_line

_REPAIRS = "repairs vLLM's slips: finish_reason `stop` for a call by name, calls without arguments or without an id"
_REPAIRS_ELSEWHERE = "reads what the server's own parser leaves in the text as well"
_COMMENT_WIDTH = 110
_QUOTED = 160


@dataclass(frozen=True, slots=True)
class Probed:
    """One model, asked under its first name, with all names that it is served by."""

    findings: Findings
    judged: Advice
    """What follows from the findings alone."""
    aliases: tuple[Card, ...] = ()
    adapters: tuple[Card, ...] = ()
    measured: Measured | None = None

    @property
    def advice(self) -> Advice:
        """What the configuration is made of."""
        return self.judged if self.measured is None else self.measured.advised(self.judged)


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found out about a server."""

    origin: Origin
    kind: Kind
    probed: tuple[Probed, ...]
    left_out: tuple[str, ...] = ()
    """A line for each model that doesn't chat."""
    api_key: Path | None = None
    ca: Path | None = None

    @property
    def identity(self) -> str:
        """What the server says it is."""
        return self.kind.identity

    def yaml(self) -> str:
        """A whole configuration file."""
        lines = [f"# {self.origin}, {self.identity}, as `extproc probe` found it."]
        for line in self.left_out:
            lines += _comment(f"Left out: {line}", "")
        backend = _backend_name(self.probed[0].findings.card)
        lines.append("models:")
        for probed in self.probed:
            for card in (probed.findings.card, *probed.aliases, *probed.adapters):
                lines += _model(card, probed, backend, can_force=self._can_force)
        lines += ["backends:", *self._backend(backend)]
        return "\n".join(lines) + "\n"

    def summary(self) -> str:
        """A few lines for each model."""
        lines = [f"{self.origin}: {self.identity}"]
        for probed in self.probed:
            names = (card.name for card in (probed.findings.card, *probed.aliases, *probed.adapters))
            rows = list(_rows(probed))
            width = max(len(row[0]) for row in rows)
            lines.append(f"\n  {one_line(', '.join(names), 400)}")
            lines += [f"    {label:{width}}  {text}" for label, text in rows]
        lines += [f"\n  left out: {line}" for line in self.left_out]
        return "\n".join(lines) + "\n"

    @property
    def _can_force(self) -> bool:
        """The flag is the backend's, so all of its models have to be able to."""
        return all(probed.judged.structured_outputs for probed in self.probed)

    def _backend(self, name: str) -> Iterable[str]:
        bound = [probed for probed in self.probed if not probed.advice.structured_outputs] or self.probed
        yield f"  - name: {_scalar(name)}"
        yield f"    address: {_scalar(str(self.origin.address))}"
        if self.origin.tls:
            yield f"    tls: {{ca: {_scalar(str(self.ca))}}}" if self.ca is not None else "    tls: {}"
        if self.api_key is not None:
            yield f"    api_key: {_scalar(str(self.api_key))}"
        if self.kind.server != "vllm":
            yield f"    server: {self.kind.server}"
        advice = bound[0].advice
        if advice.structured_outputs is not None:
            yield from _comment(advice.forcing_because)
            yield f"    structured_outputs: {_scalar(advice.structured_outputs)}"


def _model(card: Card, probed: Probed, backend: str, *, can_force: bool) -> Iterable[str]:
    asked = probed.findings.card
    advice = probed.judged if card in probed.adapters else probed.advice
    yield f"  - name: {_scalar(card.name)}"
    yield f"    backend: {_scalar(backend)}"
    yield from _why(card, probed, advice)
    yield f"    tools: {advice.tools}"
    if card is asked:
        yield from _comment(advice.format_because)
    yield f"    format: {_scalar(advice.format)}"
    if advice.example:
        yield from _comment(
            "left out by itself after a system prompt of 3,000 characters or more; take it out for agents with less"
        )
        yield "    example: true"
    if advice.forced and can_force:
        yield f"    forced: {advice.forced}"
    elif advice.forced:
        yield from _comment("`forced: begun` did best, but another model of this server can't be forced")
    if advice.retry:
        yield "    retry: true"
    if advice.min_confidence is not None:
        yield from _comment("for questions of all kinds; leave it out for agents, whose arguments can be long texts")
        yield f"    min_confidence: {advice.min_confidence}"
    if advice.tools == "native":
        if card is asked:
            yield from _comment(_REPAIRS if probed.findings.server == "vllm" else _REPAIRS_ELSEWHERE)
        yield "    repair: true"
    elif advice.thinking == "open":
        if card is asked:
            yield from _comment("the chat template begins the thinking, and no reasoning parser takes it out")
        yield "    thinking: open"


def _why(card: Card, probed: Probed, advice: Advice) -> Iterable[str]:
    """The comments above a model's mode."""
    asked = probed.findings.card
    if card in probed.aliases:
        yield from _comment(f"another name of {one_line(asked.name)}")
    elif card in probed.adapters:
        yield from _comment(f"an adapter of {one_line(asked.name)}, taken to call tools as that does")
        if probed.measured is not None:
            yield from _comment("not measured: --model asks it by its name")
    else:
        if (length := asked.context_length) is not None:
            yield from _comment(f"{length} tokens of context")
        for warning in advice.warnings:
            yield from _comment(f"WARNING: {warning}")
        yield from _comment(advice.because)
        if probed.measured is not None:
            yield from (f"    #   {line}" for line in table(probed.measured))


def _rows(probed: Probed) -> Iterable[tuple[str, str]]:
    findings, advice = probed.findings, probed.advice
    length = findings.card.context_length
    yield "context", f"{length} tokens" if length is not None else "not told"
    yield "tool parser", _parser(findings)
    yield "chat template", _template(findings)
    yield "structured outputs", _FORCED[findings.forcing]
    yield "reasoning", _reasoning(findings)
    yield "format", f"{advice.format}: {advice.format_because}"
    yield "mode", f"{advice.tools}: {advice.because}"
    if probed.measured is not None:
        yield from (("measured" if at == 0 else "", line) for at, line in enumerate(table(probed.measured)))
    yield from (("WARNING", warning) for warning in advice.warnings)
    for finding in causes(findings, replace(probed.judged, tools=advice.tools)):
        words = told(finding, quotes=True)
        quoted = f': "{one_line(words["quoted"], _QUOTED)}"' if "quoted" in words else ""
        shown_by = one_line(words["shown_by"], _QUOTED)
        yield "cause", f"{finding.cause}: {words['what']} {words['change']} ({shown_by}{quoted}; {words['page']})"


def _parser(findings: Findings) -> str:
    auto = findings.auto
    if auto.accepted is None:
        return f"unknown ({auto.complaint})"
    if not auto.accepted:
        return "none"
    if auto.called:
        return "configured, finds calls"
    return "tools are taken, but no call was found" if auto.complete else "tools are taken; calls unproved"


def _template(findings: Findings) -> str:
    offer = findings.none if findings.none.accepted else findings.auto
    shown = shows_tools(findings, offer)
    if shown is None:
        return "unknown"
    excluded = findings.rendering is not None and findings.rendering.shows_tools
    return "shows tools" if shown else "shows tools, but not with tool_choice none" if excluded else "shows no tools"


def _reasoning(findings: Findings) -> str:
    if not findings.chat.reasoning_parser:
        return "no parser"
    field = findings.chat.reasoning_field
    return f"a parser is configured, and fills `{field}`" if field is not None else "a parser is configured"


_FORCED = {
    Forcing.ABSENT: "none that calls could be forced by",
    Forcing.BINDS: "structural tags bind",
    Forcing.BINDS_REASONING: "structural tags bind, within the reasoning",
    Forcing.LIFTED: "lifted by the reasoning parser",
    Forcing.CHOICE_ONLY: "choices bind, structural tags don't",
    Forcing.IGNORED: "don't bind",
    Forcing.UNDECIDED: "unknown",
}


def _backend_name(card: Card) -> str:
    """A cluster's name, made of the model's."""
    last = re.split(r"[/\\]", card.name)[-1]
    return re.sub(r"[^a-zA-Z0-9_.-]+", "-", last).strip("-._")[:63] or "vllm"


def _comment(text: str, margin: str = "    ") -> Iterable[str]:
    start = f"{margin}# "
    return textwrap.wrap(
        text,
        _COMMENT_WIDTH,
        initial_indent=start,
        subsequent_indent=start,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _scalar(value: str | bool) -> str:
    """The value as YAML has it, in one line."""
    style = '"' if isinstance(value, str) and not value.isprintable() else None
    written: str = yaml.safe_dump(value, allow_unicode=True, width=100_000, default_style=style)
    return written.partition("\n")[0]
