"""Causes at the backend: errors in the place of an answer, and answers that end before the model has said all."""

from __future__ import annotations

from collections.abc import Iterator

from extproc.diagnosis.finding import Finding, excerpt
from extproc.diagnosis.observed import Observed

_NO_PARSER = "--enable-auto-tool-choice"
"""What vLLM's error names that has no tool parser (0.32)."""
_FAILED = {
    "context_length_exceeded": "context_overflow",
    "backend_key_refused": "backend_key_refused",
    "model_not_found": "unknown_upstream_model",
    "rate_limit_exceeded": "backend_full",
    "backend_timeout": "backend_silent",
    "service_unavailable": "backend_away",
    "gateway_timeout": "backend_away",
}
"""By the code of the error that the client got."""


def failed(seen: Observed) -> Iterator[Finding]:
    """The client got an error although the processor let the request go on."""
    if seen.prepared is None:
        return
    said = str(seen.error.get("message", "")) or seen.client_error
    if seen.refused_by_limit:
        cause = "limit_reached" if seen.status == "429" else "rate_limits_unavailable"
        yield Finding(cause, f"`{seen.code}`, by Envoy itself", excerpt(said))
    elif _NO_PARSER in said:
        yield Finding("no_tool_parser", f"the backend's error names `{_NO_PARSER}`", excerpt(said))
    elif seen.fell_silent:
        limits = seen.config.limits
        yield Finding(
            "backend_silent",
            f"longer than `limits.silence_seconds` ({limits.silence_seconds:g}), or before the first event "
            f"`limits.first_event_seconds` ({limits.first_event_seconds:g})",
        )
    elif seen.code in _FAILED:
        yield Finding(_FAILED[seen.code], f"`{seen.code}`, by the backend's status {seen.status}", excerpt(said))
    elif seen.status not in ("", "200"):
        cause = "backend_away" if seen.status in ("503", "504") else "backend_error"
        yield Finding(cause, f"its status is {seen.status}", excerpt(said))


def ended_early(seen: Observed) -> Iterator[Finding]:
    """There was an answer, and not all of it."""
    if seen.broke_off:
        yield Finding("broke_off", f"an exception of the type `{seen.broke_off}`")
        return
    if seen.status != "200" or seen.spec is None or seen.fell_silent or not seen.document.complete:
        return
    begun = bool(seen.choices)
    if begun and seen.ended_with is None and (seen.code == "bad_gateway" or not seen.document.finished):
        yield Finding("cut_stream", "the answer has no `finish_reason`")
    elif not begun and not seen.document.finished:
        yield Finding("left_early", "nothing of the answer but its head is there")


def out_of_tokens(seen: Observed) -> Iterator[Finding]:
    """The backend ended the answer at its limit."""
    if seen.ended_with != "length" or seen.spec is None:
        return
    parsed = seen.parsed
    inside = [call for call in parsed.calls if not call.whole]
    thinking = bool(parsed.reasoning) and not parsed.content and not parsed.calls
    cause = "length_in_call" if inside else "length_in_thinking" if thinking else "length"
    tokens = seen.usage.get("completion_tokens")
    after = f", after {tokens} tokens" if isinstance(tokens, int) else ""
    yield Finding(cause, f"`finish_reason` is `length`{after}")


def empty(seen: Observed) -> Iterator[Finding]:
    """The model ended at once."""
    if seen.spec is None or seen.status != "200" or seen.ended_with in (None, "length"):
        return
    parsed = seen.parsed
    if not parsed.calls and not f"{parsed.content or ''}{parsed.reasoning or ''}".strip():
        yield Finding("empty_answer", f"{seen.usage.get('completion_tokens', 'no')} tokens, and no text in them")
