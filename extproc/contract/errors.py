"""Errors on their way to clients, in no dialect yet.

The message tells a person what is wrong, where, and what would be right; `param` is the path of the field at fault in
the client's own body, such as `messages[3].tool_call_id`; `code` is for programs.

Codes are OpenAI's own where it has one for the case, and so is the `param` that goes with it. The message says more:
which values would do, and of a tool's schema the place. Source: answers of OpenAI's API, as its users quote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, Self, TypeAlias

import orjson

from extproc.contract.told import told

_CONTEXT_LENGTH = re.compile(
    r"maximum context length|context length exceeded|longer than the maximum model length", re.I
)


CALL_VIOLATIONS = frozenset({"unknown_tool_call", "malformed_tool_arguments", "invalid_tool_arguments"})
"""The codes of what can be wrong with a model's call."""
MISSING_CALL = "missing_tool_call"
"""The code of an answer without the call that the request demands."""
INVALID_TEXT = "invalid_response_text"
"""The code of an answer whose text isn't the JSON that `response_format` asks for."""
ANSWER_VIOLATIONS = CALL_VIOLATIONS | {MISSING_CALL, INVALID_TEXT}
CONTEXT_LENGTH = "context_length_exceeded"
"""The code of the error for a request that is too long for its model."""
BACKEND_KEY_REFUSED = "backend_key_refused"
"""The code of the error for a request that its backend asks another key for."""


@dataclass(eq=False)
class ApiError(Exception):
    """An error on its way to the client."""

    status: int
    message: str
    type: str = "invalid_request_error"
    param: str | None = None
    code: str | None = None
    withheld: bool = False
    """A backend said more than this: what clients don't get of it."""

    def __str__(self) -> str:
        return f"{self.status} {self.code or self.type}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        return ApiError, (self.status, self.message, self.type, self.param, self.code)

    def caught(self) -> Self:
        """The error as a value to be kept: without its frames, which hold it in turn, and all of the request."""
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self


def invalid_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """A 400: the request breaks the contract."""
    return ApiError(400, message, param=param, code=code)


def invalid_json(reason: str, param: str | None = None) -> ApiError:
    """A 400: the body is not the JSON object that it has to be; `reason` says where it goes wrong."""
    return invalid_request(
        f"The request body is not valid JSON: {reason}. Send one JSON object, encoded as UTF-8.", param, "invalid_json"
    )


def missing_parameter(param: str, what: str) -> ApiError:
    """A 400: a required field is not there; `what` says what it should be."""
    return invalid_request(f"Missing required parameter: '{param}'. {what}", param, "missing_required_parameter")


def invalid_type(param: str, expected: str, value: object) -> ApiError:
    """A 400: a field has the wrong type."""
    return invalid_request(
        f"Invalid type for '{param}': expected {expected}, but got {json_type(value)} instead.", param, "invalid_type"
    )


def invalid_value(param: str, message: str) -> ApiError:
    """A 400: a field has the right type and a value that can't be."""
    return invalid_request(f"Invalid value for '{param}': {message}", param, "invalid_value")


BoundsCode: TypeAlias = Literal[
    "array_above_max_length",
    "decimal_above_max_value",
    "decimal_below_min_value",
    "empty_array",
    "empty_string",
    "integer_above_max_value",
    "integer_below_min_value",
    "object_above_max_properties",
    "string_above_max_length",
]
OUT_OF_BOUNDS: Mapping[BoundsCode, str] = {
    "array_above_max_length": "array too long",
    "decimal_above_max_value": "decimal above maximum value",
    "decimal_below_min_value": "decimal below minimum value",
    "empty_array": "empty array",
    "empty_string": "empty string",
    "integer_above_max_value": "integer above maximum value",
    "integer_below_min_value": "integer below minimum value",
    "object_above_max_properties": "too many properties",
    "string_above_max_length": "string too long",
}
"""OpenAI's codes for too much and too little, and its words for them."""


def out_of_bounds(code: BoundsCode, param: str, expected: str, got: object) -> ApiError:
    """A 400: there is too much of something, or too little."""
    return invalid_request(
        f"Invalid '{param}': {OUT_OF_BOUNDS[code]}. Expected {expected}, but got {got} instead.", param, code
    )


def empty_array(param: str, expected: str) -> ApiError:
    """A 400: an array that has to hold something."""
    return out_of_bounds("empty_array", param, expected, "an empty array")


def empty_string(param: str, expected: str) -> ApiError:
    """A 400: a string that has to say something."""
    return out_of_bounds("empty_string", param, expected, "an empty string")


def array_too_long(param: str, expected: str, length: int) -> ApiError:
    """A 400: an array with more elements than are taken."""
    return out_of_bounds("array_above_max_length", param, expected, f"an array with {length}")


def string_too_long(param: str, expected: str, length: int) -> ApiError:
    """A 400: a string with more characters than are taken."""
    return out_of_bounds("string_above_max_length", param, expected, f"a string with {length} characters")


def invalid_schema(param: str, function: object, what: str) -> ApiError:
    """A 400: a function's parameters, at `param`, are not the schema that they have to be; `what` names the place."""
    of_which = f" for function {quoted(function)}" if isinstance(function, str) else ""
    return invalid_request(f"Invalid schema{of_which}: {what}", param, "invalid_function_parameters")


def model_not_found(model: str, known: Iterable[str]) -> ApiError:
    """A 404 that names the models there are, if any."""
    there_are = ", ".join(sorted(known))
    available = f" Available models: {there_are}." if there_are else ""
    return ApiError(404, f"The model {quoted(model)} does not exist.{available}", param="model", code="model_not_found")


def backend_garbage(detail: str) -> ApiError:
    """A 502: the backend's answer can't be understood. `detail` says why, and quotes nothing of it."""
    return ApiError(
        502, f"The model's backend sent an answer that can't be read: {detail}", "server_error", code="bad_gateway"
    )


def uncounted(server: str) -> ApiError:
    """A 404: the model's backend counts no tokens of a conversation."""
    return ApiError(
        404, f"The model's server, {server}, doesn't count the tokens of a prompt.", code="tokens_not_counted"
    )


def overloaded(message: str) -> ApiError:
    """A 503: this request can be served in a moment."""
    return ApiError(503, message, "server_error", code="overloaded")


def too_many_requests(under_way: int) -> ApiError:
    """A 429: the client has its share of what its backend takes."""
    message = (
        f"{under_way} requests of this client are under way, which is its share of what the backend takes at a time."
    )
    return _rate_limited(f"{message} Wait for one of them to end.")


def too_many_of_team(team: str, under_way: int) -> ApiError:
    """A 429: the keys of a team have all that they may have under way together."""
    message = f"{under_way} requests of the team {team!r} are under way, which is as many as it may have at a time."
    return _rate_limited(f"{message} Wait for one of them to end.")


def too_many_batch_requests(of_client: int, of_all: int, most: int) -> ApiError:
    """A 429: batch requests have all that they may have of a backend, or this client has its share of that."""
    if of_client > 0 and of_all < most:  # else a place has become free meanwhile
        message = (
            f"{of_client} batch requests of this client are under way at this model's backend, which is its share of "
            f"the {most} that batch requests may have there. Wait for one of them to end."
        )
    else:
        message = (
            f"{of_all} batch requests are under way at this model's backend, which takes {most} of all clients: the "
            "rest is for requests that somebody waits for. Try again later."
        )
    return ApiError(429, message, "requests", code="batch_limit_exceeded")


def too_many_uploads(under_way: int) -> ApiError:
    """A 429: the client has its share of what may be sent at a time."""
    message = (
        f"{under_way} bytes of large requests are on their way from this client, which is its share of the memory."
    )
    return _rate_limited(f"{message} Wait for one of them to be answered.")


def _rate_limited(message: str) -> ApiError:
    return ApiError(429, message, "requests", code="rate_limit_exceeded")


def invalid_call(code: str, message: str) -> ApiError:
    """A 502: the model called a tool, or answered, in a way that can't be, and the client is not to get that."""
    return ApiError(502, message, "server_error", code=code)


def backend_key_refused(status: int) -> ApiError:
    """A 502: the backend doesn't take the key that the gateway has for it.

    A 401 would tell clients that theirs is wrong, which no backend has ever seen. Nothing of the backend's words is in
    it: some quote the key.
    """
    return ApiError(
        502,
        f"The model's backend refused the gateway's own key ({status} {_phrase(status)}); clients' keys never get "
        "there. Those who run the gateway have to look at api_key in the settings of that backend: whether it is "
        "set, and whether its file holds a key that the backend takes for this model.",
        "server_error",
        code=BACKEND_KEY_REFUSED,
    )


def backend_error(status: int, body: bytes) -> ApiError:
    """A backend's error response, as OpenAI's clients expect it.

    The status is the backend's own, unless it speaks of the gateway's key. Its words are passed on where they tell the
    client what is wrong with the request, without what they say of the backend itself (`extproc.contract.told`). Of all
    else a backend may say, and the stack it says it from, the client can make nothing.
    """
    if status in (401, 403):
        return backend_key_refused(status)
    error = _error_object(body)
    message = told(error.get("message") or error.get("detail")) if status in _ABOUT_THE_REQUEST else None
    if message is None:
        says_something = bool(body.strip())
        words = f"The model's backend answered {status} {_phrase(status)}."
        if says_something:
            words += " What else it said is withheld; its log may tell more."
        said = error.get("message")
        return ApiError(
            status,
            words,
            type=_TYPES.get(status, "server_error" if status >= 500 else _INVALID),
            code=_code(status, said if isinstance(said, str) else ""),
            withheld=says_something,
        )
    kind, param, code = error.get("type"), error.get("param"), error.get("code")
    return ApiError(
        status,
        message.text,
        type=kind if isinstance(kind, str) and _WORD.fullmatch(kind) else _INVALID,
        param=param if isinstance(param, str) and _PLACE.fullmatch(param) else None,
        code=code if isinstance(code, str) and _WORD.fullmatch(code) else _code(status, message.text),
        withheld=message.cut,
    )


LIMIT_REFUSALS = frozenset({"rate_limit_exceeded", "rate_limits_unavailable"})
"""The codes of Envoy's own replies to requests that a limit behind the processor keeps from their backend."""


def envoys_error(status: int, body: bytes) -> ApiError:
    """A reply of Envoy's own, whose words are the gateway's (`extproc.envoy.local_replies`)."""
    error = _error_object(body)
    message, kind, code = error.get("message"), error.get("type"), error.get("code")
    if message is None:
        return hosts_error(status, body)
    return ApiError(status, str(message), type=str(kind), code=code if isinstance(code, str) else None)


def hosts_error(status: int, body: bytes) -> ApiError:
    """An answer that came before any backend was asked, of an Envoy that isn't configured by us: in its own words."""
    if status == 408:
        return ApiError(408, "The request didn't arrive in time.", code="request_timeout")
    if status == 413:
        message = "The request body is larger than Envoy's buffer, the most that this gateway accepts."
        return ApiError(413, message, code="request_too_large")
    words = f"This gateway's Envoy answered {status} {_phrase(status)} before any backend was asked."
    kind = "server_error" if status >= 500 else _INVALID
    return ApiError(status, words, type=_TYPES.get(status, kind), code=_code(status, ""), withheld=bool(body.strip()))


def _error_object(body: bytes) -> dict[str, Any]:
    """What an error response says, in whichever of the usual forms; empty when it is in none."""
    try:
        data: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    error = data.get("error") if isinstance(data, dict) else None
    if isinstance(error, str):
        return {"message": error}
    if isinstance(error, dict):
        return error
    return data if isinstance(data, dict) else {}


_ABOUT_THE_REQUEST = frozenset({400, 413, 422})
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PLACE = re.compile(r"[A-Za-z0-9_.$\[\]-]{1,256}")
_INVALID = "invalid_request_error"
_TYPES = {429: "rate_limit_error"}
_CODES = {
    404: "not_found",
    429: "rate_limit_exceeded",
    502: "bad_gateway",
    503: "service_unavailable",
    504: "gateway_timeout",
}


def _code(status: int, message: str) -> str | None:
    """vLLM puts the status there, as a number; OpenAI puts a word, by which agents decide what to do."""
    if status in (400, 413, 422) and _CONTEXT_LENGTH.search(message):
        return CONTEXT_LENGTH
    if status == 404 and "model" in message:
        return "model_not_found"
    return _CODES.get(status)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def in_seconds(seconds: float) -> str:
    """A time in a message."""
    return f"{seconds:g} second{'' if seconds == 1 else 's'}"


def quoted(text: str) -> str:
    """A client's own word in a message: in quotes, and cut, because it may be megabytes."""
    return repr(cut(text))


def cut(text: str) -> str:
    """A client's own word as part of a path."""
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


_LONGEST_QUOTE = 100


def json_type(value: object) -> str:
    """What JSON calls the type of a decoded value, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
