"""What is wrong with an answer to a question that needs calls. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from extproc.model_checks.cases import Case, PossibleAnswers
from extproc.model_checks.judging import value_of
from extproc.model_checks.possible_answers import are_right, is_value, offered_name
from extproc.model_checks.reading import Answer

MISTAKES = (
    "no answer",
    "cut off",
    "no call",
    "a tool that isn't meant",
    "too few calls",
    "too many calls",
    "an argument too few",
    "a wrong value",
    "an argument too many",
    "a call in the text besides",
)
"""From the coarsest to the finest. An argument is too many if the definition knows none of that name, or if it could
have been left out and has no possible value."""


def mistake(case: Case, answer: Answer) -> str:
    """The first of `MISTAKES` that a wrong answer to `case`, which has possible answers, makes."""
    assert case.possible is not None
    if not answer.is_answer:
        return "no answer"
    if answer.is_cut_off:
        return "cut off"
    if not answer.calls:
        return "no call"
    if any(call.name not in case.names for call in answer.calls):
        return "a tool that isn't meant"
    if len(answer.calls) != len(case.possible.calls):
        return "too few calls" if len(answer.calls) < len(case.possible.calls) else "too many calls"
    found = set(_in_arguments(case.possible, [(call.name, value_of(call)) for call in answer.calls]))
    return next((kind for kind in MISTAKES if kind in found), "a call in the text besides")


def counted(cases: Sequence[Case], answers: Mapping[str, Answer], right: Mapping[str, bool]) -> dict[str, Any]:
    """How often each is made, by category."""
    found: dict[str, Counter[str]] = {}
    for case in cases:
        if case.possible is not None:
            of = found.setdefault(case.feature, Counter())
            of.update([] if right[case.id] else [mistake(case, answers[case.id])])
    return {category: {kind: of[kind] for kind in MISTAKES if of[kind]} for category, of in found.items()}


def _in_arguments(possible: PossibleAnswers, made: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """Of as many calls as were wanted: those that aren't right, beside the missing ones of the same tools in order."""
    missing, wrong = list(possible.calls), []
    for call in made:
        alike = next((one for one in missing if are_right(replace(possible, calls=[one]), [call])), None)
        if alike is None:
            wrong.append(call)
        else:
            missing.remove(alike)
    by_tool = (sorted(calls, key=lambda call: offered_name(call[0])) for calls in (missing, wrong))
    for (name, values), (_, arguments) in zip(*by_tool, strict=True):
        function = next(one for one in possible.functions if one["name"] == name)
        yield _in_call(function["parameters"], values, arguments)


def _in_call(parameters: Mapping[str, Any], values: Mapping[str, Sequence[Any]], arguments: Any) -> str:
    """`values` are the possible ones, "" among them for what may be left out."""
    if not isinstance(arguments, dict):
        return "a wrong value"
    properties = parameters["properties"]
    needed = {*parameters.get("required", ()), *(name for name, possible in values.items() if "" not in possible)}
    if not needed <= arguments.keys():
        return "an argument too few"
    wrong = [
        name
        for name, value in arguments.items()
        if name in properties and name in values and not is_value(properties[name], value, values[name])
    ]
    return "a wrong value" if needed.intersection(wrong) else "an argument too many"
