"""Chunks that repeat each other are read without being decoded: nobody may see a difference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.surfaces import SURFACES
from extproc.turn.answer import StreamedAnswer
from extproc.turn.repeated_chunk import RepeatedChunk
from extproc.turn.spec import ResponseSpec
from extproc.turn.turn import Dialect

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "a \\"b\\" ü"}}\n</tool_call>'


def chunk(content: object, **fields: Any) -> dict[str, Any]:
    delta = {"content": content, **fields.pop("delta", {})}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **fields.pop("choice", {})}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "coder", "choices": [choice], **fields}


def compact(value: object) -> bytes:
    return orjson.dumps(value)


def spaced(value: object) -> bytes:
    return json.dumps(value).encode()


def unescaped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def answer(dialect: Dialect, **fields: Any) -> StreamedAnswer:
    spec = ResponseSpec(
        "hermes", TOOLS, parallel_tool_calls=True, dialect=dialect, **{"include_usage": False, **fields}
    )
    return StreamedAnswer(spec, SURFACES[dialect].writer(spec))


PIECES = st.one_of(st.text(max_size=6), st.sampled_from([*CALL, CALL, '"', "\\", "\n", "\u2028"]))
SPECS = st.sampled_from([{}, {"model": "mine"}, {"include_usage": True}, {"openers": "<"}, {"reasoning_content": True}])
FIELDS = st.sampled_from(
    [
        {},
        {"usage": None},
        {"usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}},
        {"delta": {"role": "assistant"}},
        {"delta": {"reasoning": "hm"}},
        {"delta": {"tool_calls": []}},
        {"choice": {"logprobs": {"content": []}}},
        {"choice": {"finish_reason": "stop"}},
        {"choice": {"index": 1}},
        {"model": "another"},
    ]
)


@given(
    contents=st.lists(PIECES, max_size=30),
    odd=st.dictionaries(st.integers(0, 30), FIELDS, max_size=3),
    encode=st.sampled_from([compact, spaced, unescaped]),
    dialect=st.sampled_from(sorted(SURFACES)),
    spec=SPECS,
)
def test_the_client_gets_the_same(
    contents: Sequence[str], odd: dict[int, dict[str, Any]], encode: Any, dialect: Dialect, spec: dict[str, Any]
) -> None:
    chunks = [
        chunk(content, **orjson.loads(orjson.dumps(odd.get(place, {})))) for place, content in enumerate(contents)
    ]
    events = [b"data: " + encode(one) + b"\n\n" for one in chunks]
    whole, cut = answer(dialect, **spec), answer(dialect, **spec)
    one = b"".join([whole.feed(event) for event in events]) + whole.close()
    # An event that comes in two pieces is never taken for a repeated one.
    other = b"".join([cut.feed(event[:5]) + cut.feed(event[5:]) for event in events]) + cut.close()
    assert without_ids(one) == without_ids(other)
    assert (whole.usage, whole.called, bool(whole.error)) == (cut.usage, cut.called, bool(cut.error))


def without_ids(answered: bytes) -> list[object]:
    """The events; what is made up anew for each answer is left out."""

    def plain(value: object) -> object:
        match value:
            case dict():
                made_up = ("id", "call_id", "item_id", "created_at")
                return {name: plain(inner) for name, inner in value.items() if name not in made_up}
            case list():
                return [plain(inner) for inner in value]
            case _:
                return value

    lines = [line.removeprefix(b"data: ") for line in answered.split(b"\n") if line.startswith(b"data: {")]
    return [plain(orjson.loads(line)) for line in lines]


LEARNT = compact(chunk("a"))


@pytest.mark.parametrize(
    ("event", "content"),
    [
        (b"data: " + compact(chunk("b")) + b"\n\n", "b"),
        (b"data: " + compact(chunk('say "x" \n')) + b"\n\n", 'say "x" \n'),
        (b"data: " + compact(chunk("")) + b"\n\n", ""),
        (b"data: " + LEARNT.replace(b'"a"', b'"\\ud83d\\ude00"') + b"\n\n", "\N{GRINNING FACE}"),
        (b"data: " + compact(chunk(None)) + b"\n\n", None),
        (b"data: " + compact(chunk(["a"])) + b"\n\n", None),
        (b"data: " + LEARNT.replace(b'"a"', b'"a","x":"y"') + b"\n\n", None),
        (b"data: " + LEARNT.replace(b'"a"', b'"a\n"') + b"\n\n", None),
        (b"data: " + LEARNT.replace(b'"a"', b'"\xff"') + b"\n\n", None),
        (b"data: " + LEARNT.replace(b'"created":1', b'"created":2') + b"\n\n", None),
        (b"data: " + LEARNT.replace(b'"a"', b'"a"\n') + b"\n\n", None),
        (b"data: " + LEARNT.replace(b'"a"', b' "a"') + b"\n\n", None),
        (b"data: " + LEARNT + b"\n", None),
        (b"data: " + LEARNT + b"\n\ndata: " + LEARNT + b"\n\n", None),
        (b": " + LEARNT + b"\n\n", None),
        (b"data: " + compact(chunk("x" * 3000)) + b"\n\n", None),
    ],
)
def test_what_counts_as_a_repetition(event: bytes, content: str | None) -> None:
    repeated = RepeatedChunk()
    repeated.learn(LEARNT, LEARNT, orjson.loads(LEARNT))
    assert repeated.read(event) is (content is not None)
    if content is not None:
        assert repeated.chunk == chunk(content)
        assert orjson.loads(repeated.data) == chunk(content)


@pytest.mark.parametrize(
    "data",
    [
        compact(chunk("a", delta={"role": "assistant"})),
        compact(chunk("a", choice={"finish_reason": "stop"})),
        compact(chunk("a", choice={"logprobs": {"content": [{"content": "x"}]}})),
        compact({**chunk("a"), "choices": [chunk("a")["choices"][0]] * 2}),
        compact(chunk("x" * 3000)),
    ],
)
def test_what_is_never_learnt(data: bytes) -> None:
    repeated = RepeatedChunk()
    repeated.learn(data, data, orjson.loads(data))
    assert not repeated.read(b"data: " + data + b"\n\n")
