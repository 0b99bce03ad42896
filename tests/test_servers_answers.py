"""What servers answer that are no vLLM, in the shapes that their sources give it, as it comes to the client.

The sources are named in `extproc/contract/servers.py`: Ollama's `ToChunk`, text-generation-inference's `ChatState`,
SGLang's `ChatCompletionStreamResponse` and `_build_chat_response`, llama.cpp's `to_json_oaicompat_chat`.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from extproc.contract.sse import Data, SseDecoder
from extproc.surfaces import rewrite_completion, streamed_answer
from tests.test_servers import LOOK, prepared

ARGUMENTS = '{"at":"it"}'


def called(**fields: Any) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": ARGUMENTS}, **fields}


def chunk(delta: dict[str, Any] | None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": choices,
        **fields,
    }


USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
NULLS = {"reasoning_content": None, "tool_calls": None}
STREAMS: dict[str, list[dict[str, Any]]] = {
    "ollama": [
        chunk({"role": "assistant", "content": "", "reasoning": "Hm."}, system_fingerprint="fp_ollama"),
        chunk({"role": "assistant", "content": "", "tool_calls": [called(index=0)]}),
        chunk({"role": "assistant", "content": ""}, "tool_calls"),
        chunk(None, usage=USAGE),
    ],
    # The name comes once, the id in every piece, and the end is the model's.
    "tgi": [
        chunk(
            {"role": "assistant", "tool_calls": [called(index=0, id="0", function={"name": "look", "arguments": "{"})]}
        ),
        chunk(
            {
                "role": "assistant",
                "tool_calls": [called(index=0, id="0", function={"name": None, "arguments": '"at":'})],
            }
        ),
        chunk(
            {
                "role": "assistant",
                "tool_calls": [called(index=0, id="0", function={"name": None, "arguments": '"it"}'})],
            }
        ),
        chunk({"role": "assistant", "content": ""}, "stop"),
        chunk(None, usage=USAGE, id=""),
    ],
    "sglang": [
        chunk({"role": "assistant", "content": "", **NULLS}, usage=None),
        chunk({"role": None, "content": None, "reasoning_content": "Hm.", "tool_calls": None}),
        chunk({"content": None, "tool_calls": [called(index=0, function={"name": "look", "arguments": ""})]}),
        chunk(
            {
                "content": None,
                "tool_calls": [{"id": None, "index": 0, "function": {"name": None, "arguments": ARGUMENTS}}],
            }
        ),
        chunk({"role": None, "content": None, **NULLS}, "tool_calls"),
        chunk(None, usage={**USAGE, "prompt_tokens_details": None, "reasoning_tokens": 0}),
    ],
    "llama.cpp": [
        chunk({"role": "assistant", "content": None}),
        chunk({"reasoning_content": "Hm."}),
        chunk({"tool_calls": [called(index=0, function={"name": "look", "arguments": ""})]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS}}]}),
        chunk({}, "tool_calls"),
        chunk(None, usage=USAGE, timings={"prompt_n": 9}),
    ],
}


@pytest.mark.parametrize("server", STREAMS)
def test_a_call_in_a_stream_comes_as_one(server: str) -> None:
    plan = prepared(f"{server} native", tools=[LOOK], stream=True, stream_options={"include_usage": True}).answer
    assert plan is not None
    answer = streamed_answer(plan)
    sent = b"".join(b"data: " + orjson.dumps(each) + b"\n\n" for each in STREAMS[server]) + b"data: [DONE]\n\n"
    out = b"".join(answer.feed(sent[at : at + 7]) for at in range(0, len(sent), 7)) + answer.close()
    chunks = [
        orjson.loads(event.data)
        for event in SseDecoder().feed(out)
        if isinstance(event, Data) and event.data[:1] == b"{"
    ]
    assert not [each for each in chunks if "error" in each]
    deltas = [choice["delta"] for each in chunks for choice in each["choices"]]
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls") or ()]
    assert [piece["function"]["name"] for piece in pieces if piece["function"].get("name")] == ["look"]
    assert orjson.loads("".join(piece["function"].get("arguments") or "" for piece in pieces)) == {"at": "it"}
    assert "".join(delta.get("content") or "" for delta in deltas) == ""
    ends = [choice["finish_reason"] for each in chunks for choice in each["choices"] if choice["finish_reason"]]
    assert ends == ["tool_calls"]
    thought = "".join(delta.get("reasoning") or delta.get("reasoning_content") or "" for delta in deltas)
    assert thought == ("" if server == "tgi" else "Hm.")
    (usage,) = (each["usage"] for each in chunks if each.get("usage"))
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (9, 5)


WHOLE: dict[str, dict[str, Any]] = {
    "ollama": {
        "message": {"role": "assistant", "content": "", "tool_calls": [called(index=0)]},
        "finish_reason": "tool_calls",
    },
    "tgi": {"message": {"role": "assistant", "tool_calls": [called(id="0")]}, "finish_reason": "stop"},
    "sglang": {
        "message": {"role": "assistant", "content": None, "reasoning_content": None, "tool_calls": [called(index=0)]},
        "logprobs": None,
        "finish_reason": "tool_calls",
        "matched_stop": None,
    },
    "llama.cpp": {
        "message": {"role": "assistant", "content": None, "tool_calls": [called()]},
        "finish_reason": "tool_calls",
    },
}


@pytest.mark.parametrize("server", WHOLE)
def test_a_call_in_a_whole_answer_comes_as_one(server: str) -> None:
    plan = prepared(f"{server} native", tools=[LOOK]).answer
    assert plan is not None
    answer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "usage": USAGE}
    body = rewrite_completion(orjson.dumps({**answer, "choices": [{"index": 0, **WHOLE[server]}]}), plan).body
    (choice,) = orjson.loads(body)["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert (call["function"]["name"], choice["finish_reason"]) == ("look", "tool_calls")
    assert orjson.loads(call["function"]["arguments"]) == {"at": "it"}
