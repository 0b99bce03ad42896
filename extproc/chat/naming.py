"""What an answer calls things, where clients know them by other names than the backend."""

from __future__ import annotations

from typing import Any, TypeAlias

from extproc.chat.plan import AnswerPlan

Json: TypeAlias = dict[str, Any]


def renamed(answer: Json, plan: AnswerPlan) -> bool:
    """Have a completion, or a chunk, call the model what the client calls it; whether that changed it."""
    if not plan.model or answer.get("model") == plan.model:
        return False
    answer["model"] = plan.model
    return True


def with_older_name(message: Json) -> bool:
    """Have a message or a delta say its reasoning twice; whether there is any that wasn't."""
    if not message.get("reasoning") or message.get("reasoning_content") is not None:
        return False
    message["reasoning_content"] = message["reasoning"]
    return True
