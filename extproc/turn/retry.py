"""A backend is asked once more for a required call, or because a tool was made up, or called without being sure: why,
what it is sent then, and whether its second answer is the better one.

The conversation stays as it was up to its end, so that a replica that has its prefix in its cache finds it there: with
`affinity` that is the one that gets the second request too. The first answer is not quoted: its markup would
have to be broken to do no harm, and a broken example is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import orjson

from extproc.contract.errors import quoted
from extproc.contract.json_body import encode
from extproc.prompts.escaping import Escaper
from extproc.prompts.wording import CALL_ONLY_IF_IT_HELPS, CALL_OR_ANSWER, REJECTED, rejected
from extproc.turn.output import CUT_OFF
from extproc.turn.spec import ResponseSpec
from extproc.turn.tally import Tally

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a first answer."""

    problem: str
    """A sentence about it."""
    demand: str = ""
    """What to do now, if it isn't what the retry says."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The request that the backend got first, and the words that say what to do now."""

    before: bytes
    """The body of the second request, up to the words that are added."""
    after: bytes
    demand: str
    escaper: Escaper

    @classmethod
    def of(cls, fields: Json, demand: str, escaper: Escaper) -> Self:
        """`fields` is the first request. What it holds isn't kept, only its text: that can be large."""
        messages = with_words(fields["messages"], "")
        # The words are the last string of the last message then, and only brackets follow.
        body = encode({**{name: value for name, value in fields.items() if name != "messages"}, "messages": messages})
        end = body.rindex(b'"')
        return cls(body[:end], body[end:], demand, escaper)

    def body(self, fault: Fault) -> bytes:
        """The body of the second request."""
        words = rejected(fault.problem, fault.demand or self.demand, self.escaper)
        return self.before + orjson.dumps(words)[1:-1] + self.after


def fault(tally: Tally, spec: ResponseSpec) -> Fault | None:
    """What is wrong with what the model has called, if it should be asked once more: a tool that isn't there, or one
    that it isn't sure of or, where a call is required, wrongly or not at all."""
    if not spec.finds_made_up:
        return Fault(tally.violations.first) if tally.violations.first else None
    if any(reason in CUT_OFF for reason in tally.finish_reasons):  # it would be cut off again
        return None
    if tally.made_up is not None:
        return Fault(f"There is no tool named {quoted(tally.made_up)} that you can call now.")
    if tally.unsure_of is not None:
        return Fault(f"The tool {tally.unsure_of} may not do what the user asks.", CALL_ONLY_IF_IT_HELPS)
    return None


def is_better(tally: Tally, spec: ResponseSpec, first: Tally | None, *, called: bool) -> bool:
    """Whether a second answer takes the `first` one's place: it has what was asked for, and nothing that is wrong. A
    call that may well be right gives place to nothing that was cut off, and nothing gives place to our own words."""
    wrong = tally.violations.first or tally.made_up is not None
    if first is not None and first.unsure_of is not None:
        wrong = wrong or any(reason in CUT_OFF for reason in tally.finish_reasons)
    if wrong or called:
        return not wrong
    return spec.finds_made_up and tally.spoke and not (first is not None and _repeats(tally.begun, first, spec))


def _repeats(text: str, first: Tally, spec: ResponseSpec) -> bool:
    """Whether all of a text is what a model was told after its `first` answer: small models say it again. But that
    there is no such tool may be all that there is to be said."""
    told = fault(first, spec)
    if told is None:
        return False
    said, problem = _words(text), _words(told.problem)
    if said == problem:
        return first.made_up is None
    demand = _words(told.demand or CALL_OR_ANSWER)
    parts = "|".join(re.escape(part) for part in (_words(REJECTED), problem, demand))
    left = " ".join(re.sub(rf"\b(?:{parts})\b", "", said).split())
    return not left or (len(left.split()) >= _FEWEST_WORDS and left in demand)


def _words(text: str) -> str:
    """Whatever their case, and the punctuation."""
    return " ".join(re.findall(r"\w+", text.casefold()))


_FEWEST_WORDS = 3
"""Of a part of what was told: one or two may be said by chance."""


def with_words(messages: Sequence[Json], words: str) -> list[Json]:
    """The conversation with these words at its end, in the user's last turn: many templates want turns to alternate.

    They are the last string of the last message.
    """
    if messages and messages[-1]["role"] == "user":
        *before, last = messages
        content = last["content"]
        joined = f"{content}\n\n{words}" if isinstance(content, str) else [*content, {"type": "text", "text": words}]
        return [*before, {**{name: value for name, value in last.items() if name != "content"}, "content": joined}]
    return [*messages, {"role": "user", "content": words}]
