"""The count that a client gets: the backend's own wherever there is one, once, and only if it is to be there.

The promises are those of OpenAI's `stream_options.include_usage`. The streams are vLLM's, recorded, and what else
servers do: a count in the last choice's chunk, in every chunk, several times, or nowhere.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from extproc.contract.token_count import Excerpt
from extproc.surfaces import rewrite_completion, streamed_answer
from extproc.turn.answer import Rewritten
from extproc.turn.usage import Sent
from scripted_vllm import Reply, Usage
from scripted_vllm.troubles import Verbatim
from tests.gateway import Gateway
from tests.test_answer import CALL, CALL_ID, TOOLS, chunks_of, plan, stream

RECORDINGS = Path(__file__).parent / "recordings"
COUNT = {"prompt_tokens": 42, "total_tokens": 50, "completion_tokens": 8}
"""In the recordings that `stream` is made of."""
DETAILED = {
    **COUNT,
    "prompt_tokens_details": {"cached_tokens": 32, "audio_tokens": None},
    "completion_tokens_details": {"reasoning_tokens": 3},
    "queue_time": 0.25,
}
ASK = {"role": "user", "content": "What is the capital of France? Answer in one short sentence."}
SENT = Sent.read({"messages": [ASK]})
NATIVE = {"native": True, "repair": True}
"""How the answer of a backend that parses calls itself is read."""


def recorded(name: str) -> bytes:
    return (RECORDINGS / f"{name}.body.txt").read_bytes()


def rewritten(data: bytes, sent: Sent | None = SENT, *, size: int = 1 << 20, **changes: Any) -> bytes:
    answer = streamed_answer(plan(**changes), sent)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join([answer.feed(piece) for piece in pieces] + [answer.close()])


def with_counts(data: bytes, count: Callable[[int, dict[str, Any]], Any]) -> bytes:
    """The stream with what `count` says of each chunk as its usage; an ellipsis is none at all."""
    events = []
    for number, chunk in enumerate(chunks_of(data)):
        chunk.pop("usage", None)
        usage = count(number, chunk)
        events.append(chunk if usage is ... else {**chunk, "usage": usage})
    return b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in events) + b"data: [DONE]\n\n"


def without_counts(data: bytes) -> bytes:
    """The stream of a server that never counts: nor does it send a chunk for that."""
    chunks = [chunk for chunk in chunks_of(data) if chunk["choices"]]
    return with_counts(b"".join(b"data: " + orjson.dumps(c) + b"\n\n" for c in chunks) + b"data: [DONE]\n\n", absent)


def absent(_number: int, _chunk: dict[str, Any]) -> Any:
    return ...


TEXT = stream(["Paris", " it", " is."])
CALLS = stream(["I look.\n", CALL[:20], CALL[20:], "\n", CALL])
STREAMS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "text": (TEXT, {}),
    "calls": (CALLS, {}),
    "recorded text": (recorded("plain/chat_stream_usage"), {}),
    "recorded text, running counts": (recorded("plain/chat_stream_contusage"), {}),
    "recorded calls of the backend's own": (recorded("native/tools_auto_stream_usage"), NATIVE),
}
COUNTED_BY: dict[str, Callable[[bytes], bytes]] = {
    "a last chunk": lambda data: data,
    "the chunk that ends the choice": lambda data: with_counts(
        without_counts(data), lambda _, chunk: COUNT if chunk["choices"][0]["finish_reason"] else ...
    ),
    "the chunk that ends the choice, and a last one": lambda data: with_counts(
        data, lambda _, chunk: COUNT if not chunk["choices"] or chunk["choices"][0]["finish_reason"] else None
    ),
    "every chunk": lambda data: with_counts(
        data, lambda number, chunk: {**COUNT, "completion_tokens": number} if chunk["choices"] else COUNT
    ),
    "a last chunk, twice": lambda data: data.replace(
        b"data: [DONE]", b"data: " + orjson.dumps({**chunks_of(data)[-1], "usage": COUNT}) + b"\n\ndata: [DONE]"
    ),
    "a last chunk, and nulls before": lambda data: with_counts(
        data, lambda _, chunk: None if chunk["choices"] else COUNT
    ),
    "a last chunk after an empty one": lambda data: data.replace(
        b"data: ", b'data: {"choices": [], "prompt_filter_results": []}\n\ndata: ', 1
    ),
}


def final_count(data: bytes) -> dict[str, Any]:
    """The count of a stream whose client asked for it, which has to be in one last chunk and nowhere else."""
    *chunks, last = chunks_of(data)
    assert last["choices"] == []
    assert all(chunk["choices"] for chunk in chunks)
    assert [chunk["usage"] for chunk in chunks] == [None] * len(chunks)
    assert {key: last[key] for key in ("object", "model")} == {key: chunks[0][key] for key in ("object", "model")}
    usage = last["usage"]
    assert isinstance(usage, dict)
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return usage


class TestStreamsOfClientsThatAsked:
    @pytest.mark.parametrize("size", [1, 7, 1 << 20])
    @pytest.mark.parametrize("way", COUNTED_BY)
    @pytest.mark.parametrize("name", ["text", "calls"])
    def test_one_last_chunk_has_the_backends_count(self, name: str, way: str, size: int) -> None:
        data, changes = STREAMS[name]
        assert final_count(rewritten(COUNTED_BY[way](data), size=size, include_usage=True, **changes)) == COUNT

    @pytest.mark.parametrize("size", [1, 7, 1 << 20])
    @pytest.mark.parametrize("name", [name for name in STREAMS if name.startswith("recorded")])
    def test_so_it_is_with_what_vllm_sent(self, name: str, size: int) -> None:
        data, changes = STREAMS[name]
        last = chunks_of(data)[-1]
        out = rewritten(data, size=size, include_usage=True, **changes)
        assert final_count(out) == last["usage"]
        assert chunks_of(out)[-1] == last

    def test_calls_and_the_count_are_in_one_stream(self) -> None:
        out = rewritten(CALLS, include_usage=True)
        *_, finish, last = chunks_of(out)
        assert len(set(CALL_ID.findall(out))) == 2
        assert finish["choices"][0]["finish_reason"] == "tool_calls"
        assert last["usage"] == COUNT

    def test_details_pass_unchanged(self) -> None:
        data = with_counts(CALLS, lambda _, chunk: ... if chunk["choices"] else DETAILED)
        assert final_count(rewritten(data, include_usage=True)) == DETAILED

    def test_running_counts_go_to_who_asked_for_them(self) -> None:
        data = recorded("plain/chat_stream_contusage")
        assert rewritten(data, include_usage=True, running_counts=True).split(b"\n\n")[1:] == data.split(b"\n\n")[1:]
        *chunks, last = chunks_of(rewritten(COUNTED_BY["every chunk"](CALLS), include_usage=True, running_counts=True))
        assert all(chunk["choices"] and chunk["usage"]["prompt_tokens"] == 42 for chunk in chunks)
        assert (last["choices"], last["usage"]) == ([], COUNT)

    def test_a_missing_end_marker_changes_nothing(self) -> None:
        assert final_count(rewritten(CALLS.removesuffix(b"data: [DONE]\n\n"), include_usage=True)) == COUNT

    def test_a_broken_answer_has_none(self) -> None:
        *_, last = chunks_of(rewritten(stream(["Par"], None), include_usage=True))
        assert last["error"]["code"] == 502

    def test_a_count_nested_beyond_reason_is_an_error(self) -> None:
        deep = b'{"prompt_tokens":1,"completion_tokens":1,"x":' + b"[" * 900 + b"]" * 900 + b"}"
        data = without_counts(TEXT).replace(
            b"data: [DONE]", b'data: {"choices": [], "usage": ' + deep + b"}\n\ndata: [DONE]"
        )
        *_, last = chunks_of(rewritten(data, include_usage=True))
        assert last["error"]["code"] == 502


class TestStreamsOfClientsThatDidNot:
    @pytest.mark.parametrize("size", [1, 1 << 20])
    @pytest.mark.parametrize("way", COUNTED_BY)
    @pytest.mark.parametrize("sent", [None, SENT])
    def test_there_is_no_usage_anywhere(self, way: str, size: int, sent: Sent | None) -> None:
        out = rewritten(COUNTED_BY[way](CALLS), sent, size=size)
        assert b'"usage"' not in out
        assert all(chunk["choices"] for chunk in chunks_of(out))

    @pytest.mark.parametrize("way", COUNTED_BY)
    def test_but_we_know_it(self, way: str) -> None:
        answer = streamed_answer(plan(), SENT)
        answer.feed(COUNTED_BY[way](CALLS))
        assert answer.usage == COUNT

    def test_nothing_is_estimated(self) -> None:
        assert b'"usage"' not in rewritten(without_counts(CALLS))


class TestWholeAnswers:
    @pytest.mark.parametrize("name", ["plain/chat", "plain/chat_n2", "native/tools_auto", "native/tools_named"])
    def test_what_vllm_counted_is_what_the_client_reads(self, name: str) -> None:
        changes = NATIVE if name.startswith("native") else {}
        body = recorded(name)
        answer = rewrite_completion(body, plan(**changes), SENT)
        usage = orjson.loads(body)["usage"]
        assert orjson.loads(answer.body)["usage"] == usage == answer.usage
        assert not answer.estimated

    def test_details_pass_unchanged(self) -> None:
        answer = whole(CALL, DETAILED)
        assert orjson.loads(answer.body)["usage"] == DETAILED
        assert not answer.estimated

    def test_a_missing_sum_is_added(self) -> None:
        answer = whole("Hi", {"prompt_tokens": 42, "completion_tokens": 8})
        assert orjson.loads(answer.body)["usage"] == COUNT
        assert not answer.estimated


def whole(text: str, usage: Any = ..., sent: Sent | None = SENT, **changes: Any) -> Rewritten:
    body = orjson.loads(recorded("plain/chat"))
    body["choices"][0]["message"]["content"] = text
    if usage is ...:
        del body["usage"]
    else:
        body["usage"] = usage
    return rewrite_completion(orjson.dumps(body), plan(**changes), sent)


NO_COUNTS: list[Any] = [
    ...,
    None,
    {},
    [],
    "none",
    {"prompt_tokens": 42},
    {"prompt_tokens": None, "completion_tokens": True},
]


class TestEstimates:
    """A backend that doesn't count: then the client gets a count of ours, and is told so."""

    @pytest.mark.parametrize("usage", NO_COUNTS)
    def test_of_a_whole_answer(self, usage: Any) -> None:
        answer = whole("Paris is the capital of France.", usage)
        assert answer.estimated
        assert answer.usage is None, "it is no count of the backend's"
        assert orjson.loads(answer.body)["usage"] == {
            "prompt_tokens": 21,
            "completion_tokens": 8,
            "total_tokens": 29,
            "estimated": True,
        }

    @pytest.mark.parametrize("size", [1, 7, 1 << 20])
    @pytest.mark.parametrize("usage", NO_COUNTS)
    def test_of_a_stream(self, usage: Any, size: int) -> None:
        data = with_counts(without_counts(recorded("plain/chat_stream_usage")), lambda *_: usage)
        assert final_count(rewritten(data, size=size, include_usage=True)) == {
            "prompt_tokens": 21,
            "completion_tokens": 8,
            "total_tokens": 29,
            "estimated": True,
        }

    def test_calls_are_among_what_the_model_wrote(self) -> None:
        usage = final_count(rewritten(without_counts(CALLS), include_usage=True))
        assert usage["completion_tokens"] == Excerpt([f"I look.\n{CALL}\n{CALL}"]).tokens() + 1
        assert usage["estimated"] is True

    def test_so_are_the_backends_own(self) -> None:
        body = orjson.loads(recorded("native/tools_required"))
        del body["usage"]
        usage = orjson.loads(rewrite_completion(orjson.dumps(body), plan(**NATIVE), SENT).body)["usage"]
        (call,) = body["choices"][0]["message"]["tool_calls"]
        words = call["function"]["name"] + call["function"]["arguments"]
        assert usage["completion_tokens"] == Excerpt([words]).tokens() + 1

    def test_every_choice_counts(self) -> None:
        body = orjson.loads(recorded("plain/chat_n2"))
        real = body.pop("usage")["completion_tokens"]
        usage = orjson.loads(rewrite_completion(orjson.dumps(body), plan(), SENT).body)["usage"]
        assert usage["completion_tokens"] == pytest.approx(real, abs=2)

    def test_nothing_is_made_up_where_it_is_not_known_what_was_sent(self) -> None:
        assert "usage" not in orjson.loads(whole(CALL, sent=None).body)
        assert all(chunk["choices"] for chunk in chunks_of(rewritten(without_counts(CALLS), None, include_usage=True)))

    def test_the_tools_that_a_chat_template_shows_are_part_of_the_prompt(self) -> None:
        bare = Sent.read({"messages": [ASK]}).prompt_tokens()
        assert Sent.read({"messages": [ASK], "tools": TOOLS}).prompt_tokens() > bare + 20

    def test_earlier_calls_and_results_and_parts_are_too(self) -> None:
        call = {
            "id": "call_1",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
        }
        conversation: list[dict[str, Any]] = [
            {"role": "user", "content": [{"type": "text", "text": "What is the weather in Oslo?"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Light rain, 18 degrees"},
        ]
        counts = [Sent.read({"messages": conversation[:end]}).prompt_tokens() for end in (1, 2, 3)]
        said = ["What is the weather in Oslo?\n", 'get_weather\n{"city": "Oslo"}\n', "Light rain, 18 degrees\n"]
        added = [after - before for before, after in itertools.pairwise([3, *counts])]
        assert added == [Excerpt([text]).tokens() + 5 for text in said]

    def test_it_is_close_to_what_vllm_counted(self) -> None:
        """Where a request has a system message: without one, this model's chat template brings its own."""
        body = orjson.loads((RECORDINGS / "plain" / "content_parts.request.txt").read_bytes().partition(b"\n")[2])
        real = orjson.loads(recorded("plain/content_parts"))["usage"]
        assert Sent.read(body).prompt_tokens() == pytest.approx(real["prompt_tokens"], abs=2)

    def test_without_need_the_vocabulary_is_not_loaded(self) -> None:
        """It takes time and memory, and most backends count."""
        script = (
            "import sys; from tests.test_usage import *; rewritten(CALLS, include_usage=True); whole(CALL, COUNT);"
            "assert 'tiktoken' not in sys.modules; whole(CALL); assert 'tiktoken' in sys.modules"
        )
        assert subprocess.run([sys.executable, "-c", script], cwd=RECORDINGS.parent.parent, check=False).returncode == 0


# At the front door


def ask(**fields: Any) -> dict[str, Any]:
    return {"model": "coder", "messages": [ASK], "tools": TOOLS, **fields}


class TestFrontDoor:
    def test_a_whole_answer_has_the_backends_count(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(CALL, usage=Usage(100, 20)))
        reply = gateway.http.post("/v1/chat/completions", json=ask())
        usage = reply.json()["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (100, 20, 120)
        assert "estimated" not in usage
        assert "x-extproc-usage" not in reply.headers

    def test_a_stream_has_it_in_its_last_chunk(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply(f"I look.\n{CALL}", usage=Usage(100, 20)))
        *chunks, last = _stream(gateway, stream_options={"include_usage": True})
        assert [chunk.usage for chunk in chunks] == [None] * len(chunks)
        assert chunks[-1].choices[0].finish_reason == "tool_calls"
        assert last.choices == []
        assert (last.usage.prompt_tokens, last.usage.completion_tokens, last.usage.total_tokens) == (100, 20, 120)

    def test_with_running_counts_too(self, gateway: Gateway) -> None:
        gateway.backend.play(Reply("Paris it is.", usage=Usage(100, 20)))
        options = {"include_usage": True, "continuous_usage_stats": True}
        *chunks, last = _stream(gateway, stream_options=options)
        assert all(chunk.usage.prompt_tokens == 100 for chunk in chunks)
        assert last.choices == []
        assert last.usage.completion_tokens == 20

    def test_a_whole_answer_without_a_count_is_estimated_and_says_so(self, gateway: Gateway) -> None:
        body = orjson.loads(recorded("plain/chat"))
        del body["usage"]
        gateway.backend.play(Reply(trouble=Verbatim(orjson.dumps(body).decode())))
        reply = gateway.http.post("/v1/chat/completions", json=ask())
        assert reply.headers["x-extproc-usage"] == "estimated"
        usage = reply.json()["usage"]
        assert usage["estimated"] is True
        assert usage["completion_tokens"] == 8
        assert usage["prompt_tokens"] > 100, "the tools are in the prompt"

    def test_a_stream_without_a_count_is_estimated_and_says_so(self, gateway: Gateway) -> None:
        data = without_counts(recorded("plain/chat_stream_usage"))
        gateway.backend.play(Reply(trouble=Verbatim(data.decode())))
        *_, last = _stream(gateway, stream_options={"include_usage": True})
        assert last.usage.model_extra == {"estimated": True}
        assert last.usage.completion_tokens == 8
        assert last.usage.prompt_tokens > 100

    def test_an_answer_that_passes_by_is_the_backends_own(self, gateway: Gateway) -> None:
        body = orjson.loads(recorded("plain/chat"))
        del body["usage"]
        gateway.backend.play(Reply(trouble=Verbatim(orjson.dumps(body).decode())))
        reply = gateway.http.post("/v1/chat/completions", json={"model": "coder", "messages": [ASK]})
        assert reply.content == orjson.dumps(body)
        assert "x-extproc-usage" not in reply.headers


def _stream(gateway: Gateway, **fields: Any) -> list[Any]:
    return list(gateway.openai.chat.completions.create(**ask(stream=True, **fields)))
