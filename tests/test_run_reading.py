"""The stream of a model round, in any cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import orjson
import pytest

from extproc.contract.errors import ApiError
from extproc.contract.sse import DONE, Comment, Data, encode
from extproc.runner.reading import LONGEST_EVENT, RoundReader, error_in
from extproc.runner.steps import ModelEnded, ModelSaid
from extproc.toolcalls import Reasoning
from extproc.toolcalls.events import Parsed, collect
from extproc.turn.output import Said

Json: TypeAlias = dict[str, Any]

ENVELOPE: Json = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "qwen"}
USAGE: Json = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
END = encode(Data(DONE))


def event(value: Any) -> bytes:
    return encode(Data(orjson.dumps(value)))


def chunk(reason: str | None = None, **delta: Any) -> bytes:
    return event({**ENVELOPE, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})


def counts(usage: Any = USAGE) -> bytes:
    return event({**ENVELOPE, "choices": [], "usage": usage})


def call(index: int, name: str | None, arguments: str, call_id: str | None = None) -> Json:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {"index": index, "type": "function", "function": function, **({"id": call_id} if call_id else {})}


ANSWER = b"".join(
    [
        chunk(role="assistant", content=""),
        chunk(reasoning="Hm. "),
        encode(Comment(b" still there")),
        chunk(reasoning_content="Ünsicher."),
        chunk(content="I l"),
        chunk(content="ök. ☂"),
        chunk(tool_calls=[call(0, "find", "", "a")]),
        chunk(tool_calls=[call(0, None, '{"q":')]),
        chunk(tool_calls=[call(0, None, '"☂"}')]),
        chunk(tool_calls=[call(1, "roll", "{}", "b")]),
        chunk("tool_calls"),
        counts(),
        END,
    ]
)


def read(*pieces: bytes, closed: bool = True) -> tuple[list[Said], list[ModelEnded]]:
    """What was said, and how it ended."""
    said, ended = list[Said](), list[ModelEnded]()
    reader = RoundReader(4)

    def take(ones: Iterator[ModelSaid | ModelEnded]) -> None:
        for one in ones:
            assert one.round == 4
            if isinstance(one, ModelSaid):
                assert not ended, "something is said behind the end"
                said.append(one.said)
            else:
                ended.append(one)

    for piece in pieces:
        take(reader.feed(piece))
    if closed:
        take(reader.close())
    return said, ended


def error_of(*pieces: bytes) -> ApiError:
    _, [ended] = read(*pieces)
    assert ended.error is not None
    return ended.error


def together(said: list[Said]) -> Parsed:
    return collect([one for each in said for one in each.own_events])


class TestAnswers:
    def test_all_that_is_said(self) -> None:
        said, [ended] = read(ANSWER)
        parsed = together(said)
        assert (parsed.reasoning, parsed.content) == ("Hm. Ünsicher.", "I lök. ☂")
        assert [(one.name, one.arguments, one.id, one.whole) for one in parsed.calls] == [
            ("find", '{"q":"☂"}', "a", True),
            ("roll", "{}", "b", True),
        ]
        assert [one.finish_reason for one in said if one.finish_reason] == ["tool_calls"]
        assert ended == ModelEnded(4, USAGE)

    def test_a_cut_changes_nothing(self) -> None:
        expected = read(ANSWER)
        for at in range(1, len(ANSWER)):
            assert read(ANSWER[:at], ANSWER[at:]) == expected
        assert read(*(ANSWER[at : at + 1] for at in range(len(ANSWER)))) == expected

    @pytest.mark.parametrize("line_end", [b"\r\n", b"\r"])
    def test_nor_does_the_end_of_lines(self, line_end: bytes) -> None:
        assert read(ANSWER.replace(b"\n", line_end)) == read(ANSWER)

    def test_a_thought_is_said_once(self) -> None:
        """Under both of its names, it is one."""
        said, _ = read(chunk(reasoning="Hm.", reasoning_content="Hm.", content="Yes."), chunk("stop"))
        assert said[0].events[0] == Reasoning("Hm.")
        assert together(said) == Parsed("Yes.", "Hm.", [])
        assert not any("reasoning" in name for one in said for name in one.source)

    @pytest.mark.parametrize("thought", ["", None, 3, ["Hm."]])
    def test_what_is_no_thought_is_none(self, thought: Any) -> None:
        said, [ended] = read(chunk(reasoning=thought, content="Yes."), chunk("stop"), END)
        assert together(said) == Parsed("Yes.", None, [])
        assert ended.error is None

    def test_the_end_comes_once(self) -> None:
        said, [ended] = read(ANSWER, chunk(content="More."), END, event({"error": {"message": "Late."}}))
        assert together(said).content == "I lök. ☂"
        assert ended.error is None

    def test_without_its_mark_the_end_of_the_stream_is_one(self) -> None:
        _, [ended] = read(chunk(content="Yes."), chunk("stop"), counts())
        assert ended == ModelEnded(4, USAGE)

    def test_nor_does_the_last_event_need_its_blank_line(self) -> None:
        said, [ended] = read((chunk(content="Yes.") + chunk("stop")).rstrip(b"\n"))
        assert (together(said).content, ended) == ("Yes.", ModelEnded(4))

    def test_the_mark_comes_before_the_end_of_the_stream(self) -> None:
        _, ended = read(chunk("stop"), END, closed=False)
        assert ended == [ModelEnded(4)]

    def test_chunks_have_an_envelope_in_common(self) -> None:
        reader = RoundReader(1)
        assert reader.envelope == {}
        list(reader.feed(event({**ENVELOPE, "choices": [], "usage": None, "system_fingerprint": "x"})))
        list(reader.feed(event({**ENVELOPE, "id": "another", "choices": []})))
        assert reader.envelope == {**ENVELOPE, "system_fingerprint": "x"}


class TestUsage:
    def test_the_last_one_counts(self) -> None:
        said = event({**ENVELOPE, "choices": [{"index": 0, "delta": {"content": "Hi"}}], "usage": {**USAGE, "x": 1}})
        _, [ended] = read(said, chunk("stop"), counts({"prompt_tokens": 3, "completion_tokens": 4}), END)
        assert ended.usage == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}

    @pytest.mark.parametrize("usage", [None, 3, {}, {"prompt_tokens": "3", "completion_tokens": 2}, [USAGE]])
    def test_what_is_none_counts_nothing(self, usage: Any) -> None:
        assert read(chunk("stop"), counts(usage), END)[1] == [ModelEnded(4)]
        assert read(chunk("stop"), counts(), counts(usage), END)[1] == [ModelEnded(4, USAGE)]

    def test_an_error_has_what_was_counted_before(self) -> None:
        _, [ended] = read(counts(), event({"error": {"message": "It failed."}}))
        assert ended.usage == USAGE


class TestErrors:
    @pytest.mark.parametrize(("code", "status"), [(400, 400), (429, 429), (503, 503), (599, 599)])
    def test_a_status_may_be_its_code(self, code: int, status: int) -> None:
        error = error_of(chunk(content="Hi"), event({"error": {"message": "No.", "type": "x", "code": code}}))
        assert (error.status, error.message, error.type, error.code) == (status, "No.", "x", None)

    @pytest.mark.parametrize("code", [None, 200, 399, 600, "too_long", True, {"a": 1}])
    def test_any_other_code_is_a_word_or_nothing(self, code: Any) -> None:
        error = error_of(event({"error": {"message": "No.", "code": code, "param": "messages"}}))
        assert (error.status, error.param) == (502, "messages")
        assert error.code == (code if isinstance(code, str) else None)

    def test_one_that_says_nothing_has_words(self) -> None:
        error = error_of(event({"error": {"message": None, "type": 3, "param": []}}))
        assert (error.message, error.type, error.param) == ("The model's backend failed.", "3", None)

    def test_nothing_comes_behind_it(self) -> None:
        said, [ended] = read(event({"error": {"message": "No."}}), chunk(content="Yes."), chunk("stop"), END)
        assert (said, ended.error is not None) == ([], True)

    @pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'"x"', b"{}", b'{"error":null}', b'{"error":3}'])
    def test_what_is_none(self, body: bytes) -> None:
        assert error_in(body, 500) is None

    def test_that_of_a_whole_answer_has_its_status(self) -> None:
        error = error_in(b'{"error":{"message":"No.","code":"nope"}}', 403)
        assert error is not None
        assert (error.status, error.code, error.type) == (403, "nope", "server_error")


class TestGarbage:
    @pytest.mark.parametrize(
        "data",
        [
            b"<html>",
            b"{",
            b"[]",
            b"3",
            b"null",
            b"\xff",
            b"{}",
            b'{"choices": null}',
            b'{"choices": {}}',
            b'{"choices": [3]}',
            b'{"choices": [{}]}',
            b'{"choices": [{"delta": null}]}',
            b'{"choices": [{"index": "0", "delta": {}}]}',
            b'{"choices": [{"index": 1, "delta": {}}]}',
            b'{"choices": [{"index": 0, "delta": {}}, {"index": 1, "delta": {}}]}',
            b'{"choices": [{"delta": {}, "finish_reason": 3}]}',
            b'{"choices": [{"delta": {"content": 3}}]}',
            b'{"choices": [{"delta": {"tool_calls": 3}}]}',
            b'{"choices": [{"delta": {"tool_calls": [3]}}]}',
            b'{"choices": [{"delta": {"tool_calls": [{"function": 3}]}}]}',
            b'{"error": "it failed"}',
            b'{"object": "error", "message": "it failed"}',
        ],
    )
    def test_it_is_an_error_that_comes_once(self, data: bytes) -> None:
        bad = encode(Data(data))
        for pieces in ([bad], [chunk(content="Hi") + bad + chunk("stop") + END], [bad[:9], bad[9:]]):
            error = error_of(*pieces)
            assert error.status in (500, 502)
            assert data.decode(errors="replace") not in error.message

    @pytest.mark.parametrize("pieces", [[], [b""], [b"\n\n"], [b": hi\n\n"], [b"event: x\n\n"], [b"hello"]])
    def test_a_stream_that_says_nothing_is_one_too(self, pieces: list[bytes]) -> None:
        assert "ended before the answer was complete" in error_of(*pieces).message

    @pytest.mark.parametrize("end", [b"", b"data: {"])
    def test_so_is_one_that_ends_early(self, end: bytes) -> None:
        said, [ended] = read(chunk(content="Hel"), end)
        assert together(said).content == "Hel"
        assert ended.error is not None
        assert ended.error.status == 502

    def test_a_call_that_nobody_finished_isnt_said_to_be_whole(self) -> None:
        said, [ended] = read(chunk(tool_calls=[call(0, "find", '{"q":', "a")]))
        assert not together(said).calls[0].whole
        assert ended.error is not None

    def test_a_mark_before_the_finish_reason_is_no_error_of_the_reader(self) -> None:
        """The run knows that the round isn't complete."""
        assert read(chunk(content="Hel"), END)[1] == [ModelEnded(4)]


class TestSize:
    def test_an_event_that_never_ends_is_an_error(self) -> None:
        piece = b"data: " + b"x" * 65536
        said, ended = read(*[piece] * (LONGEST_EVENT // 65536 + 1), closed=False)
        assert said == []
        assert [one.error is not None and "too large" in one.error.message for one in ended] == [True]

    def test_nothing_comes_behind_it(self) -> None:
        _, ended = read(b"data: " + b"x" * LONGEST_EVENT, b"x" * LONGEST_EVENT, b"\n\n", ANSWER)
        assert len(ended) == 1

    def test_a_large_one_is_none(self) -> None:
        text = "x" * (LONGEST_EVENT - 1000)
        said, [ended] = read(chunk(content=text), chunk("stop"), END)
        assert (together(said).content, ended.error) == (text, None)
