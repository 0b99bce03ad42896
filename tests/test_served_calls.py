"""Calls of tools that run on our side: what clients of each dialect see of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

import orjson
import pytest
from openai.types.responses import (
    ResponseMcpCallArgumentsDeltaEvent,
    ResponseMcpCallArgumentsDoneEvent,
    ResponseMcpCallCompletedEvent,
    ResponseMcpCallFailedEvent,
    ResponseMcpCallInProgressEvent,
)
from openai.types.responses.response_output_item import McpCall
from pydantic import BaseModel

from extproc.contract.errors import ApiError
from extproc.surfaces.table import SURFACES
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Reasoning, Text
from extproc.turn.answer import AnswerWriter
from extproc.turn.output import Said, SaidEvent
from extproc.turn.served import ServedCall, ServedResult
from extproc.turn.turn import Dialect
from extproc.turn.usage import StreamCount
from tests.messages import message_of, whole_message
from tests.responses import Json, events_of
from tests.test_answer import joined, plan
from tests.test_responses import prepared

SEARCH = ServedCall("a", "web", "search", '{"q":"weather"}')
DICE = ServedCall("b", "character/ada", "dice", "{}")
FOUND = ServedResult("a", "sunny", failed=False)
BROKEN = ServedResult("b", "Error: no dice", failed=True)
EVENTS: list[SaidEvent] = [
    Reasoning("Hm."),
    Text("I "),
    Text("look."),
    SEARCH,
    DICE,
    BROKEN,
    FOUND,
    Text("It is "),
    Text("sunny."),
    CallStart(0, "get_weather", "call_1"),
    ArgumentsDelta(0, '{"city":'),
    ArgumentsDelta(0, '"Paris"}'),
    CallEnd(0),
]
OWN = [event for event in EVENTS if not isinstance(event, ServedCall | ServedResult)]
DIALECTS: tuple[Dialect, ...] = ("chat", "messages", "responses")
_ID = re.compile(rb'"(msg|rs|fc|mcp|resp)_[0-9a-f]+"')
_PUBLISHED: dict[str, type[BaseModel]] = {
    "response.mcp_call.in_progress": ResponseMcpCallInProgressEvent,
    "response.mcp_call_arguments.delta": ResponseMcpCallArgumentsDeltaEvent,
    "response.mcp_call_arguments.done": ResponseMcpCallArgumentsDoneEvent,
    "response.mcp_call.completed": ResponseMcpCallCompletedEvent,
    "response.mcp_call.failed": ResponseMcpCallFailedEvent,
}


def writer(dialect: Dialect) -> AnswerWriter:
    asked_for = prepared().answer
    assert asked_for is not None  # what an answer says of its request is there
    return SURFACES[dialect].writer(asked_for if dialect == "responses" else plan(dialect=dialect, model="qwen"))


def every_cut(events: Sequence[SaidEvent]) -> Iterator[list[list[SaidEvent]]]:
    for ends in product((False, True), repeat=len(events) - 1):
        cut = [[events[0]]]
        for event, new in zip(events[1:], ends, strict=True):
            if new:
                cut.append([event])
            else:
                cut[-1].append(event)
        yield cut


def said(events: Sequence[SaidEvent], finish_reason: str | None = None) -> Said:
    """As a backend's delta would be read that holds the text, and nothing else."""
    text = "".join(event.text for event in events if isinstance(event, Text))
    delta = {"content": text} if text else {}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return Said(0, list(events), delta, choice, frozenset({"content", "tool_calls"}), finish_reason)


def chunk(answer: AnswerWriter, one: Said) -> bytes:
    envelope = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "choices": [one.choice]}
    return answer.chunk(envelope, orjson.dumps(envelope), [one])


def streamed(dialect: Dialect, pieces: Sequence[Sequence[SaidEvent]], finish_reason: str = "tool_calls") -> bytes:
    answer = writer(dialect)
    out = b"".join(chunk(answer, said(piece)) for piece in pieces) + chunk(answer, said([], finish_reason))
    return out + answer.end(StreamCount(None, wanted=False))


def whole(dialect: Dialect, events: Sequence[SaidEvent], finish_reason: str = "tool_calls") -> Json:
    one = said(events, finish_reason)
    completion = {"id": "chatcmpl-1", "model": "qwen", "created": 1, "choices": [one.choice]}
    one.choice["message"] = one.choice.pop("delta")
    body = writer(dialect).whole(orjson.dumps(completion), completion, [one], None)
    answer: Json = orjson.loads(body)
    return answer


def without_ids(data: bytes) -> bytes:
    return _ID.sub(rb'"\1"', data)


def singly(events: Sequence[SaidEvent]) -> list[list[SaidEvent]]:
    return [[event] for event in events]


def mcp_calls(events: list[Json]) -> list[Json]:
    """The events about them, checked field by field."""
    found = []
    for event in events:
        if event["type"].startswith("response.output_item.") and event["item"]["type"] == "mcp_call":
            McpCall.model_validate_json(orjson.dumps(event["item"]), strict=True, extra="forbid")
            found.append(event)
        elif event["type"].startswith("response.mcp_call"):
            _PUBLISHED[event["type"]].model_validate_json(orjson.dumps(event), strict=True, extra="forbid")
            found.append(event)
    return found


def told(events: list[Json], index: int) -> list[str]:
    """What the events about one output item are."""
    return [
        event["type"].removeprefix("response.")
        for event in events
        if event.get("output_index") == index and event["type"].startswith("response.")
    ]


class TestOtherDialects:
    """Their clients see nothing of it."""

    @pytest.mark.parametrize("dialect", ["chat", "messages"])
    def test_a_stream_is_as_if_no_tool_had_run(self, dialect: Dialect) -> None:
        assert without_ids(streamed(dialect, singly(EVENTS))) == without_ids(streamed(dialect, singly(OWN)))

    def test_so_are_messages_in_every_cut(self) -> None:
        expected = without_ids(streamed("messages", [OWN]))
        assert message_of(streamed("messages", [EVENTS]))["stop_reason"] == "tool_use"
        assert {without_ids(streamed("messages", cut)) for cut in every_cut(EVENTS)} == {expected}

    def test_so_are_chat_completions_in_every_cut(self) -> None:
        expected = joined(streamed("chat", [OWN]))
        assert (expected["content"], expected["finish_reason"]) == ("I look.It is sunny.", "tool_calls")
        for cut in every_cut(EVENTS):
            assert joined(streamed("chat", cut)) == expected

    @pytest.mark.parametrize("dialect", ["chat", "messages"])
    def test_a_piece_of_nothing_else_has_no_bytes(self, dialect: Dialect) -> None:
        answer = writer(dialect)
        chunk(answer, said([Text("Hi")]))
        for event in (SEARCH, FOUND):
            assert chunk(answer, said([event])) == b""

    def test_a_piece_with_a_text_has_that(self) -> None:
        assert chunk(writer("chat"), said([Text("Hi"), SEARCH])) == chunk(writer("chat"), said([Text("Hi")]))

    @pytest.mark.parametrize("dialect", ["chat", "messages"])
    def test_a_whole_answer_too(self, dialect: Dialect) -> None:
        shown, expected = (without_ids(orjson.dumps(whole(dialect, events))) for events in (EVENTS, OWN))
        if dialect == "messages":
            whole_message(shown.replace(b'"msg"', b'"msg_1"'))
        assert shown == expected

    def test_calls_of_these_tools_alone_are_no_reason_to_end(self) -> None:
        events: list[SaidEvent] = [SEARCH, FOUND, Text("Sunny.")]
        assert whole("chat", events, "stop") == whole("chat", [Text("Sunny.")], "stop")
        assert whole("messages", events, "stop")["stop_reason"] == "end_turn"
        assert joined(streamed("chat", singly(events), "stop"))["finish_reason"] == "stop"

    def test_a_whole_chat_completion_that_has_the_text_stays_as_it_is(self) -> None:
        one = said([SEARCH, FOUND, Text("Sunny.")], "stop")
        one.choice["message"] = one.choice.pop("delta")
        completion = {"model": "qwen", "choices": [one.choice]}
        assert writer("chat").whole(b"as it came", completion, [one], None) == b"as it came"


class TestResponses:
    def test_each_is_an_item_with_events_of_its_own(self) -> None:
        events = events_of(streamed("responses", singly(EVENTS)))
        kinds = [item["type"] for item in events[-1]["response"]["output"]]
        assert kinds == ["reasoning", "message", "mcp_call", "mcp_call", "message", "function_call"]
        begins = ["output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done"]
        assert told(events, 2) == [*begins, "mcp_call.completed", "output_item.done"]
        assert told(events, 3) == [*begins, "mcp_call.failed", "output_item.done"]
        # The text before them has ended before they begin.
        order = [(event["type"], event.get("output_index")) for event in events]
        assert order.index(("response.output_item.done", 1)) < order.index(("response.output_item.added", 2))
        added, *_ = mcp_calls(events)
        assert added["item"] == {
            "id": added["item"]["id"],
            "type": "mcp_call",
            "status": "in_progress",
            "approval_request_id": None,
            "server_label": "web",
            "name": "search",
            "arguments": "",
            "output": None,
            "error": None,
        }
        assert added["item"]["id"].startswith("mcp_")

    def test_every_event_has_its_items_place_and_id(self) -> None:
        events = mcp_calls(events_of(streamed("responses", singly(EVENTS))))
        ids = {event["output_index"]: event["item"]["id"] for event in events if "item" in event}
        assert sorted(ids) == [2, 3]
        for event in events:
            assert ids[event["output_index"]] == (event["item"]["id"] if "item" in event else event["item_id"])

    def test_a_cut_changes_nothing(self) -> None:
        expected = without_ids(streamed("responses", [EVENTS]))
        assert {without_ids(streamed("responses", cut)) for cut in every_cut(EVENTS)} == {expected}

    def test_a_whole_answer_is_what_a_stream_builds(self) -> None:
        *_, last = events_of(streamed("responses", singly(EVENTS)))
        response = whole("responses", EVENTS)
        output, streams = (without_ids(orjson.dumps(each["output"])) for each in (response, last["response"]))
        assert output == streams
        search, dice = (item for item in response["output"] if item["type"] == "mcp_call")
        assert (search["status"], search["output"], search["error"]) == ("completed", "sunny", None)
        assert (search["server_label"], search["name"], search["arguments"]) == ("web", "search", '{"q":"weather"}')
        assert (dice["status"], dice["output"]) == ("failed", None)
        assert dice["error"] == {
            "type": "mcp_tool_execution_error",
            "content": [{"type": "text", "text": "Error: no dice"}],
        }
        for item in (search, dice):
            McpCall.model_validate_json(orjson.dumps(item), strict=True, extra="forbid")

    def test_what_the_model_says_meanwhile_has_its_own_place(self) -> None:
        begins: list[SaidEvent] = [SEARCH, Text("One "), DICE, CallStart(0, "get_weather", "call_1")]
        goes_on: list[SaidEvent] = [ArgumentsDelta(0, "{"), FOUND, ArgumentsDelta(0, "}"), BROKEN, CallEnd(0)]
        events = begins + goes_on
        seen = events_of(streamed("responses", singly(events)))
        mcp_calls(seen)
        kinds = [item["type"] for item in seen[-1]["response"]["output"]]
        assert kinds == ["mcp_call", "message", "mcp_call", "function_call"]
        assert seen[-1]["response"]["output"][3]["arguments"] == "{}"
        deltas = [event for event in seen if event["type"] == "response.function_call_arguments.delta"]
        assert [event["output_index"] for event in deltas] == [3, 3]
        assert told(seen, 0)[-2:] == ["mcp_call.completed", "output_item.done"]

    def test_a_call_may_begin_while_the_model_makes_one(self) -> None:
        events: list[SaidEvent] = [CallStart(0, "get_weather", "c"), SEARCH, ArgumentsDelta(0, "{}"), FOUND, CallEnd(0)]
        seen = events_of(streamed("responses", singly(events)))
        call, search = seen[-1]["response"]["output"]
        assert (call["type"], call["arguments"], call["status"]) == ("function_call", "{}", "completed")
        assert (search["type"], search["output"]) == ("mcp_call", "sunny")

    def test_the_same_id_may_come_again(self) -> None:
        output = whole("responses", [SEARCH, FOUND, SEARCH, FOUND, Text("Sunny.")], "stop")["output"]
        assert [item["type"] for item in output] == ["mcp_call", "mcp_call", "message"]
        assert output[0]["id"] != output[1]["id"]

    def test_without_arguments_there_is_no_piece_of_them(self) -> None:
        events = events_of(streamed("responses", [[ServedCall("a", "web", "now", ""), FOUND]], "stop"))
        assert "mcp_call_arguments.delta" not in told(events, 0)
        assert "mcp_call_arguments.done" in told(events, 0)

    def test_an_answer_doesnt_end_while_one_runs(self) -> None:
        answer = writer("responses")
        out = chunk(answer, said([Text("Hm.")])) + chunk(answer, said([SEARCH, DICE, FOUND], "stop"))
        with pytest.raises(ApiError, match="while a tool was running") as caught:
            answer.end(StreamCount(None, wanted=False))
        *events, last = events_of(out + answer.fail(caught.value))
        mcp_calls(events)
        assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
        statuses = [item["status"] for item in last["response"]["output"]]
        assert statuses == ["completed", "completed", "incomplete"]
        with pytest.raises(ApiError, match="while a tool was running"):
            whole("responses", [SEARCH], "stop")

    def test_an_error_leaves_it_incomplete(self) -> None:
        answer = writer("responses")
        out = chunk(answer, said([SEARCH])) + answer.fail(ApiError(502, "The tool's server is gone.", "server_error"))
        *_, last = events_of(out)
        [item] = last["response"]["output"]
        McpCall.model_validate_json(orjson.dumps(item), strict=True, extra="forbid")
        assert (item["status"], item["output"], item["error"]) == ("incomplete", None, None)

    def test_so_does_an_answer_that_was_cut_off(self) -> None:
        *_, done, last = events_of(streamed("responses", [[SEARCH]], "length"))
        mcp_calls([done])
        assert (done["type"], done["item"]["status"]) == ("response.output_item.done", "incomplete")
        assert last["type"] == "response.incomplete"
        assert whole("responses", [SEARCH], "length")["output"][0]["status"] == "incomplete"
