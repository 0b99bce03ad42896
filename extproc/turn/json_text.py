"""An answer's text where the client wants JSON and the backend's decoder can't see to it.

A `response_format` binds a decoder from the first token on, so that a model could never call a tool. Where a grammar
can't say "calls, or JSON", the schema is kept from the backend and told to the model in words, and what the model then
writes is checked here: it is held until it is complete, taken out of a fence, and given on as it is or not at all. Text
beside calls is free, as OpenAI has it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import jiter

from extproc.contract.arguments import SchemaCheck, schema_check
from extproc.contract.errors import INVALID_TEXT, ApiError, invalid_call, json_type
from extproc.toolcalls import CallStart, Event, Text
from extproc.turn.tally import Violations

Json: TypeAlias = dict[str, Any]


class JsonText:
    """The text of one choice: `take` what the reader says, in its order, and hand on what it returns."""

    __slots__ = ("_called", "_parts", "_schema", "_violations", "error", "held")

    def __init__(self, schema: Json, violations: Violations) -> None:
        """`schema` is the text's; an empty one is any object's. `violations` is added to."""
        self._schema = schema
        self._violations = violations
        self._parts: list[str] = []
        self._called = False
        self.held = 0
        """How many characters are kept back."""
        self.error: ApiError | None = None
        """Why the answer ends here; nothing comes after it."""

    def take(self, events: list[Event], *, ended: bool = False, cut_off: bool = False) -> list[Event]:
        """`ended`: these are the last events; `cut_off`: the backend ended the output before the model did."""
        allowed: list[Event] = []
        for event in events:
            if isinstance(event, Text) and not self._called:
                self._parts.append(event.text)
                self.held += len(event.text)
                continue
            if isinstance(event, CallStart):
                self._called = True
                allowed += self._released()
            allowed.append(event)
        if ended and not self._called:
            allowed += self._released() if cut_off else self._checked()
        return allowed

    def _released(self) -> list[Event]:
        text = "".join(self._parts)
        self._parts.clear()
        self.held = 0
        return [Text(text)] if text else []

    def _checked(self) -> list[Event]:
        text = _unfenced("".join(event.text for event in self._released() if isinstance(event, Text)))
        problem = _problem(text, self._schema)
        if problem is None:
            return [Text(text)]
        message = f"The request asks for JSON, and the model's answer {problem}."
        self._violations.found(INVALID_TEXT, message)
        self.error = invalid_call(INVALID_TEXT, message)
        return []


def _unfenced(text: str) -> str:
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") : -3].strip()
    return text


def _problem(text: str, schema: Json) -> str | None:
    """What is wrong with the text, without a word of it."""
    try:
        value = jiter.from_json(text.encode(), allow_inf_nan=False)
    except UnicodeEncodeError:
        return "isn't JSON (half of a surrogate pair)"
    except ValueError as error:
        return f"isn't JSON ({error})"
    if not schema:
        return None if isinstance(value, dict) else f"is {json_type(value)}; expected an object"
    check: SchemaCheck | None = schema_check(schema)
    broken = check.broken_rule(value, len(text)) if check is not None else None
    return None if broken is None else f"breaks the schema{broken}"
