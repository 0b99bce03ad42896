"""What spans say: a table, and nothing but what is in it.

Most of it is what Envoy's access log is told of an exchange (docs/observability.md), so that the two can't disagree.
Sources of the names: OpenTelemetry's semantic conventions for generative AI; OpenInference's specification. What
neither has is ours, and begins with `extproc.`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

Naming: TypeAlias = Literal["gen_ai", "openinference"]
Value: TypeAlias = str | int | float | bool | Sequence[str]

_OURS = {
    "backend": "extproc.backend",
    "client": "extproc.client",
    "team": "extproc.team",
    "mode": "extproc.mode",
    "step": "extproc.step",
    "alias": "extproc.alias",
    "instead_of": "extproc.instead_of",
    "because": "extproc.because",
    "format": "extproc.format",
    "dialect": "extproc.dialect",
    "dropped": "extproc.dropped_parameters",
    "calls": "extproc.calls",
    "invalid_calls": "extproc.invalid_calls",
    "round": "extproc.round",
    "error": "error.type",
    "request_id": "extproc.request_id",
    "unfinished": "extproc.unfinished",
    "work": "extproc.work_seconds",
    "rounds": "extproc.rounds",
    "source": "extproc.tool.source",
    "outcome": "extproc.tool.outcome",
}
_GEN_AI = {
    "operation": "gen_ai.operation.name",
    "provider": "gen_ai.provider.name",
    "model": "gen_ai.request.model",
    "finish_reasons": "gen_ai.response.finish_reasons",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "tool": "gen_ai.tool.name",
    "call": "gen_ai.tool.call.id",
    "agent": "gen_ai.agent.name",
    "input": "gen_ai.input.messages",
    "output": "gen_ai.output.messages",
    "offered": "gen_ai.tool.definitions",
    "arguments": "gen_ai.tool.call.arguments",
    "result": "gen_ai.tool.call.result",
}
_OPENINFERENCE = {
    "kind": "openinference.span.kind",
    "provider": "llm.system",
    "model": "llm.model_name",
    "prompt_tokens": "llm.token_count.prompt",
    "completion_tokens": "llm.token_count.completion",
    "total_tokens": "llm.token_count.total",
    "tool": "tool.name",
    "call": "tool_call.id",
    "agent": "agent.name",
    "input": "input.value",
    "output": "output.value",
    "offered": "llm.tools",
    "arguments": "input.value",
    "result": "output.value",
}
NAMES: Mapping[Naming, Mapping[str, str]] = MappingProxyType(
    {"gen_ai": {**_OURS, **_GEN_AI}, "openinference": {**_OURS, **_OPENINFERENCE}}
)
"""By what a fact is called in here: its attribute."""

CONTENT = frozenset({"input", "output", "offered", "arguments", "result"})
"""Said only where the settings ask for it."""

KINDS = {"chat": "LLM", "invoke_agent": "AGENT", "execute_tool": "TOOL"}
"""OpenInference's word for an operation."""

PROVIDER = "vllm"


def attributes(facts: Mapping[str, Any], naming: Naming, *, content: bool) -> dict[str, Value]:
    """Those facts that have a name, by it. A number that is whole is an integer, whatever it came as."""
    names = NAMES[naming]
    said = {name: fact for name, fact in facts.items() if name in names and (content or name not in CONTENT)}
    return {names[name]: _plain(fact) for name, fact in said.items() if fact is not None}


def of_operation(operation: str) -> dict[str, Value]:
    """The facts that every span of this operation has."""
    return {"operation": operation, "kind": KINDS[operation], "provider": PROVIDER}


def _plain(fact: Any) -> Value:
    if isinstance(fact, float) and fact.is_integer():
        return int(fact)
    return fact if isinstance(fact, str | int | float | list) else str(fact)
