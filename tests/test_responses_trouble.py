"""What backends shouldn't send: a Responses client must not take it for a good answer."""

from __future__ import annotations

import orjson
import pytest

from extproc.surfaces import streamed_answer
from tests.responses import Json, events_of, response_of
from tests.test_responses import PATCH, WEATHER, prepared


def streamed(*deltas: Json | str, model: str = "native") -> bytes:
    """Deltas, and finish reasons."""
    spec = prepared(model=model, tools=[WEATHER, PATCH], stream=True).answer
    assert spec is not None
    answer, out = streamed_answer(spec), b""
    for delta in deltas:
        choice = {"delta": {}, "finish_reason": delta} if isinstance(delta, str) else {"delta": delta}
        out += answer.feed(b"data: %b\n\n" % orjson.dumps({"choices": [{"index": 0, **choice}]}))
    return out + answer.feed(b"data: [DONE]\n\n") + answer.close()


def failure(*deltas: Json | str, model: str = "native") -> str:
    *_, last = events_of(streamed(*deltas, model=model))
    assert last["type"] == "response.failed"
    return str(last["response"]["error"]["message"])


def test_a_refusal_is_one() -> None:
    response = response_of(streamed({"content": "Hm."}, {"refusal": "I "}, {"refusal": "won't."}, "stop"))
    said, refused = (part for item in response["output"] for part in item["content"])
    assert (said["type"], said["text"]) == ("output_text", "Hm.")
    assert refused == {"type": "refusal", "refusal": "I won't."}


def test_a_refusal_in_the_middle_of_a_call_is_an_error() -> None:
    call = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": '{"ci'}}]}
    assert "refusal in the middle" in failure(call, {"refusal": "No."}, "tool_calls")


def test_what_was_cut_off_stays_so() -> None:
    response = response_of(streamed({"content": "Hello"}, "length", "stop"))
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


@pytest.mark.parametrize("more", [{"content": "x"}, {"reasoning": "x"}, {"refusal": "x"}])
def test_nothing_comes_behind_the_end(more: Json) -> None:
    assert "after a finish_reason" in failure({"content": "Hello"}, "stop", more)


def test_calls_that_the_backend_found_where_the_text_is_read_dont_vanish() -> None:
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    call = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}
    assert "tool calls that it parsed itself" in failure(call, "tool_calls", model="template")
