"""Causes on the client's side: a request that is refused, that offers nothing to call, or whose history goes round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from extproc.diagnosis.finding import Finding, excerpt
from extproc.diagnosis.observed import Observed

_LOOP = 3
"""So often the same call in a row is a loop."""
_REFUSED = {
    "model_not_found": "unknown_model",
    "invalid_function_parameters": "invalid_schema",
    "host_ignores_overrides": "host_ignores_overrides",
    "request_too_large": "request_too_large",
    "rate_limit_exceeded": "too_many_requests",
    "batch_limit_exceeded": "too_many_requests",
    "invalid_api_key": "client_key_refused",
    "missing_token": "client_key_refused",
}
"""By the error's code."""


def refused(seen: Observed) -> Iterator[Finding]:
    """The request went to no backend."""
    if (error := seen.refusal) is not None:
        code = error.code or error.type
        where = f" at `{error.param}`" if error.param else ""
        yield Finding(_REFUSED.get(code, "invalid_request"), f"`{code}`{where}", excerpt(error.message))
    elif not seen.status and seen.code in _REFUSED:
        yield Finding(_REFUSED[seen.code], f"`{seen.code}`", excerpt(seen.client_error))


def nothing_offered(seen: Observed) -> Iterator[Finding]:
    """The client has no tools for the model, or doesn't want them called."""
    request = seen.request
    if seen.refusal is not None or not request:
        return
    if not (request.get("tools") or request.get("functions")):
        yield Finding("no_tools_sent", "`tools` is missing or empty")
    elif request.get("tool_choice") in ("none", {"type": "none"}):
        yield Finding("tool_choice_none", "`tool_choice` is `none`")


def repeated_call(seen: Observed) -> Iterator[Finding]:
    """The history ends with the same call, again and again."""
    messages = seen.request.get("messages") or seen.request.get("input")
    last = list(_calls_of(messages))[-_LOOP:]
    if len(last) == _LOOP and all(call == last[0] for call in last):
        yield Finding("repeated_call", f"the last {_LOOP} calls are the same", excerpt(" ".join(last[0])))


def _calls_of(messages: Any) -> Iterator[tuple[str, str]]:
    """Names and arguments of the history's calls, whatever its dialect."""
    for message in messages if isinstance(messages, list) else ():
        match message:
            case {"type": "function_call", "name": name, "arguments": arguments}:
                yield str(name), str(arguments)
            case {"tool_calls": list(calls)}:
                for call in calls:
                    function = call.get("function") or {}
                    yield str(function.get("name")), str(function.get("arguments"))
            case {"content": list(blocks)}:
                for block in blocks:
                    if isinstance(block, dict) and block.get("type") == "tool_use":
                        yield str(block.get("name")), str(block.get("input"))


def repaired_history(seen: Observed) -> Iterator[Finding]:
    if seen.prepared is not None and seen.prepared.repaired:
        yield Finding("repaired_history", f"{seen.prepared.repaired} of them")


def dropped_parameters(seen: Observed) -> Iterator[Finding]:
    if seen.prepared is not None and seen.prepared.dropped:
        dropped = seen.prepared.dropped
        yield Finding("dropped_parameters", f"{len(dropped)} of them", excerpt(", ".join(dropped)))
