"""OpenAI's error object: `{"error": {"message", "type", "param", "code"}}`.

`param` is the path of the field at fault, such as `messages[3].tool_call_id`; `code` is for programs.
"""

from __future__ import annotations

from typing import Any

import orjson

from extproc.contract.errors import ANSWER_VIOLATIONS, BACKEND_KEY_REFUSED, ApiError

_NEVER_BY_STATUS = ANSWER_VIOLATIONS | {BACKEND_KEY_REFUSED}


def error_object(error: ApiError) -> dict[str, Any]:
    """The whole error, as the body of a response."""
    return _object(error, error.code)


def error_event(error: ApiError) -> bytes:
    """The whole error as the data of one server-sent event.

    The response's status has gone out as 200, so a server's error carries its own as `code`, as vLLM does.
    Agents go by it: Cline 3 tries again after a 500 or 502 in the middle of a call, and gives up after a word.
    What is wrong with a model's call is a word all the same: only the word tells it from a backend in trouble.
    So is a key that the backend refuses: it would refuse it again.
    """
    by_status = error.status >= 500 or error.status == 429
    word = error.code if not by_status or error.code in _NEVER_BY_STATUS else None
    return orjson.dumps(_object(error, word or error.status))


def _object(error: ApiError, code: str | int | None) -> dict[str, Any]:
    return {"error": {"message": error.message, "type": error.type, "param": error.param, "code": code}}
