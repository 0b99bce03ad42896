"""What of a backend's error reaches a client: what is wrong with the request, and nothing of the backend."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from extproc.contract.errors import backend_error
from extproc.contract.told import CUT, LONGEST, told

CONTEXT = (
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages, "
    "1000 in the completion). Please reduce the length of the messages or completion."
)
STACK = 'Traceback (most recent call last):\n  File "/opt/venv/x.py", line 7, in f\nValueError: no'


def error_of(status: int, **error: Any) -> Any:
    return backend_error(status, json.dumps({"error": error}).encode())


HELPFUL = [
    CONTEXT,
    "The number of required prompt logprobs 30 exceeds the maximum of 20: top_p:1.0, max_tokens:4096.",
    "Grammar error: expected ::= at 1:23 in root",
    "#/definitions/city/type is no type of JSON Schema; and/or 10/20, ratio 3/4/5",
    "At most 1 image(s) may be provided in one prompt; org/Model-7B is not a multimodal model.",
]


@pytest.mark.parametrize("text", HELPFUL)
@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_is_wrong_with_the_request_is_told(status: int, text: str) -> None:
    error = error_of(status, message=text, type="BadRequestError", param="messages[0].content", code=status)
    assert (error.message, error.status, error.withheld) == (text, status, False)
    assert (error.type, error.param) == ("BadRequestError", "messages[0].content")
    assert (error.code == "context_length_exceeded") is (text == CONTEXT)


PRIVATE = {
    "Cannot connect to host 10.0.0.7:8000 ssl:default [Connect call failed ('10.0.0.7', 8000)]": "10.0.0.7",
    "Cannot connect to host minio:9000 ssl:default": "minio",
    "redis.internal:6379 refused": "redis",
    "localhost:8000 refused": "localhost",
    "no route to 192.168.7.9": "192.168",
    "no route to fd00::7": "fd00",
    "no route to [fd00:0:0:0:0:0:0:7]:80": "fd00",
    "no route to ::1": "::1",
    "404 Not Found for http://minio:9000/bucket?X-Amz-Signature=1": "minio",
    "s3://bucket/key is gone": "bucket",
    "[Errno 2] No such file or directory: '/srv/models/qwen/chat_template.jinja'": "models",
    "~/models/qwen is gone": "qwen",
    "C:\\models\\qwen is gone": "qwen",
    "vllm/entrypoints/openai/serving_chat.py:123 broke": "serving_chat",
    "tokenizer.json of model.safetensors": "safetensors",
    "<vllm.Foo object at 0x7f00aa11bb22> is bad": "7f00aa",
    "Further information: https://errors.pydantic.dev/2.12/v/int_type": "pydantic",
}


@pytest.mark.parametrize(("text", "secret"), PRIVATE.items())
def test_what_it_says_of_the_backend_is_cut_out(text: str, secret: str) -> None:
    assert secret in text
    error = error_of(400, message=text)
    assert secret not in error.message
    assert CUT in error.message
    assert error.withheld
    assert error.message.split(CUT)[0] == text[: error.message.index(CUT)], "what is before it stays"


@pytest.mark.parametrize("text", [STACK, f"bad request: {STACK}", "no\n  at Parser.parse (x.js)", "", " \n"])
def test_of_a_stack_nothing_is_told(text: str) -> None:
    error = error_of(400, message=text)
    assert error.message.startswith("The model's backend answered 400 Bad Request.")
    assert error.withheld


@pytest.mark.parametrize("status", [402, 404, 408, 409, 418, 429, 500, 502, 503, 504, 529])
@pytest.mark.parametrize("text", [*HELPFUL, STACK, "Your account sk-123 is out of credit; CUDA out of memory"])
def test_of_what_is_not_about_the_request_nothing_is_told(status: int, text: str) -> None:
    error = error_of(status, message=text, type="Secret", param="secret", code="secret")
    assert error.message.startswith(f"The model's backend answered {status}")
    assert error.message.endswith("withheld; its log may tell more.")
    assert (error.status, error.param, error.withheld) == (status, None, True)
    assert "ecret" not in f"{error.type}{error.code}"


@pytest.mark.parametrize("body", [b"", b"<html>10.0.0.7</html>", b"no", b"[]", b'"no"', b"[" * 5000, b"\xff", b"{}"])
@pytest.mark.parametrize("status", [400, 500])
def test_what_is_no_error_object_is_not_told(status: int, body: bytes) -> None:
    error = backend_error(status, body)
    assert error.message.startswith(f"The model's backend answered {status}")
    assert error.withheld is bool(body)


def test_the_forms_that_errors_have() -> None:
    for form in ({"error": {"message": "No."}}, {"error": "No."}, {"message": "No."}, {"detail": "No."}):
        assert backend_error(400, json.dumps(form).encode()).message == "No."
    fields = [{"loc": ["body", "n", 0], "msg": "too large", "input": "secret", "url": "https://x"}, {"msg": 1}, 1]
    assert backend_error(422, json.dumps({"detail": fields}).encode()).message == "body.n.0: too large"


def test_only_words_are_taken_for_words() -> None:
    error = error_of(400, message="No.", type="a b", param="http://x/y", code="</script>")
    assert (error.type, error.param, error.code) == ("invalid_request_error", None, None)


def test_a_long_message_is_cut() -> None:
    error = error_of(400, message="x" * 1_000_000)
    assert len(error.message) == LONGEST + 1
    assert error.withheld


@pytest.mark.parametrize("piece", ["/.", "a.", "\n", "\n ", "/a", "localhost:", "1.", "[", "::", 'File "', "a/", "://"])
def test_it_takes_no_longer_whatever_is_in_it(piece: str) -> None:
    """A client may have its own words quoted. Linear, it takes some 10 ms; the square of it would take hours."""
    began = time.monotonic()
    told(piece * 1_000_000)
    assert time.monotonic() - began < 10
