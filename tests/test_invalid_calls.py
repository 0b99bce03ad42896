"""What becomes of a call that can't be: of no tool that was offered, or with arguments that aren't right.

Every rule holds for a whole answer and for a stream in any cut, so each is read in all of these ways.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

import orjson
import pytest

from extproc.contract.arguments import Violation
from extproc.contract.errors import ANSWER_VIOLATIONS, CALL_VIOLATIONS, ApiError, invalid_call
from extproc.surfaces import rewrite_completion, streamed_answer
from extproc.surfaces.chat.errors import error_event
from extproc.turn.answer_stream import AnswerStream
from extproc.turn.spec import ResponseSpec
from tests.cuts import random_cut
from tests.test_answer import chunks_of, completion, joined, plan, stream

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


PARIS, ROME = '{"city": "Paris"}', '{"city": "Rome"}'
GOOD = call("get_weather", PARIS)
ALSO_GOOD = call("get_weather", ROME)
UNKNOWN = call("get_wether", PARIS)
INVALID = call("get_weather", '{"city": 5}')
MALFORMED = call("get_weather", '{"city": }')
CUT_OFF = GOOD[:-20]

FAULTY = {
    "unknown_tool_call": (UNKNOWN, 'get_wether({"city": "Paris"})'),
    "invalid_tool_arguments": (INVALID, 'get_weather({"city": 5})'),
    "malformed_tool_arguments": (MALFORMED, 'get_weather({"city": })'),
}
"""Each code with a call that has this fault, and the same as text."""

every_fault = pytest.mark.parametrize("code", FAULTY)
every_policy = pytest.mark.parametrize("policy", ["pass", "text", "error"])


# Reading an answer in every way


@dataclass(frozen=True)
class Answer:
    """What a client has in the end."""

    content: str | None = None
    reasoning: str | None = None
    calls: tuple[tuple[str, str], ...] = ()
    finish_reason: str | None = None
    error: Any = None
    """The code that the client sees."""
    violations: dict[str, int] = field(default_factory=dict)


def whole(text: str, finish_reason: str, plan: ResponseSpec) -> Answer:
    """What a client makes of an answer in one piece."""
    try:
        rewritten = rewrite_completion(completion(text, finish_reason), plan)
    except ApiError as error:
        return Answer(error=error.code)
    choice = orjson.loads(rewritten.body)["choices"][0]
    message = choice["message"]
    calls = [made["function"] for made in message.get("tool_calls", [])]
    return Answer(
        message["content"] or None,
        message["reasoning"],
        tuple((made["name"], made["arguments"]) for made in calls),
        choice["finish_reason"],
        violations=dict(rewritten.violations),
    )


def streamed(pieces: list[str], finish_reason: str, plan: ResponseSpec, cut: random.Random | None = None) -> Answer:
    """What a client makes of a stream whose chunks hold these pieces of text, its bytes cut at random."""
    data = stream(pieces, finish_reason)
    answer = streamed_answer(plan)
    out, at = b"", 0
    while at < len(data):
        size = cut.randint(1, 400) if cut else len(data)
        out += answer.feed(data[at : at + size])
        at += size
    out += answer.close()
    assert answer.held == 0
    error = chunks_of(out)[-1].get("error", {})
    assert (answer.error.code if answer.error else None) == error.get("code")
    if error:
        out = b"".join(event + b"\n\n" for event in out.split(b"\n\n")[:-3]) + b"data: [DONE]\n\n"
    message = joined(out)
    return Answer(
        message["content"] or None,
        message["reasoning"],
        tuple((made["name"], made["arguments"]) for made in message["calls"].values()),
        message["finish_reason"],
        error.get("code"),
        dict(answer.violations),
    )


Read = Callable[[str, str, ResponseSpec], Answer]

WAYS: dict[str, Read] = {
    "whole": whole,
    "in one chunk": lambda text, reason, plan: streamed([text], reason, plan),
    "by the character": lambda text, reason, plan: streamed(list(text), reason, plan),
    "in any cut": lambda text, reason, plan: streamed(
        random_cut(text, random.Random(7)), reason, plan, random.Random(7)
    ),
}
every_way = pytest.mark.parametrize("read", WAYS.values(), ids=WAYS)


def weather(policy: str, **changes: Any) -> ResponseSpec:
    return plan(tools=[WEATHER], invalid_calls=policy, **changes)


# What the client gets


@every_way
@every_policy
def test_a_good_call_stays_what_it_is(read: Read, policy: str) -> None:
    answer = read(f"I look.\n{GOOD}\n{ALSO_GOOD}\nDone.", "stop", weather(policy))
    assert answer.calls == (("get_weather", PARIS), ("get_weather", ROME))
    assert (answer.content or "").split() == ["I", "look.", "Done."]
    assert (answer.finish_reason, answer.error, answer.violations) == ("tool_calls", None, {})


@every_way
@every_fault
def test_pass_leaves_a_faulty_call_to_the_client_and_counts_it(read: Read, code: str) -> None:
    answer = read(FAULTY[code][0], "stop", weather("pass"))
    [(name, arguments)] = answer.calls
    assert f"{name}({arguments})" == FAULTY[code][1]
    assert (answer.finish_reason, answer.violations) == ("tool_calls", {code: 1})


@every_way
@every_fault
def test_text_shows_a_faulty_call_and_the_answer_ends_as_the_backend_said(read: Read, code: str) -> None:
    answer = read(FAULTY[code][0], "stop", weather("text"))
    assert answer == Answer(FAULTY[code][1], finish_reason="stop", violations={code: 1})


@every_way
def test_text_sets_calls_apart_from_other_text_by_line_breaks(read: Read) -> None:
    answer = read(f"I look. {UNKNOWN}{INVALID} Done.", "stop", weather("text"))
    assert (answer.content or "").split("\n") == [
        "I look.",
        'get_wether({"city": "Paris"})',
        'get_weather({"city": 5})',
        "  Done.",
    ]


@every_way
def test_text_adds_no_line_break_where_there_is_one(read: Read) -> None:
    answer = read(f"{UNKNOWN}\nDone.", "stop", weather("text"))
    assert answer.content == 'get_wether({"city": "Paris"})\nDone.'


@every_way
def test_text_writes_a_call_of_several_lines_as_one(read: Read) -> None:
    answer = read(call("get_wether", '{\n  "city": "Paris",\r\n  "days": 2\n}'), "stop", weather("text"))
    assert answer.content == 'get_wether({   "city": "Paris",   "days": 2 })'


@every_way
def test_text_keeps_the_good_calls_and_numbers_them_without_gaps(read: Read) -> None:
    answer = read(f"{UNKNOWN}\n{GOOD}\n{INVALID}\n{ALSO_GOOD}", "stop", weather("text"))
    assert answer.calls == (("get_weather", PARIS), ("get_weather", ROME))
    assert answer.content == 'get_wether({"city": "Paris"})\nget_weather({"city": 5})'
    assert answer.finish_reason == "tool_calls"
    assert answer.violations == {"unknown_tool_call": 1, "invalid_tool_arguments": 1}


@every_way
@every_fault
def test_error_ends_the_answer_with_the_faults_own_code(read: Read, code: str) -> None:
    answer = read(f"{GOOD}\n{FAULTY[code][0]}\n{UNKNOWN}", "stop", weather("error"))
    assert answer.error == code
    assert answer.finish_reason is None
    assert read is whole or answer.violations == {code: 1}


def test_the_error_names_the_tool_and_quotes_nothing_of_the_arguments() -> None:
    with pytest.raises(ApiError, match="get_weather") as error:
        rewrite_completion(completion(call("get_weather", '{"city": 8128}')), weather("error"))
    assert "8128" not in error.value.message
    assert (error.value.status, error.value.type, error.value.param) == (502, "server_error", None)


def test_a_stream_says_in_a_word_what_was_wrong_and_then_nothing_more() -> None:
    answer = streamed_answer(weather("error"))
    out = answer.feed(stream(["I look.", INVALID, "Done."])) + answer.close()
    *chunks, last = chunks_of(out)
    assert answer.error is not None
    assert last == {
        "error": {
            "message": answer.error.message,
            "type": "server_error",
            "param": None,
            "code": "invalid_tool_arguments",
        }
    }
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": None},
        {"content": "I look."},
    ]


def test_what_stands_before_a_faulty_call_in_its_chunk_still_arrives() -> None:
    answer = streamed([f"I look.{GOOD}{INVALID}"], "stop", weather("error"))
    assert (answer.content, answer.calls) == ("I look.", (("get_weather", PARIS),))


def test_a_call_that_only_the_finish_completes_can_be_the_faulty_one() -> None:
    """The output ends without a closing tag, and the chunk that says so holds no text."""
    answer = streamed([UNKNOWN.removesuffix("}\n</tool_call>")], "stop", weather("error"))
    assert (answer.error, answer.finish_reason) == ("unknown_tool_call", None)


@pytest.mark.parametrize("code", sorted(ANSWER_VIOLATIONS))
def test_only_these_faults_are_a_word_in_a_stream(code: str) -> None:
    assert orjson.loads(error_event(invalid_call(code, "no")))["error"]["code"] == code
    assert orjson.loads(error_event(ApiError(502, "no", "server_error", code="bad_gateway")))["error"]["code"] == 502


def test_there_is_a_word_for_every_fault() -> None:
    assert set(get_args(get_type_hints(Violation)["code"])) == CALL_VIOLATIONS == FAULTY.keys()


# Cut off, broken off


@every_way
@every_policy
@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_what_the_backend_cut_off_is_no_fault_and_goes_to_the_client_as_far_as_it_came(
    read: Read, policy: str, reason: str
) -> None:
    answer = read(f"{GOOD}\n{CUT_OFF}", reason, weather(policy))
    assert answer.calls == (("get_weather", PARIS), ("get_weather", '{"city": "P'))
    assert (answer.finish_reason, answer.error, answer.violations) == (reason, None, {})


@every_way
@every_policy
def test_a_call_that_was_cut_off_before_a_required_argument_is_no_fault(read: Read, policy: str) -> None:
    """It stays open, or the client would take it for the call that the model meant."""
    text = "<tool_call>\n<function=get_weather>\n<parameter=country>\nFrance\n</parameter>\n"
    answer = read(text, "length", weather(policy, format="qwen3_coder"))
    assert answer == Answer(calls=(("get_weather", '{"country": "France"'),), finish_reason="length")


@every_way
def test_a_faulty_call_before_the_cut_is_a_fault(read: Read) -> None:
    answer = read(f"{INVALID}\n{CUT_OFF}", "length", weather("text"))
    assert answer.content == 'get_weather({"city": 5})'
    assert answer.calls == (("get_weather", '{"city": "P'),)
    assert (answer.finish_reason, answer.violations) == ("length", {"invalid_tool_arguments": 1})


@every_way
def test_a_call_that_the_model_itself_broke_off_is_a_fault(read: Read) -> None:
    answer = read(CUT_OFF, "stop", weather("text"))
    assert answer == Answer(
        'get_weather({"city": "P)', finish_reason="stop", violations={"malformed_tool_arguments": 1}
    )


# One call only


@every_way
def test_the_one_call_is_the_first_that_remains(read: Read) -> None:
    text = f"{UNKNOWN}\n{GOOD}\n{ALSO_GOOD}"
    answer = read(text, "stop", weather("text", parallel_tool_calls=False))
    assert answer.calls == (("get_weather", PARIS),)
    assert answer.content == 'get_wether({"city": "Paris"})'
    faulty_first = read(text, "stop", weather("pass", parallel_tool_calls=False))
    assert faulty_first.calls == (("get_wether", PARIS),)


@every_way
@every_policy
def test_what_comes_after_the_one_call_is_counted_and_dropped(read: Read, policy: str) -> None:
    answer = read(f"{GOOD}\n{INVALID}\n{UNKNOWN}", "stop", weather(policy, parallel_tool_calls=False))
    assert answer == Answer(
        calls=(("get_weather", PARIS),),
        finish_reason="tool_calls",
        violations={"invalid_tool_arguments": 1, "unknown_tool_call": 1},
    )


# Several choices


def two_choices(first: list[str], second: list[str]) -> bytes:
    """A stream of two choices whose chunks take turns."""
    streams = [
        stream(texts, usage=False, index=index).split(b"\n\n")[:-2] for index, texts in enumerate((first, second))
    ]
    turns = zip(*streams, strict=True)
    return b"".join(event + b"\n\n" for turn in turns for event in turn) + b"data: [DONE]\n\n"


def test_a_faulty_call_becomes_text_in_its_own_choice() -> None:
    answer = streamed_answer(weather("text"))
    data = answer.feed(two_choices([GOOD[:30], GOOD[30:]], [INVALID[:30], INVALID[30:]])) + answer.close()
    first, second = joined(data, 0), joined(data, 1)
    assert (first["content"], len(first["calls"]), first["finish_reason"]) == (None, 1, "tool_calls")
    assert (second["content"], len(second["calls"]), second["finish_reason"]) == ('get_weather({"city": 5})', 0, "stop")
    assert answer.violations == Counter(invalid_tool_arguments=1)


def test_a_faulty_call_in_one_choice_ends_the_answer_of_all() -> None:
    answer = streamed_answer(weather("error"))
    data = answer.feed(two_choices([GOOD[:30], GOOD[30:]], [INVALID, "Done."])) + answer.close()
    assert chunks_of(data)[-1]["error"]["code"] == "invalid_tool_arguments"
    assert b"Done" not in data
    body = orjson.loads(completion(GOOD))
    body["choices"] += orjson.loads(completion(INVALID))["choices"]
    with pytest.raises(ApiError) as error:
        rewrite_completion(orjson.dumps(body), weather("error"))
    assert error.value.code == "invalid_tool_arguments"


def test_a_faulty_call_keeps_the_other_choices_of_its_chunk_back() -> None:
    event = orjson.loads(stream([INVALID]).split(b"\n\n")[1].removeprefix(b"data: "))
    event["choices"].append({"index": 1, "delta": {"content": "Hello."}, "logprobs": None, "finish_reason": None})
    answer = streamed_answer(weather("error"))
    [error] = chunks_of(answer.feed(b"data: " + orjson.dumps(event) + b"\n\n"))
    assert error["error"]["code"] == "invalid_tool_arguments"


# Streaming


def fed(answer: AnswerStream, text: str) -> list[dict[str, Any]]:
    """The deltas that one more piece of text brings."""
    event = stream([text], None, usage=False).split(b"\n\n")[1] + b"\n\n"
    return [chunk["choices"][0]["delta"] for chunk in chunks_of(answer.feed(event) + b"data: [DONE]\n\n")]


def test_pass_streams_the_arguments_of_a_faulty_call() -> None:
    answer = streamed_answer(weather("pass"))
    fed(answer, '<tool_call>{"name": "get_wether", "arguments": {"city": "Pa')
    assert fed(answer, "ris") == [{"tool_calls": [{"index": 0, "function": {"arguments": "ris"}}]}]


@pytest.mark.parametrize("policy", ["text", "error"])
def test_a_held_call_comes_whole_and_in_its_place(policy: str) -> None:
    answer = streamed_answer(weather(policy))
    assert fed(answer, "I look." + GOOD[:-30]) == [{"content": "I look."}]
    assert answer.held > 0
    assert fed(answer, GOOD[-30:-15]) == []
    start, arguments, text = fed(answer, GOOD[-15:] + "\nDone.")
    assert start["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": ""}
    assert arguments == {"tool_calls": [{"index": 0, "function": {"arguments": PARIS}}]}
    assert text == {"content": "\nDone."}
    assert answer.held == 0


def test_thinking_between_calls_stays_in_its_place() -> None:
    answer = streamed_answer(weather("text"))
    fed(answer, INVALID[:20])
    deltas = fed(answer, f"{INVALID[20:]}<think>Rome?</think>{GOOD}")
    assert [next(iter(delta)) for delta in deltas] == ["content", "reasoning", "tool_calls", "tool_calls"]


@every_policy
def test_text_passes_byte_for_byte_before_a_call_and_after(policy: str) -> None:
    events = stream(["I", " look.", GOOD, "Done", " now."]).split(b"\n\n")
    rewritten = streamed_answer(weather(policy)).feed(b"\n\n".join(events) + b"\n\n").split(b"\n\n")
    assert all(event in rewritten for event in (events[1], events[2], events[4], events[5]))
