"""Anthropic's error object: `{"type": "error", "error": {"type", "message"}}`.

It has no place for a path or a code: the message names the field, and so does ours in every dialect. Source:
Anthropic's API reference, "errors".
"""

from __future__ import annotations

from typing import Any

from extproc.contract.errors import ApiError

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_TOO_LONG = "context_length_exceeded"


def error_type(status: int) -> str:
    """Anthropic's word for a status."""
    return ERROR_TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")


def error_object(error: ApiError) -> dict[str, Any]:
    """The whole error, as the body of a response or as the data of an `error` event."""
    # By these words Claude Code knows that it has to make its conversation shorter.
    message = f"prompt is too long: {error.message}" if error.code == _TOO_LONG else error.message
    return {"type": "error", "error": {"type": error_type(error.status), "message": message}}
