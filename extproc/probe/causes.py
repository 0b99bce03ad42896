"""Why a server's model would not call tools as it is: the causes of `extproc.diagnosis`, seen in what it answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from extproc.contract.servers import SERVERS
from extproc.diagnosis import Finding
from extproc.diagnosis.notation import WEATHER
from extproc.diagnosis.observed import Choice, parsed_of
from extproc.diagnosis.writing import text_without_calls
from extproc.probe.advice import Advice, Findings, shows_tools
from extproc.probe.questions import Forcing
from extproc.toolcalls import Parsed
from extproc.turn.spec import ResponseSpec


def causes(findings: Findings, advice: Advice) -> Iterator[Finding]:
    """What stands in the way of calls, the server's own parts first; what can't be told is none."""
    auto, none = findings.auto, findings.none
    if auto.accepted is False:
        yield Finding("no_tool_parser", f"it answers to tools: {auto.complaint}", change=_set_mode(advice))
    if findings.chat.swallowed or findings.forcing is Forcing.LIFTED:
        swallowed = "all of a plain answer is taken for reasoning"
        shown_by = swallowed if findings.chat.swallowed else "the reasoning parser lifts what is forced"
        yield Finding("unclosed_thinking", shown_by, change=_unparsed(findings))
    offer = none if none.accepted else auto
    if shows_tools(findings, offer) is False:
        shown_by = f"the prompt has {offer.prompt_tokens} tokens with a tool, and {findings.prompt_tokens} without"
        yield Finding("tools_not_shown", shown_by, change=_set_mode(advice))
    elif not auto.called and (tried := next((each for each in (none, auto) if each.complete and each.text), None)):
        trial = _Trial.of(tried.text, advice)
        found = text_without_calls(trial) if not trial.parsed.calls else None
        if found is not None:
            yield found


def _unparsed(findings: Findings) -> str:
    server = SERVERS[findings.server]
    how, option = server.leaves_thinking
    return f"Start {server.title} {how} `{option}`."


def _set_mode(advice: Advice) -> str:
    return f"Set `tools: {advice.tools}` for this model, as the configuration here does."


@dataclass(frozen=True, slots=True)
class _Trial:
    """The answer to a question that is best answered by a call (`diagnosis.writing.Text`)."""

    spec: ResponseSpec
    tools: Mapping[str, Mapping[str, Any]]
    said: Choice
    parsed: Parsed
    follows_result: bool = False

    @classmethod
    def of(cls, text: str, advice: Advice) -> _Trial:
        """As it would be read by what is advised."""
        spec = ResponseSpec(
            advice.format, [WEATHER], True, False, thinking="open" if advice.thinking == "open" else None
        )
        said = Choice(text)
        return cls(spec, {WEATHER["function"]["name"]: WEATHER}, said, parsed_of(spec, said))
