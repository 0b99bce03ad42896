"""What is right and wrong about an answer: the table of checks. Pure.

`decision`, `text`, `schema` and `tool` are the model's as much as the server's; the others are the server's alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from extproc.model_checks.calls_as_text import call_as_text
from extproc.model_checks.cases import Case
from extproc.model_checks.possible_answers import are_right
from extproc.model_checks.reading import Answer

CHECKS: Mapping[str, str] = {
    "answered": "status 200, and a chat completion",
    "form": "ids, indexes, types, usage and the stream's end are as OpenAI's",
    "finish_reason": "`tool_calls` if there are calls, else `stop`",
    "decision": "a call if one is due, else none",
    "text": "no call is left in the text",
    "name": "all calls are of offered tools",
    "json": "all arguments are JSON objects",
    "schema": "all calls are of offered tools, with arguments that fit their schemas",
    "tool": "exactly the tools that should be called are called",
    "match": "the calls are among BFCL's possible answers",
    "same": "the stream says what the whole answer says",
}
SERVER_CHECKS = ("answered", "form", "finish_reason")
"""What no model is to blame for."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of one case. `whole` and `streamed` hold the checks that apply; a reason says what is wrong."""

    case: Case
    whole: Mapping[str, str | None]
    streamed: Mapping[str, str | None]
    called: Mapping[str, bool]
    """Whether a tool was called, by the way of asking; without those that weren't answered."""
    cut_off: Mapping[str, bool]


def judge(case: Case, whole: Answer, streamed: Answer) -> Judgement:
    """All checks of both answers; `same` stands with the streamed one."""
    answers = {"whole": whole, "streamed": streamed}
    found = {how: checks(case, answer) for how, answer in answers.items()}
    if whole.is_answer and streamed.is_answer:
        found["streamed"]["same"] = _difference(whole, streamed)
    return Judgement(
        case,
        found["whole"],
        found["streamed"],
        {how: bool(answer.calls) for how, answer in answers.items() if answer.is_answer},
        {how: answer.is_cut_off for how, answer in answers.items() if answer.is_answer},
    )


def checks(case: Case, answer: Answer) -> dict[str, str | None]:
    """Those that apply to one answer, each with what is wrong, or None."""
    if not answer.is_answer:
        return {"answered": f"status {answer.status}: {answer.error}"}
    found: dict[str, str | None] = {"answered": None, "form": "; ".join(answer.faults) or None}
    found["decision"] = _decision(case, answer)
    left = call_as_text(answer.content)
    found["text"] = f"a call of {left}: {answer.content[:80]!r}" if left is not None else None
    if case.possible is not None:
        right = not answer.is_cut_off and are_right(
            case.possible, [(call.name, value_of(call)) for call in answer.calls]
        )
        found["match"] = None if right else _told(answer)
    if answer.is_cut_off:
        return found
    found["finish_reason"] = _finish_reason(case, answer)
    if answer.calls:
        found["name"], found["json"], found["schema"] = _names(case, answer), _json(answer), _schemas(case, answer)
        if case.names:
            called = {call.name for call in answer.calls}
            found["tool"] = None if called == case.names else f"{sorted(called)} for {sorted(case.names)}"
    return found


def is_right(case: Case, answer: Answer, found: Mapping[str, str | None]) -> bool:
    """Whether an answer with these checks is what was asked for, and nothing else: the calls, where values are judged,
    or words. Stricter than `match`, which is BFCL's own and looks at no text."""
    if not answer.is_answer or answer.is_cut_off or found["text"] is not None:
        return False
    if case.possible is not None:
        return found["match"] is None
    return found["decision"] is None and (bool(answer.calls) or bool(answer.content.strip()))


def _decision(case: Case, answer: Answer) -> str | None:
    if bool(answer.calls) == case.call:
        return None
    return f"a call: {_told(answer)}" if answer.calls else f"no call: {answer.content[:80]!r}"


def _finish_reason(case: Case, answer: Answer) -> str | None:
    right = ("tool_calls", "stop") if answer.calls and case.is_named else ("tool_calls" if answer.calls else "stop",)
    return None if answer.finish_reason in right else f"{answer.finish_reason!r} with {len(answer.calls)} calls"


def _definitions(case: Case) -> dict[str, Any]:
    return {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in case.tools}


def _names(case: Case, answer: Answer) -> str | None:
    offered = _definitions(case)
    wrong = [call.name for call in answer.calls if call.name not in offered]
    return f"not offered: {', '.join(wrong)}" if wrong else None


def _json(answer: Answer) -> str | None:
    wrong = [call.arguments[:80] for call in answer.calls if not isinstance(value_of(call), dict)]
    return f"no JSON object: {wrong[0]!r}" if wrong else None


def _schemas(case: Case, answer: Answer) -> str | None:
    offered = _definitions(case)
    for call in answer.calls:
        value = value_of(call)
        if call.name not in offered or not isinstance(value, dict):
            return "name or JSON"
        error = next(_validator(json.dumps(offered[call.name])).iter_errors(value), None)
        if error is not None:
            return f"{call.name}({call.arguments[:80]}): {error.message[:120]}"
    return None


@lru_cache(maxsize=512)
def _validator(schema: str) -> Any:
    """Formats are asserted: who writes them into a tool's schema means them."""
    import jsonschema_rs  # the corpus's judge asks as these checks do, and runs where there is none

    return jsonschema_rs.validator_for(json.loads(schema), validate_formats=True)


def value_of(call: Any) -> Any:
    """The arguments' JSON value, None if they aren't JSON."""
    try:
        return json.loads(call.arguments)
    except ValueError:
        return None


def _difference(whole: Answer, streamed: Answer) -> str | None:
    """How they differ. Arguments are compared as JSON, where they are."""
    if whole.finish_reason != streamed.finish_reason:
        return f"finish_reason {whole.finish_reason!r} and {streamed.finish_reason!r}"
    names = [[call.name for call in answer.calls] for answer in (whole, streamed)]
    if names[0] != names[1]:
        return f"calls {names[0]} and {names[1]}"
    for one, other in zip(whole.calls, streamed.calls, strict=True):
        same = one.arguments == other.arguments or (value_of(one) is not None and value_of(one) == value_of(other))
        if not same:
            return f"arguments {one.arguments[:60]!r} and {other.arguments[:60]!r}"
    if whole.content != streamed.content:
        return f"content {whole.content[:60]!r} and {streamed.content[:60]!r}"
    return None


def _told(answer: Answer) -> str:
    calls = ", ".join(f"{call.name}({call.arguments[:80]})" for call in answer.calls[:3])
    return calls or f"no call: {answer.content[:80]!r}"
