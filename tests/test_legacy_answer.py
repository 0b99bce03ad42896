"""A client that sent `functions` gets its call as `function_call`, in the form that OpenAI's own client reads."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDelta

from extproc.contract.errors import ApiError
from extproc.surfaces import rewrite_completion, streamed_answer
from tests.cuts import random_cut
from tests.test_answer import CALL, chunks_of, completion, plan, recorded, rewrite, stream

ARGUMENTS = '{"city": "Zürich"}'
UNKNOWN = CALL.replace("get_weather", "get_wether")


def message_of(body: bytes) -> dict[str, Any]:
    message: dict[str, Any] = orjson.loads(body)["choices"][0]["message"]
    return message


class TestCompletion:
    def test_the_call_is_a_function_call_without_id_and_type(self) -> None:
        rewritten = rewrite_completion(completion(CALL), plan(legacy=True))
        choice = orjson.loads(rewritten.body)["choices"][0]
        assert choice["finish_reason"] == "function_call"
        assert choice["message"]["content"] is None
        assert choice["message"]["function_call"] == {"name": "get_weather", "arguments": ARGUMENTS}
        assert "tool_calls" not in choice["message"]

    def test_openais_client_reads_it(self) -> None:
        rewritten = rewrite_completion(completion(CALL), plan(legacy=True))
        choice = ChatCompletion.model_validate_json(rewritten.body).choices[0]
        assert choice.finish_reason == "function_call"
        assert choice.message.tool_calls is None
        assert choice.message.function_call is not None
        assert choice.message.function_call.model_dump() == {"name": "get_weather", "arguments": ARGUMENTS}

    def test_text_before_the_call_stays(self) -> None:
        assert message_of(rewrite_completion(completion(f"I look.\n{CALL}"), plan(legacy=True)).body)["content"] == (
            "I look."
        )

    def test_it_is_the_first_call_whatever_parallel_tool_calls_says(self) -> None:
        body = rewrite_completion(completion(f"{CALL}\n{UNKNOWN}"), plan(legacy=True, parallel_tool_calls=True)).body
        assert message_of(body)["function_call"]["name"] == "get_weather"

    def test_an_empty_list_of_tool_calls_goes(self) -> None:
        body = orjson.loads(completion(CALL))
        body["choices"][0]["message"]["tool_calls"] = []
        assert "tool_calls" not in message_of(rewrite_completion(orjson.dumps(body), plan(legacy=True)).body)

    def test_without_a_call_the_bytes_stay_the_same(self) -> None:
        assert rewrite_completion(recorded("chat"), plan(legacy=True)).body == recorded("chat")

    def test_a_cut_off_answer_stays_cut_off(self) -> None:
        body = rewrite_completion(completion(CALL[:-30], "length"), plan(legacy=True)).body
        assert orjson.loads(body)["choices"][0]["finish_reason"] == "length"

    def test_an_invalid_call_is_treated_as_any_other_client_has_it(self) -> None:
        rewritten = rewrite_completion(completion(f"{UNKNOWN}\n{CALL}"), plan(legacy=True, invalid_calls="text"))
        message = message_of(rewritten.body)
        assert message["content"] == f"get_wether({ARGUMENTS})"
        assert message["function_call"] == {"name": "get_weather", "arguments": ARGUMENTS}
        assert rewritten.violations == {"unknown_tool_call": 1}
        with pytest.raises(ApiError) as error:
            rewrite_completion(completion(UNKNOWN), plan(legacy=True, invalid_calls="error"))
        assert error.value.code == "unknown_tool_call"


class TestStream:
    def test_the_name_comes_first_and_then_the_arguments(self) -> None:
        data = rewrite(stream([*CALL]), legacy=True)
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks_of(data)]
        assert deltas[:2] == [
            {"role": "assistant", "content": None},
            {"function_call": {"name": "get_weather", "arguments": ""}},
        ]
        pieces = [delta["function_call"] for delta in deltas[2:-1]]
        assert [list(piece) for piece in pieces] == [["arguments"]] * len(pieces)
        assert len(pieces) > 10
        assert "".join(piece["arguments"] for piece in pieces) == ARGUMENTS
        assert chunks_of(data)[-1]["choices"][0]["finish_reason"] == "function_call"

    def test_openais_client_reads_every_chunk_and_joins_them(self) -> None:
        state = ChatCompletionStreamState()
        for chunk in chunks_of(rewrite(stream(["I look.\n", *CALL, CALL]), legacy=True)):
            parsed = ChatCompletionChunk.model_validate(chunk, strict=True)
            delta = parsed.choices[0].delta
            assert delta.tool_calls is None
            assert chunk["choices"][0]["delta"].keys() <= ChoiceDelta.model_fields.keys()
            assert not (delta.function_call and delta.function_call.model_extra)
            state.handle_chunk(parsed)
        choice = state.get_final_completion().choices[0]
        assert choice.finish_reason == "function_call"
        assert choice.message.content == "I look."
        assert choice.message.function_call is not None
        assert choice.message.function_call.model_dump() == {"name": "get_weather", "arguments": ARGUMENTS}

    def test_a_held_call_comes_in_the_same_two_deltas(self) -> None:
        deltas = [
            chunk["choices"][0]["delta"]
            for chunk in chunks_of(rewrite(stream([*UNKNOWN, *CALL]), legacy=True, invalid_calls="text"))
        ]
        assert deltas[1:4] == [
            {"content": f"get_wether({ARGUMENTS})"},
            {"function_call": {"name": "get_weather", "arguments": ""}},
            {"function_call": {"arguments": ARGUMENTS}},
        ]

    @given(
        st.lists(st.sampled_from(["I look.", "\n", CALL, UNKNOWN, CALL[:40]]), max_size=5).map("".join),
        st.sampled_from(["pass", "text"]),
        st.sampled_from(["stop", "length"]),
        st.randoms(use_true_random=False),
    )
    def test_a_stream_says_the_same_as_a_whole_answer(
        self, text: str, policy: str, finish_reason: str, source: random.Random
    ) -> None:
        legacy = plan(legacy=True, invalid_calls=policy)
        whole = rewrite_completion(completion(text, finish_reason), legacy)
        message = message_of(whole.body)
        answer = streamed_answer(legacy)
        chunks = chunks_of(answer.feed(stream(random_cut(text, source), finish_reason)) + answer.close())
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        calls = [delta["function_call"] for delta in deltas if "function_call" in delta]
        assert "".join(delta.get("content") or "" for delta in deltas) == (message["content"] or "")
        assert "".join(call["arguments"] for call in calls) == (message["function_call"] or {}).get("arguments", "")
        assert [call["name"] for call in calls if "name" in call] == (
            [message["function_call"]["name"]] if message["function_call"] else []
        )
        assert chunks[-1]["choices"][0]["finish_reason"] == orjson.loads(whole.body)["choices"][0]["finish_reason"]
        assert answer.violations == whole.violations
