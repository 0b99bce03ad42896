"""A backend's answer becomes the one that OpenAI's API would give."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.contract.errors import ApiError
from extproc.surfaces import rewrite_completion, streamed_answer
from extproc.turn.spec import ResponseSpec

RECORDINGS = Path(__file__).parent / "recordings" / "plain"
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}},
    {"type": "function", "function": {"name": "write_file", "parameters": {"type": "object"}}},
]
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
CALL_ID = re.compile(rb"call_[a-zA-Z0-9]{24}")


def plan(**changes: Any) -> ResponseSpec:
    options: dict[str, Any] = {
        "format": "hermes",
        "tools": TOOLS,
        "parallel_tool_calls": True,
        "include_usage": False,
    } | changes
    return ResponseSpec(**options)


def recorded(name: str) -> bytes:
    return (RECORDINGS / f"{name}.body.txt").read_bytes()


def completion(text: str, finish_reason: str = "stop") -> bytes:
    """A recorded completion with another text."""
    body = orjson.loads(recorded("chat"))
    body["choices"][0]["message"]["content"] = text
    body["choices"][0]["finish_reason"] = finish_reason
    return orjson.dumps(body)


def stream(texts: list[str], finish_reason: str | None = "stop", *, usage: bool = True, index: int = 0) -> bytes:
    """A recorded stream with other texts, in vLLM's own chunks."""
    chunks = [line.removeprefix(b"data: ") for line in recorded("chat_stream_usage").split(b"\n\n")]
    first, piece, last, usage_chunk = (orjson.loads(chunks[at]) for at in (0, 1, -4, -3))
    first["choices"][0]["index"] = piece["choices"][0]["index"] = last["choices"][0]["index"] = index
    events = [first]
    events += [{**piece, "choices": [{**piece["choices"][0], "delta": {"content": text}}]} for text in texts]
    if finish_reason is not None:
        events.append({**last, "choices": [{**last["choices"][0], "finish_reason": finish_reason}]})
    if usage:
        events.append(usage_chunk)
    return b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in events) + b"data: [DONE]\n\n"


def rewrite(data: bytes, size: int | None = None, **changes: Any) -> bytes:
    answer = streamed_answer(plan(**changes))
    size = size or max(len(data), 1)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join([answer.feed(piece) for piece in pieces] + [answer.close()])


def chunks_of(data: bytes) -> list[dict[str, Any]]:
    events = [event.removeprefix(b"data: ") for event in data.split(b"\n\n")]
    assert events[-2:] == [b"[DONE]", b""]
    return [orjson.loads(event) for event in events[:-2]]


def joined(data: bytes, index: int = 0) -> dict[str, Any]:
    """One choice of a stream, put together as a client does."""
    message: dict[str, Any] = {"content": None, "reasoning": None, "calls": {}, "finish_reason": None}
    for chunk in chunks_of(data):
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            assert message["finish_reason"] is None, "nothing comes after the finish"
            delta = choice["delta"]
            for name in ("content", "reasoning"):
                if delta.get(name) is not None:
                    message[name] = (message[name] or "") + delta[name]
            for call in delta.get("tool_calls") or []:
                if "id" in call:
                    assert call["type"] == "function"
                    assert call["index"] == len(message["calls"])
                    message["calls"][call["index"]] = {"id": call["id"], **call["function"]}
                else:
                    message["calls"][call["index"]]["arguments"] += call["function"]["arguments"]
            message["finish_reason"] = choice["finish_reason"]
    return message


class TestCompletion:
    def test_calls_take_the_place_of_their_text(self) -> None:
        rewritten = rewrite_completion(completion(f"I look.\n{CALL}\n{CALL}"), plan())
        choice = orjson.loads(rewritten.body)["choices"][0]
        message = choice["message"]
        assert choice["finish_reason"] == "tool_calls"
        assert message["content"] == "I look."
        assert [call["function"] for call in message["tool_calls"]] == [
            {"name": "get_weather", "arguments": '{"city": "Zürich"}'}
        ] * 2
        assert [call["type"] for call in message["tool_calls"]] == ["function"] * 2
        ids = [call["id"] for call in message["tool_calls"]]
        assert len(set(ids)) == 2
        assert all(CALL_ID.fullmatch(call_id.encode()) for call_id in ids)
        assert rewritten.usage == orjson.loads(recorded("chat"))["usage"]

    def test_content_is_null_beside_calls_without_text(self) -> None:
        body = rewrite_completion(completion(CALL), plan()).body
        message = orjson.loads(body)["choices"][0]["message"]
        assert message["content"] is None
        assert list(message) == [*orjson.loads(recorded("chat"))["choices"][0]["message"], "tool_calls"]

    @pytest.mark.parametrize("reason", ["tool_calls", "function_call"])
    def test_calls_are_no_reason_where_there_are_none(self, reason: str) -> None:
        choice = orjson.loads(rewrite_completion(completion("Hello!", reason), plan()).body)["choices"][0]
        assert choice["finish_reason"] == "stop"

    def test_without_a_call_the_bytes_stay_the_same(self) -> None:
        assert rewrite_completion(recorded("chat"), plan()).body == recorded("chat")

    @pytest.mark.parametrize("reason", ["length", "content_filter"])
    def test_a_cut_off_answer_stays_cut_off(self, reason: str) -> None:
        body = rewrite_completion(completion(CALL[:-30], reason), plan()).body
        choice = orjson.loads(body)["choices"][0]
        assert choice["finish_reason"] == reason
        assert choice["message"]["tool_calls"][0]["function"]["name"] == "get_weather"

    def test_one_call_when_parallel_calls_are_ruled_out(self) -> None:
        body = rewrite_completion(completion(f"{CALL}\n{CALL}"), plan(parallel_tool_calls=False)).body
        assert len(orjson.loads(body)["choices"][0]["message"]["tool_calls"]) == 1

    def test_every_choice_is_rewritten(self) -> None:
        body = orjson.loads(recorded("chat_n2"))
        body["choices"][1]["message"]["content"] = CALL
        body["choices"][1]["finish_reason"] = "stop"
        first, second = orjson.loads(rewrite_completion(orjson.dumps(body), plan()).body)["choices"]
        assert first == body["choices"][0]
        assert second["finish_reason"] == "tool_calls"

    @pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"choices": [1]}', b'{"choices": [{}]}', b"\xff"])
    def test_garbage_is_a_502(self, body: bytes) -> None:
        with pytest.raises(ApiError) as error:
            rewrite_completion(body, plan())
        assert error.value.status == 502
        assert error.value.code == "bad_gateway"

    @pytest.mark.parametrize(
        "body",
        [
            b'{"error": {"message": "out of memory", "code": 503}}',
            b'{"object": "error", "message": "out of memory", "code": 503}',
        ],
    )
    def test_an_error_that_comes_with_200_is_one_all_the_same(self, body: bytes) -> None:
        with pytest.raises(ApiError, match="answered 503 Service Unavailable") as error:
            rewrite_completion(body, plan())
        assert (error.value.status, error.value.withheld) == (503, True)
        assert "memory" not in error.value.message

    @pytest.mark.parametrize("choices", [[], None, [{}], [1], [{"index": 0, "message": {"content": "Hi"}}]])
    def test_an_answer_that_is_none_is_a_502(self, choices: Any) -> None:
        body = orjson.dumps({**orjson.loads(completion("Hi")), "choices": choices})
        with pytest.raises(ApiError, match="choice") as error:
            rewrite_completion(body, plan())
        assert (error.value.status, error.value.code) == (502, "bad_gateway")

    @pytest.mark.parametrize("reason", [None, 1, {}])
    @pytest.mark.parametrize("text", ["Hi", CALL])
    def test_so_is_one_that_does_not_say_why_it_ended(self, text: str, reason: Any) -> None:
        with pytest.raises(ApiError, match="without a finish_reason") as error:
            rewrite_completion(completion(text, reason), plan())
        assert (error.value.status, error.value.code) == (502, "bad_gateway")

    def test_so_is_one_with_fewer_choices_than_were_asked_for(self) -> None:
        assert rewrite_completion(recorded("chat_n2"), plan(choices=2)).body
        with pytest.raises(ApiError, match="2 of the 3 choices") as error:
            rewrite_completion(recorded("chat_n2"), plan(choices=3))
        assert (error.value.status, error.value.code) == (502, "bad_gateway")

    def test_an_answer_nested_beyond_reason_is_a_502(self) -> None:
        body = completion(CALL)[:-1] + b',"x":' + b"[" * 900 + b"]" * 900 + b"}"
        with pytest.raises(ApiError) as error:
            rewrite_completion(body, plan())
        assert error.value.status == 502


class TestStream:
    @pytest.mark.parametrize("size", [None, 1, 2, 3, 7])
    def test_calls_take_the_place_of_their_text(self, size: int | None) -> None:
        texts = ["I ", "look.", "\n", "<tool", "_call>\n", *CALL[12:], "\n", CALL]
        message = joined(rewrite(stream(texts), size))
        assert message["content"] == "I look."
        assert message["finish_reason"] == "tool_calls"
        assert [(call["name"], call["arguments"]) for call in message["calls"].values()] == [
            ("get_weather", '{"city": "Zürich"}')
        ] * 2

    def test_the_first_delta_of_a_call_has_all_that_clients_need(self) -> None:
        first, start, *_ = chunks_of(rewrite(stream([CALL])))
        assert first["choices"][0]["delta"] == {"role": "assistant", "content": None}
        delta = start["choices"][0]["delta"]["tool_calls"][0]
        assert CALL_ID.fullmatch(delta["id"].encode())
        assert delta == {
            "index": 0,
            "id": delta["id"],
            "type": "function",
            "function": {"name": "get_weather", "arguments": ""},
        }
        assert {key: start[key] for key in ("id", "object", "created", "model")} == {
            key: first[key] for key in ("id", "object", "created", "model")
        }

    def test_arguments_stream_piece_by_piece(self) -> None:
        answer = streamed_answer(plan())
        answer.feed(stream(['<tool_call>{"name": "write_file", "arguments": {"text": "a'], None, usage=False)[:-14])
        piece = stream([" long text"], None, usage=False).split(b"\n\n")[1] + b"\n\n"
        assert orjson.loads(answer.feed(piece)[6:])["choices"][0]["delta"] == {
            "tool_calls": [{"index": 0, "function": {"arguments": " long text"}}]
        }

    def test_text_chunks_pass_byte_for_byte(self) -> None:
        upstream = stream(["Hello", " world"]).split(b"\n\n")
        rewritten = rewrite(stream(["Hello", " world"])).split(b"\n\n")
        assert rewritten[1:4] == upstream[1:4]

    def test_usage_is_kept_back_unless_the_client_asked(self) -> None:
        assert all("usage" not in chunk for chunk in chunks_of(rewrite(stream([CALL]))))
        *chunks, last = chunks_of(rewrite(stream([CALL]), include_usage=True))
        assert last["choices"] == []
        assert last["usage"]["total_tokens"] > 0
        assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"

    def test_usage_is_known_in_any_case(self) -> None:
        answer = streamed_answer(plan())
        answer.feed(stream([CALL]))
        assert answer.usage is not None
        assert answer.usage["total_tokens"] > 0

    @pytest.mark.parametrize("reason", ["length", "content_filter"])
    def test_a_cut_off_answer_stays_cut_off(self, reason: str) -> None:
        message = joined(rewrite(stream([CALL[:-30]], reason)))
        assert message["finish_reason"] == reason
        assert message["calls"][0]["name"] == "get_weather"

    def test_one_call_when_parallel_calls_are_ruled_out(self) -> None:
        message = joined(rewrite(stream([CALL, CALL, "Bye."]), parallel_tool_calls=False))
        assert len(message["calls"]) == 1
        assert message["content"] == "Bye."
        assert message["finish_reason"] == "tool_calls"

    def test_the_last_text_may_come_with_the_finish(self) -> None:
        data = stream([CALL[:-5]], None, usage=False).removesuffix(b"data: [DONE]\n\n")
        last = stream([CALL[-5:]], None).split(b"\n\n")[1].replace(b'"finish_reason":null', b'"finish_reason":"stop"')
        message = joined(rewrite(data + last + b"\n\ndata: [DONE]\n\n"))
        assert message["calls"][0]["arguments"] == '{"city": "Zürich"}'
        assert message["finish_reason"] == "tool_calls"

    def test_choices_are_parsed_apart(self) -> None:
        one = stream(["Hello."], usage=False).removesuffix(b"data: [DONE]\n\n")
        two = stream([CALL[:20], CALL[20:]], usage=False, index=1).removesuffix(b"data: [DONE]\n\n")
        mixed = b"".join(
            a + b"\n\n" + b + b"\n\n" for a, b in zip(one.split(b"\n\n"), two.split(b"\n\n"), strict=False) if a
        )
        rest = b"\n\n".join(two.split(b"\n\n")[len(one.split(b"\n\n")) - 1 :])
        data = rewrite(mixed + rest + b"data: [DONE]\n\n")
        assert joined(data, 0)["content"] == "Hello."
        assert joined(data, 1)["calls"][0]["name"] == "get_weather"

    def test_comments_pass(self) -> None:
        assert rewrite(b": still here\n\n" + stream(["Hi"])).startswith(b": still here\n\n")

    def test_a_missing_done_is_added(self) -> None:
        assert rewrite(stream(["Hi"]).removesuffix(b"data: [DONE]\n\n")).endswith(b"data: [DONE]\n\n")

    @pytest.mark.parametrize(
        "broken",
        [
            pytest.param(stream(["Hi"], None), id="no finish_reason"),
            pytest.param(stream(["Hi"], None).removesuffix(b"data: [DONE]\n\n"), id="ended early"),
            pytest.param(b"", id="empty"),
            pytest.param(b"data: [DONE]\n\n", id="nothing but the end"),
            pytest.param(b'data: {"choices": [{"index": {}, "delta": {}}]}\n\n', id="no index"),
            pytest.param(b'data: {"choices": [{"index": 0, "delta": {"content": [1]}}]}\n\n', id="no text"),
            pytest.param(b"<html>Bad gateway</html>", id="no events"),
            pytest.param(b"data: {not json\n\n", id="broken JSON"),
            pytest.param(b'data: {"object": "x"}\n\n', id="no choices"),
            pytest.param(b'data: {"choices": [{"index": 0}]}\n\n', id="no delta"),
            pytest.param(b"data: \xff\xfe\n\n", id="no UTF-8"),
        ],
    )
    def test_what_is_not_a_whole_answer_ends_in_an_error_event(self, broken: bytes) -> None:
        error = chunks_of(rewrite(broken))[-1]["error"]
        assert error["code"] == 502, "the status that clients go by: the response's own was 200"
        assert error["type"] == "server_error"
        assert "backend" in error["message"]

    def test_a_backends_error_event_becomes_openais(self) -> None:
        event = b'data: {"error": {"message": "CUDA out of memory", "type": "InternalServerError", "code": 500}}\n\n'
        chunks = chunks_of(
            rewrite(stream(["Hi"], None).removesuffix(b"data: [DONE]\n\n") + event + b"data: [DONE]\n\n")
        )
        assert chunks[-1] == {
            "error": {
                "message": "The model's backend answered 500 Internal Server Error. "
                "What else it said is withheld; its log may tell more.",
                "type": "server_error",
                "param": None,
                "code": 500,
            }
        }

    def test_a_stream_with_fewer_choices_than_were_asked_for_ends_in_an_error_event(self) -> None:
        two = stream(["Hi"], usage=False).removesuffix(b"data: [DONE]\n\n") + stream(["Ho"], index=1)
        assert joined(rewrite(two, choices=2), 1)["content"] == "Ho"
        for data in (two, two.removesuffix(b"data: [DONE]\n\n")):
            error = chunks_of(rewrite(data, choices=3))[-1]["error"]
            assert error["code"] == 502
            assert "2 of the 3 choices" in error["message"]

    def test_a_stream_that_ends_behind_its_finish_reason_is_whole(self) -> None:
        assert joined(rewrite(stream(["Hi"]).removesuffix(b"data: [DONE]\n\n")))["finish_reason"] == "stop"

    def test_what_comes_behind_a_finish_reason_is_text(self) -> None:
        chunks = chunks_of(rewrite(stream(["Hi <tool"]).removesuffix(b"data: [DONE]\n\n") + stream([CALL])))
        deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
        assert "".join(delta.get("content") or "" for delta in deltas) == f"Hi <tool{CALL}"
        assert not any(delta.get("tool_calls") for delta in deltas)

    def test_after_an_error_nothing_more_is_sent(self) -> None:
        answer = streamed_answer(plan())
        assert answer.feed(b"data: broken\n\n" + stream(["Hi"])).endswith(b"data: [DONE]\n\n")
        assert answer.feed(stream(["Hi"])) + answer.close() == b""

    @given(
        st.lists(st.sampled_from(["I look", CALL, CALL[:25], "é", "\n", "```json\n", "{", "<think>"]), max_size=6),
        st.randoms(use_true_random=False),
    )
    def test_any_cut_of_the_bytes_gives_the_same_answer(self, texts: list[str], source: random.Random) -> None:
        data = stream(texts)
        answer = streamed_answer(plan(include_usage=True))
        out, at = b"", 0
        while at < len(data):
            size = source.randint(1, 200)
            out += answer.feed(data[at : at + size])
            at += size
        whole = rewrite(data, include_usage=True)
        assert CALL_ID.sub(b"call", out + answer.close()) == CALL_ID.sub(b"call", whole)
