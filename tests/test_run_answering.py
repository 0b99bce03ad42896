"""What a run says, in the words of each dialect: as a stream, and whole."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import orjson
import pytest

from extproc.config import Runs
from extproc.contract.errors import ApiError
from extproc.names import CHAT_PATH, MESSAGES_PATH, RESPONSES_PATH
from extproc.runner.answering import StreamedRun, WholeRun
from extproc.runner.reading import RoundReader
from extproc.runner.run import Run
from extproc.runner.steps import CallTool, Complete, Step, ToolEnded
from extproc.runner.tools import ToolResult
from extproc.turn.output import Said
from extproc.turn.spec import ResponseSpec
from tests.messages import calls_of, message_of, said_in, whole_message
from tests.messages import events_of as message_events
from tests.responses import events_of, response_calls, response_of, response_text
from tests.test_answer import chunks_of, joined
from tests.test_run import OURS
from tests.test_run_plan import planned
from tests.test_run_reading import END, ENVELOPE, call, chunk, counts, event
from tests.test_served_calls import mcp_calls

Json: TypeAlias = dict[str, Any]

PATHS = {"chat": CHAT_PATH, "messages": MESSAGES_PATH, "responses": RESPONSES_PATH}
DIALECTS = list(PATHS)


def spec_of(dialect: str, **changes: Any) -> ResponseSpec:
    asked: Json = {"stream": True, "stream_options": {"include_usage": True}} if dialect == "chat" else {}
    return replace(planned(PATHS[dialect], **asked).spec, **changes)


def steps_of(*rounds: bytes, results: Sequence[ToolResult] = ()) -> list[Step]:
    """A run in which the model says this; tools end in the order of their calls."""
    ids = (f"call_{number}" for number in itertools.count())
    run = Run([{"role": "user", "content": "Hi"}], OURS, Runs(), lambda: next(ids))
    left = iter(results)
    steps = [run.start()]
    for number, body in enumerate(rounds, 1):
        reader = RoundReader(number)
        steps += [run.receive(one) for one in [*reader.feed(body), *reader.close()]]
        called = [effect for effect in steps[-1].effects if isinstance(effect, CallTool)]
        steps += [run.receive(ToolEnded(one.id, next(left, ToolResult("found")))) for one in called]
    return steps


def streamed(spec: ResponseSpec, steps: Sequence[Step]) -> bytes:
    answer = StreamedRun(spec, ENVELOPE)
    out = b""
    for step in steps:
        out += answer.say(step.out)
        if isinstance(step.end, Complete):
            return out + answer.end(step.end.usage)
        if isinstance(step.end, ApiError):
            return out + answer.fail(step.end)
    raise AssertionError(steps)


def whole(spec: ResponseSpec, steps: Sequence[Step]) -> Json:
    answer = WholeRun(spec)
    for step in steps:
        answer.say(step.out)
    end = steps[-1].end
    assert isinstance(end, Complete)
    value: Json = orjson.loads(answer.end(ENVELOPE, end.usage))
    return value


@dataclass(frozen=True)
class Told:
    """What a client makes of an answer, whatever its dialect."""

    text: str
    thoughts: str
    calls: list[tuple[str, Any]]
    ended: str
    tokens: tuple[int, int] | None


_ENDS = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
}


def told_by_chat(message: Json, reason: str, usage: Json | None) -> Told:
    called = message.get("tool_calls") or []
    return Told(
        message["content"] or "",
        message.get("reasoning") or "",
        [(one["function"]["name"], orjson.loads(one["function"]["arguments"])) for one in called],
        reason,
        (usage["prompt_tokens"], usage["completion_tokens"]) if usage else None,
    )


def told_by_message(message: Json) -> Told:
    usage = message["usage"]
    return Told(
        said_in(message, "text"),
        said_in(message, "thinking"),
        calls_of(message),
        _ENDS[message["stop_reason"]],
        (usage["input_tokens"], usage["output_tokens"]),
    )


def told_by_response(response: Json) -> Told:
    calls = response_calls(response)
    details: Json = response["incomplete_details"] or {}
    reason: str | None = details.get("reason")
    cut = "length" if reason == "max_output_tokens" else reason
    usage = response["usage"]
    return Told(
        response_text(response),
        response_text(response, "reasoning"),
        calls,
        cut or ("tool_calls" if calls else "stop"),
        (usage["input_tokens"], usage["output_tokens"]) if usage else None,
    )


def told_by_stream(dialect: str, data: bytes) -> Told:
    if dialect == "messages":
        return told_by_message(message_of(data))
    if dialect == "responses":
        events = events_of(data)
        mcp_calls(events)
        *_, last = events
        done = {one["output_index"]: one["item"] for one in events if one["type"] == "response.output_item.done"}
        assert [done[index] for index in sorted(done)] == last["response"]["output"]
        return told_by_response(last["response"])
    message = joined(data)
    calls = [{"function": one} for one in message["calls"].values()]
    *_, last = chunks_of(data)
    return told_by_chat({**message, "tool_calls": calls}, message["finish_reason"], last.get("usage"))


def told_whole(dialect: str, answer: Json) -> Told:
    if dialect == "messages":
        return told_by_message(whole_message(orjson.dumps(answer)))
    if dialect == "responses":
        return told_by_response(answer)
    [choice] = answer["choices"]
    assert answer["object"] == "chat.completion"
    assert choice["message"]["role"] == "assistant"
    return told_by_chat(choice["message"], choice["finish_reason"], answer["usage"])


WORDS = chunk(role="assistant", content="") + chunk(content="Hel") + chunk(content="lo.") + chunk("stop") + counts()
LOOKS = (
    chunk(role="assistant", content="")
    + chunk(reasoning="Hm. ")
    + chunk(content="I look.")
    + chunk(tool_calls=[call(0, "web__find", '{"q":1}', "a"), call(1, "roll", "{}", "b")])
    + chunk("tool_calls")
    + counts()
)
SUNNY = chunk(role="assistant", content="Sunny") + chunk(content=".") + chunk("stop") + counts() + END
CALLS = (
    chunk(role="assistant", content="Your turn.")
    + chunk(tool_calls=[call(0, "roll", "{}", "a")])
    + chunk(tool_calls=[call(1, "get_weather", '{"city":', "b")])
    + chunk(tool_calls=[call(1, None, '"Köln"}')])
    + chunk(tool_calls=[call(2, "get_time", "{}", "c")])
    + chunk("tool_calls")
    + counts()
)
CUT_OFF = chunk(content="And so") + chunk("length") + counts()
FILTERED = chunk(content="And so") + chunk("content_filter") + counts()
SCRIPTS: dict[str, tuple[list[bytes], Told]] = {
    "words": ([WORDS], Told("Hello.", "", [], "stop", (3, 2))),
    "tools": ([LOOKS, SUNNY], Told("I look.\n\nSunny.", "Hm. ", [], "stop", (6, 4))),
    "many rounds": ([LOOKS, LOOKS, SUNNY], Told("I look.\n\nI look.\n\nSunny.", "Hm. Hm. ", [], "stop", (9, 6))),
    "calls": (
        [CALLS],
        Told("Your turn.", "", [("get_weather", {"city": "Köln"}), ("get_time", {})], "tool_calls", (3, 2)),
    ),
    "both": (
        [LOOKS, CALLS],
        Told(
            "I look.\n\nYour turn.",
            "Hm. ",
            [("get_weather", {"city": "Köln"}), ("get_time", {})],
            "tool_calls",
            (6, 4),
        ),
    ),
    "cut off": ([LOOKS, CUT_OFF], Told("I look.\n\nAnd so", "Hm. ", [], "length", (6, 4))),
    "filtered": ([FILTERED], Told("And so", "", [], "content_filter", (3, 2))),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_an_answer_says_the_same_in_every_form(dialect: str, script: str) -> None:
    rounds, expected = SCRIPTS[script]
    steps = steps_of(*rounds)
    assert told_by_stream(dialect, streamed(spec_of(dialect), steps)) == expected
    assert told_whole(dialect, whole(spec_of(dialect), steps_of(*rounds))) == expected


@pytest.mark.parametrize("script", ["words", "calls", "filtered"])
def test_responses_follow_their_grammar(script: str) -> None:
    response_of(streamed(spec_of("responses"), steps_of(*SCRIPTS[script][0])))


class TestCallsOfOurs:
    def test_responses_show_them_where_they_were(self) -> None:
        results = [ToolResult("sunny"), ToolResult("Error: no dice", "failed")]
        steps = steps_of(LOOKS, SUNNY, results=results)
        *_, last = events_of(streamed(spec_of("responses"), steps))
        for response in (last["response"], whole(spec_of("responses"), steps)):
            kinds = [item["type"] for item in response["output"]]
            assert kinds == ["reasoning", "message", "mcp_call", "mcp_call", "message"]
            find, roll = response["output"][2:4]
            assert (find["server_label"], find["name"], find["arguments"]) == ("web", "find", '{"q":1}')
            assert (find["status"], find["output"]) == ("completed", "sunny")
            assert (roll["status"], roll["server_label"]) == ("failed", "character/ada")

    @pytest.mark.parametrize("dialect", ["chat", "messages"])
    def test_others_see_nothing_of_them(self, dialect: str) -> None:
        steps = steps_of(LOOKS, SUNNY)
        for data in (streamed(spec_of(dialect), steps), orjson.dumps(whole(spec_of(dialect), steps))):
            for trace in (b"find", b"roll", b"found", b"tool_use", b"tool_calls"):
                assert trace not in data


class TestChat:
    def test_its_chunks_have_the_first_rounds_envelope(self) -> None:
        chunks = chunks_of(streamed(spec_of("chat"), steps_of(LOOKS, SUNNY)))
        for one in chunks:
            assert {name: one[name] for name in ENVELOPE} == ENVELOPE
        *says, last = chunks
        assert (last["choices"], last["usage"]["total_tokens"]) == ([], 10)
        assert all(one["usage"] is None for one in says)
        roles = [one for one in says if one["choices"][0]["delta"].get("role")]
        assert roles == says[:1]

    def test_a_client_that_asks_for_no_count_gets_none(self) -> None:
        chunks = chunks_of(streamed(spec_of("chat", include_usage=False), steps_of(LOOKS, SUNNY)))
        assert not any("usage" in one for one in chunks)
        assert all(one["choices"] for one in chunks)

    def test_the_model_is_the_one_that_the_client_named(self) -> None:
        spec = spec_of("chat", model="character/ada")
        chunks = chunks_of(streamed(spec, steps_of(WORDS)))
        assert {one["model"] for one in chunks} == {"character/ada"}
        assert whole(spec, steps_of(WORDS))["model"] == "character/ada"

    def test_a_backend_that_doesnt_count_leaves_it_out(self) -> None:
        steps = steps_of(chunk(content="Hi") + chunk("stop"))
        *_, last = chunks_of(streamed(spec_of("chat"), steps))
        assert last["choices"][0]["finish_reason"] == "stop"
        assert "usage" not in whole(spec_of("chat"), steps)

    def test_a_legacy_client_gets_its_call_in_the_old_form(self) -> None:
        spec = planned(functions=[{"name": "get_weather", "parameters": {"type": "object"}}]).spec
        one = chunk(tool_calls=[call(0, "get_weather", "{}", "b")]) + chunk("tool_calls")
        steps = steps_of(LOOKS, one)
        [choice] = whole(spec, steps)["choices"]
        assert choice["message"]["function_call"] == {"name": "get_weather", "arguments": "{}"}
        assert choice["finish_reason"] == "function_call"
        *_, last = chunks_of(streamed(spec, steps))
        assert last["choices"][0]["finish_reason"] == "function_call"

    def test_thoughts_may_have_their_older_name_too(self) -> None:
        spec = spec_of("chat", reasoning_content=True)
        [choice] = whole(spec, steps_of(LOOKS, SUNNY))["choices"]
        assert choice["message"]["reasoning_content"] == choice["message"]["reasoning"] == "Hm. "
        thoughts = [one["choices"][0]["delta"] for one in chunks_of(streamed(spec, steps_of(LOOKS, SUNNY)))[:-1]]
        assert [one["reasoning_content"] for one in thoughts if "reasoning" in one] == ["Hm. "]

    def test_what_else_a_backend_says_stays(self) -> None:
        said = event({**ENVELOPE, "choices": [{"index": 0, "delta": {"refusal": "No"}, "finish_reason": None}]})
        last = event({**ENVELOPE, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": 7}]})
        steps = steps_of(said + said + last)
        [choice] = whole(spec_of("chat"), steps)["choices"]
        assert (choice["message"]["refusal"], choice["stop_reason"]) == ("NoNo", 7)
        first, second, end, _ = chunks_of(streamed(spec_of("chat", include_usage=True), [*steps[:-1], _with_usage()]))
        assert [one["choices"][0]["delta"] for one in (first, second)] == [{"refusal": "No"}] * 2
        assert end["choices"][0]["stop_reason"] == 7

    def test_an_answer_of_nothing_is_one(self) -> None:
        [choice] = whole(spec_of("chat"), steps_of(chunk("stop")))["choices"]
        assert choice["message"] == {"role": "assistant", "content": None}
        assert joined(streamed(spec_of("chat"), steps_of(chunk("stop"))))["finish_reason"] == "stop"


def _with_usage() -> Step:
    return Step(end=Complete({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}))


class TestTrouble:
    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_a_stream_can_fail_at_any_moment(self, dialect: str) -> None:
        error = ApiError(504, "It took too long.", "server_error", code="run_timeout")
        steps = steps_of(LOOKS, CALLS)
        for said in range(len(steps)):
            data = streamed(spec_of(dialect), [*steps[:said], Step(end=error)])
            assert b"It took too long." in data
            if dialect == "messages":
                *_, last = message_events(data)
                assert last["type"] == "error"
            elif dialect == "responses":
                *_, last = events_of(data)
                assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
            else:
                *_, last = chunks_of(data)
                assert last["error"]["code"] == 504

    @pytest.mark.parametrize("dialect", DIALECTS)
    def test_a_tool_that_runs_for_long_keeps_the_connection_alive(self, dialect: str) -> None:
        answer = StreamedRun(spec_of(dialect), ENVELOPE)
        out = b""
        for step in steps_of(LOOKS, SUNNY):
            out += answer.say(step.out) + answer.keep_alive()
            if isinstance(step.end, Complete):
                break
        data = out.removesuffix(answer.keep_alive()) + answer.end({"prompt_tokens": 6, "completion_tokens": 4})
        expected = Told("I look.\n\nSunny.", "Hm. ", [], "stop", (6, 4))
        if dialect == "chat":
            assert b": running\n\n" in data
            data = data.replace(b": running\n\n", b"")
        assert told_by_stream(dialect, data) == expected

    @pytest.mark.parametrize("dialect", ["messages", "responses"])
    def test_what_a_dialect_has_no_words_for_is_an_error(self, dialect: str) -> None:
        steps = steps_of(chunk(content="Hi") + chunk("whatever"))
        with pytest.raises(ApiError, match="unknown finish_reason"):
            streamed(spec_of(dialect), steps)
        with pytest.raises(ApiError, match="unknown finish_reason"):
            whole(spec_of(dialect), steps)

    def test_in_a_whole_message_a_call_has_an_object(self) -> None:
        steps = steps_of(chunk(tool_calls=[call(0, "get_weather", "[1]", "b")]) + chunk("tool_calls"))
        with pytest.raises(ApiError, match="no JSON object"):
            whole(spec_of("messages"), steps)

    def test_an_answer_cut_off_between_rounds_has_its_end(self) -> None:
        """All that it may have was spent on calls."""
        cut = Said(0, [], {}, {"index": 0, "delta": {}, "finish_reason": "length"}, frozenset(), "length")
        steps = [*steps_of(LOOKS), Step(out=[cut], end=Complete({"prompt_tokens": 3, "completion_tokens": 2}))]
        for dialect in DIALECTS:
            told = Told("I look.", "Hm. ", [], "length", (3, 2))
            assert told_by_stream(dialect, streamed(spec_of(dialect), steps)) == told
            assert told_whole(dialect, whole(spec_of(dialect), steps)) == told
