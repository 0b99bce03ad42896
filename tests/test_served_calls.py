"""Calls of tools that run on our side: what clients of each dialect see of them, and what models are shown of them
again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any

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
from tests.test_responses import asked, message, prepared, shown

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


def every_cut(events: Sequence[SaidEvent]) -> Iterator[list[Sequence[SaidEvent]]]:
    """Every one into at most four pieces, and the one into as many as there are events."""
    places = range(1, len(events))
    for cuts in (*(chosen for number in range(4) for chosen in combinations(places, number)), tuple(places)):
        yield [events[start:end] for start, end in pairwise((0, *cuts, len(events)))]


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


ASKED = message("user", asked("Weather?"))
ITEM: Json = {
    "type": "mcp_call",
    "id": "mcp_1",
    "server_label": "web",
    "name": "search",
    "arguments": '{"q":"weather"}',
    "output": "sunny",
    "error": None,
    "approval_request_id": None,
    "status": "completed",
}


def called(call_id: str, name: str, arguments: str) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: str, content: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


class TestRequests:
    def test_an_answer_comes_back_as_the_model_made_it(self) -> None:
        output = whole("responses", EVENTS)["output"]
        *_, last = events_of(streamed("responses", singly(EVENTS)))
        for items in (output, last["response"]["output"]):
            ids = [item["id"] for item in items if item["type"] == "mcp_call"]
            done = {"type": "function_call_output", "call_id": "call_1", "output": "rain"}
            assert shown(ASKED, *items, done)[1:] == [
                {
                    "role": "assistant",
                    "reasoning": "Hm.",
                    "content": "I look.",
                    "tool_calls": [called(ids[0], "web__search", '{"q":"weather"}')],
                },
                result(ids[0], "sunny"),
                {"role": "assistant", "content": None, "tool_calls": [called(ids[1], "dice", "{}")]},
                result(ids[1], "Error: no dice"),
                {
                    "role": "assistant",
                    "content": "It is sunny.",
                    "tool_calls": [called("call_1", "get_weather", '{"city":"Paris"}')],
                },
                result("call_1", "rain"),
            ]
        assert prepared(input=[ASKED, *output]).dropped == ()

    def test_fields_that_are_null_may_be_left_out(self) -> None:
        items = [{key: value for key, value in item.items() if value is not None} for item in (ITEM,)]
        assert shown(ASKED, *items) == shown(ASKED, ITEM)

    def test_results_stand_behind_all_calls_of_one_message(self) -> None:
        first, second = (
            {"type": "function_call", "call_id": call_id, "name": "get_weather", "arguments": "{}"}
            for call_id in ("c1", "c2")
        )
        done = [{"type": "function_call_output", "call_id": call_id, "output": "rain"} for call_id in ("c1", "c2")]
        _, answer, *results = shown(ASKED, first, ITEM, second, *done)
        assert [call["id"] for call in answer["tool_calls"]] == ["c1", "mcp_1", "c2"]
        assert [each["tool_call_id"] for each in results] == ["c1", "mcp_1", "c2"]

    @pytest.mark.parametrize(
        ("error", "words"),
        [
            ("no dice", "no dice"),
            ({"type": "http_error", "code": 503, "message": "gone"}, "gone"),
            ({"type": "mcp_protocol_error", "code": -32602, "message": "unknown tool"}, "unknown tool"),
            ({"type": "mcp_tool_execution_error", "content": "no dice"}, "no dice"),
            ({"type": "mcp_tool_execution_error", "content": [{"text": "a"}, {"text": "b"}]}, "a\nb"),
            ({"type": "mcp_tool_execution_error", "content": [{"type": "image"}]}, '[{"type":"image"}]'),
            ({"type": "mcp_tool_execution_error", "content": {"why": 1}}, '{"why":1}'),
        ],
    )
    def test_the_model_is_shown_each_form_of_an_error(self, error: Any, words: str) -> None:
        failed = {**ITEM, "output": None, "error": error, "status": "failed"}
        assert shown(ASKED, failed)[-1] == result("mcp_1", words)

    def test_one_that_never_ended_has_no_result(self) -> None:
        running = {**ITEM, "output": None, "status": "in_progress"}
        _, answer = shown(ASKED, running)
        assert answer["tool_calls"] == [called("mcp_1", "web__search", '{"q":"weather"}')]

    def test_arguments_that_are_no_json_are_repaired(self) -> None:
        request = prepared(input=[ASKED, {**ITEM, "arguments": '{"q": "wea'}])
        assert request.repaired == 1

    @pytest.mark.parametrize(
        ("changes", "place"),
        [
            ({"id": None}, "input[1].id"),
            ({"id": ""}, "input[1].id"),
            ({"server_label": None}, "input[1].server_label"),
            ({"server_label": 5}, "input[1].server_label"),
            ({"name": ""}, "input[1].name"),
            ({"arguments": None}, "input[1].arguments"),
            ({"arguments": {}}, "input[1].arguments"),
            ({"output": ["sunny"]}, "input[1].output"),
            ({"error": 5}, "input[1].error"),
            ({"error": {}}, "input[1].error.type"),
            ({"error": {"type": "other"}}, "input[1].error.type"),
            ({"error": {"type": "http_error"}}, "input[1].error.message"),
            ({"error": {"type": "mcp_protocol_error", "message": 5}}, "input[1].error.message"),
            ({"error": {"type": "mcp_tool_execution_error"}}, "input[1].error.content"),
        ],
    )
    def test_a_malformed_one_is_told_with_its_place(self, changes: Json, place: str) -> None:
        with pytest.raises(ApiError) as caught:
            prepared(input=[ASKED, {**ITEM, **changes}])
        assert (caught.value.status, caught.value.param) == (400, place)
        assert f"'{place}'" in caught.value.message

    def test_arguments_are_refused_where_the_model_has_them_refused(self) -> None:
        with pytest.raises(ApiError) as caught:
            prepared(model="fussy", input=[ASKED, {**ITEM, "arguments": "{"}])
        assert (caught.value.param, caught.value.code) == ("input[1].arguments", "malformed_tool_arguments")

    def test_a_clients_result_belongs_to_none_of_them(self) -> None:
        done = {"type": "function_call_output", "call_id": "mcp_1", "output": "rain"}
        with pytest.raises(ApiError) as caught:
            prepared(input=[ASKED, ITEM, done])
        assert caught.value.param == "input[2].call_id"

    def test_what_else_there_is_of_mcp_is_left_out_and_named(self) -> None:
        items: list[Json] = [
            {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "web", "tools": []},
            {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "web", "name": "x", "arguments": "{}"},
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
        ]
        assert prepared(input=[ASKED, *items]).dropped == tuple(sorted(f"input.{item['type']}" for item in items))
