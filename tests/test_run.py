"""The machine of one run, by scripts of what it is told."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import pytest

from extproc.config import Runs
from extproc.contract.errors import ApiError
from extproc.runner.run import TIMED_OUT, TOO_LARGE, TOO_MANY_ROUNDS, Run
from extproc.runner.steps import (
    AskModel,
    CallTool,
    CancelAll,
    ClientGone,
    Complete,
    Effect,
    Gone,
    Input,
    ModelEnded,
    ModelSaid,
    Offered,
    Step,
    TimedOut,
    ToolEnded,
)
from extproc.runner.tools import ToolResult
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Reasoning, Text
from extproc.turn.output import Said, SaidEvent
from extproc.turn.served import ServedCall, ServedResult

Json: TypeAlias = dict[str, Any]

HI: Json = {"role": "user", "content": "Hi"}
FIND, OPEN, ROLL = Offered("web", "find"), Offered("web", "open", runs=False), Offered("character/ada", "roll")
OURS = {"web__find": FIND, "web__open": OPEN, "roll": ROLL}
READ = frozenset({"content", "tool_calls"})


def said(*events: SaidEvent, reason: str | None = None, **source: Any) -> Said:
    """As a delta is read that holds these events."""
    if text := "".join(event.text for event in events if isinstance(event, Text)):
        source.setdefault("content", text)
    choice = {"index": 0, "delta": source, "logprobs": None, "finish_reason": reason}
    return Said(0, list(events), source, choice, READ, reason)


def call(index: int, name: str, arguments: str = "{}", id_: str | None = "backends", *, whole: bool = True) -> Any:
    return CallStart(index, name, id_), ArgumentsDelta(index, arguments), CallEnd(index, whole)


def calls(*names: str) -> Said:
    """A round's last delta, with a call of each."""
    events = [event for index, name in enumerate(names) for event in call(index, name, f'{{"n":{index}}}')]
    return said(*events, reason="tool_calls", tool_calls=[{}])


def usage(prompt: int, completion: int, **details: Any) -> Json:
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total, **details}


class Played:
    """A run, and all that has come of it."""

    def __init__(
        self,
        messages: Sequence[Json] = (HI,),
        *,
        tokens: int | None = None,
        begun: bool = False,
        one_text: bool = False,
        **limits: Any,
    ) -> None:
        ids = (f"c{number}" for number in itertools.count())
        run = Run(messages, OURS, Runs(**limits), lambda: next(ids), tokens=tokens, begun=begun, one_text=one_text)
        self.run = run
        self.out: list[Said] = []
        self.effects: list[Effect] = []
        self.ends: list[Any] = []
        self._take(self.run.start())

    def _take(self, step: Step) -> None:
        self.out += step.out
        self.effects += step.effects
        if step.end is not None:
            self.ends.append(step.end)

    def tell(self, *told: Input) -> list[Effect]:
        """What is to be done for it."""
        before = len(self.effects)
        for one in told:
            self._take(self.run.receive(one))
        return self.effects[before:]

    def hear(self, *says: Said, counts: Json | None = None, error: ApiError | None = None) -> list[Effect]:
        """The round that is under way, whole."""
        number = self.run.rounds
        return self.tell(*(ModelSaid(number, one) for one in says), ModelEnded(number, counts, error))

    def answer(self, id_: str, text: str = "found", outcome: Any = "ok") -> list[Effect]:
        return self.tell(ToolEnded(id_, ToolResult(text, outcome)))

    @property
    def events(self) -> list[SaidEvent]:
        return [event for one in self.out for event in one.events]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Text))

    @property
    def reasons(self) -> list[str]:
        return [one.finish_reason for one in self.out if one.finish_reason is not None]

    @property
    def end(self) -> Any:
        [end] = self.ends
        return end

    @property
    def asked(self) -> AskModel:
        """The last round."""
        return [effect for effect in self.effects if isinstance(effect, AskModel)][-1]

    @property
    def called(self) -> list[CallTool]:
        return [effect for effect in self.effects if isinstance(effect, CallTool)]


DONE = said(Text("Done."), reason="stop")


class TestWordsAlone:
    def test_they_are_the_answer(self) -> None:
        played = Played()
        assert played.effects == [AskModel(1, [HI], None)]
        first = said(role="assistant", content="")
        words = [said(Text("Hel")), said(Text("lo"), reason="stop")]
        assert played.hear(first, *words, counts=usage(3, 2)) == []
        assert played.out == [first, *words]
        assert played.end == Complete(usage(3, 2))
        assert (played.run.rounds, played.run.ran, played.run.deferred) == (1, 0, [])

    def test_they_go_on_before_the_round_is_over(self) -> None:
        played = Played()
        played.tell(ModelSaid(1, said(Text("Hel"))))
        assert played.text == "Hel"
        assert not played.ends

    @pytest.mark.parametrize("reason", ["stop", "length", "content_filter", "whatever"])
    def test_whyever_they_end(self, reason: str) -> None:
        played = Played()
        played.hear(said(Text("Hi")), said(reason=reason))
        assert played.reasons == [reason]
        assert played.end == Complete(None)

    def test_what_only_the_backend_knows_stays(self) -> None:
        played = Played()
        played.hear(said(refusal="No."), said(reason="stop", audio={"id": "a"}))
        assert [one.source for one in played.out] == [{"refusal": "No."}, {"audio": {"id": "a"}}]
        assert all(one.choice["delta"] == one.source for one in played.out)

    def test_what_says_nothing_isnt_passed_on(self) -> None:
        played = Played()
        played.hear(said(content=""), said(content=None), said(), DONE)
        assert played.out == [DONE]

    def test_a_round_that_isnt_complete_is_an_error(self) -> None:
        played = Played()
        assert played.hear(said(Text("Hel"))) == [CancelAll()]
        assert isinstance(played.end, ApiError)
        assert played.end.status == 502

    def test_an_error_is_the_clients(self) -> None:
        error = ApiError(429, "Wait.", "requests", code="rate_limit_exceeded")
        played = Played()
        assert played.hear(error=error) == [CancelAll()]
        assert played.end is error
        played = Played()
        played.hear(DONE, error=error)  # the stream fails behind its finish reason
        assert played.end is error


class TestOneCall:
    def test_it_runs_and_the_model_goes_on(self) -> None:
        played = Played()
        assert played.hear(calls("web__find")) == [CallTool("c0", FIND, "web__find", '{"n":0}')]
        assert played.answer("c0") == [
            AskModel(
                2,
                [
                    HI,
                    {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [
                            {"id": "c0", "type": "function", "function": {"name": "web__find", "arguments": '{"n":0}'}}
                        ],
                    },
                    {"role": "tool", "tool_call_id": "c0", "content": "found"},
                ],
                None,
            )
        ]
        played.hear(DONE)
        assert played.events == [
            ServedCall("c0", "web", "find", '{"n":0}'),
            ServedResult("c0", "found", failed=False),
            Text("Done."),
        ]
        assert played.reasons == ["stop"]
        assert played.end == Complete(None)
        assert (played.run.rounds, played.run.ran) == (2, 1)

    def test_it_begins_when_the_round_is_over(self) -> None:
        played = Played()
        assert played.tell(ModelSaid(1, calls("web__find"))) == []
        assert played.out == []
        assert len(played.tell(ModelEnded(1))) == 1

    def test_a_failure_is_a_result(self) -> None:
        played = Played()
        played.hear(calls("web__find"))
        played.answer("c0", "Error: no net", "unavailable")
        assert played.asked.messages[-1]["content"] == "Error: no net"
        assert played.events[-1] == ServedResult("c0", "Error: no net", failed=True)

    @pytest.mark.parametrize("arguments", ["", "[1]", '{"n": 1', "{'n': 1}", "null", '{"n": NaN}'])
    def test_arguments_that_are_no_object_are_the_tools_matter(self, arguments: str) -> None:
        """A later round is shown an object in their place: no template can show anything else."""
        played = Played()
        played.hear(said(*call(0, "roll", arguments), reason="tool_calls"))
        assert played.called == [CallTool("c0", ROLL, "roll", arguments)]
        played.answer("c0", "Error: no object", "invalid_arguments")
        assert played.asked.messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"

    def test_a_result_is_one_that_can_be_sent(self) -> None:
        played = Played()
        played.hear(calls("roll"))
        played.answer("c0", "six \ud83d")
        assert played.asked.messages[-1]["content"] == "six ?"
        assert played.events[-1] == ServedResult("c0", "six ?", failed=False)

    def test_arguments_may_come_in_pieces(self) -> None:
        played = Played()
        played.hear(
            said(CallStart(0, "roll")),
            said(ArgumentsDelta(0, '{"n"')),
            said(ArgumentsDelta(0, ":1}")),
            said(CallEnd(0)),
            said(reason="tool_calls"),
        )
        assert played.called[0].arguments == '{"n":1}'
        assert played.events == [ServedCall("c0", "character/ada", "roll", '{"n":1}')]


class TestSeveral:
    def test_as_many_run_as_may_at_a_time(self) -> None:
        played = Played(calls_at_once=2)
        begun = played.hear(calls("web__find", "roll", "roll", "web__find"))
        assert [effect.id for effect in begun if isinstance(effect, CallTool)] == ["c0", "c1"]
        assert [effect.id for effect in played.answer("c1") if isinstance(effect, CallTool)] == ["c2"]
        assert [effect.id for effect in played.answer("c2") if isinstance(effect, CallTool)] == ["c3"]
        assert played.answer("c3") == []
        assert isinstance(played.answer("c0")[0], AskModel)
        assert played.run.ran == 4

    def test_results_are_in_the_order_of_the_calls(self) -> None:
        for order in itertools.permutations(range(4)):
            played = Played()
            played.hear(calls("web__find", "roll", "roll", "web__find"))
            for number in order:
                played.answer(f"c{number}", f"result {number}")
            assert [(message["tool_call_id"], message["content"]) for message in played.asked.messages[2:]] == [
                (f"c{number}", f"result {number}") for number in range(4)
            ]
            # The client sees them as they come.
            results = [event.id for event in played.events if isinstance(event, ServedResult)]
            assert results == [f"c{number}" for number in order]

    def test_a_result_is_shown_before_the_call_that_takes_its_place(self) -> None:
        played = Played(calls_at_once=1)
        played.hear(calls("roll", "web__find"))
        played.answer("c0", "6")
        assert played.events[-2:] == [
            ServedResult("c0", "6", failed=False),
            ServedCall("c1", "web", "find", '{"n":1}'),
        ]

    def test_ids_are_the_runs_own(self) -> None:
        """A backend may number its calls anew in each round, or all of them alike."""
        played = Played()
        for _ in range(2):
            played.hear(said(*call(0, "roll", id_="x"), *call(1, "roll", id_="x"), reason="tool_calls"))
            for running in played.called[-2:]:
                played.answer(running.id)
        ids = [one["id"] for message in played.asked.messages for one in message.get("tool_calls", ())]
        assert ids == ["c0", "c1", "c2", "c3"]
        assert [m["tool_call_id"] for m in played.asked.messages if m["role"] == "tool"] == ids


class TestClientsCalls:
    def test_they_end_the_answer_as_they_are(self) -> None:
        played = Played()
        given = calls("get_weather", "get_time")
        played.hear(given, counts=usage(1, 1))
        assert played.events == given.events
        assert played.called == []
        assert played.reasons == ["tool_calls"]
        assert played.end == Complete(usage(1, 1))

    @pytest.mark.parametrize("name", ["get_weather", "nobody_offers_this", "web__open", "find"])
    def test_every_call_is_theirs_that_isnt_ours_to_run(self, name: str) -> None:
        played = Played()
        played.hear(calls(name))
        assert [event.name for event in played.events if isinstance(event, CallStart)] == [name]
        assert (played.called, played.run.deferred) == ([], [])

    @pytest.mark.parametrize("theirs", ["get_weather", "web__open"])
    def test_beside_ours_they_alone_are_called(self, theirs: str) -> None:
        played = Played()
        names = ["roll", theirs, "web__find", "get_time", "roll"]
        pieces = calls(*names).events
        played.hear(*(said(piece, tool_calls=[{}]) for piece in pieces), said(reason="tool_calls"))
        assert played.events == [
            CallStart(0, theirs, "backends"),
            ArgumentsDelta(0, '{"n":1}'),
            CallEnd(0),
            CallStart(1, "get_time", "backends"),
            ArgumentsDelta(1, '{"n":3}'),
            CallEnd(1),
        ]
        assert played.called == []
        assert played.run.deferred == ["roll", "web__find", "roll"]
        assert played.reasons == ["tool_calls"]
        assert isinstance(played.end, Complete)

    def test_none_is_passed_on_unread(self) -> None:
        played = Played()
        played.hear(said(*call(0, "get_weather"), tool_calls=[{"function": {"name": "get_weather"}}]), calls("roll"))
        assert not any("tool_calls" in one.source for one in played.out)

    def test_they_may_come_in_a_later_round(self) -> None:
        played = Played()
        played.hear(calls("roll"))
        played.answer("c0")
        played.hear(calls("get_weather"))
        assert [event.index for event in played.events if isinstance(event, CallStart)] == [0]
        assert isinstance(played.end, Complete)


class TestCutOff:
    @pytest.mark.parametrize("reason", ["length", "content_filter"])
    def test_a_call_of_ours_never_runs(self, reason: str) -> None:
        played = Played()
        half = call(1, "roll", '{"n', whole=False)
        played.hear(said(Text("I roll."), *call(0, "roll"), *half, reason=reason))
        assert played.called == []
        assert (played.events, played.reasons) == ([Text("I roll.")], [reason])
        assert isinstance(played.end, Complete)
        assert played.run.deferred == []

    def test_the_clients_goes_on_as_far_as_it_came(self) -> None:
        played = Played()
        played.hear(said(*call(0, "roll"), *call(1, "get_weather", '{"n', whole=False), reason="length"))
        assert played.events == [
            CallStart(0, "get_weather", "backends"),
            ArgumentsDelta(0, '{"n'),
            CallEnd(0, whole=False),
        ]
        assert played.called == []


class TestTexts:
    @pytest.mark.parametrize(
        ("first", "then", "whole"),
        [
            ("I look.", "Sunny.", "I look.\n\nSunny."),
            ("I look.\n", "Sunny.", "I look.\n\nSunny."),
            ("I look.\n\n", "Sunny.", "I look.\n\nSunny."),
            ("I look. ", "Sunny.", "I look. \n\nSunny."),
            ("I look.", "\nSunny.", "I look.\n\nSunny."),
            ("I look.\n", "\nSunny.", "I look.\n\nSunny."),
            ("I look.\n\n", "\nSunny.", "I look.\n\n\nSunny."),
            ("I look.", " Sunny.", "I look.\n\n Sunny."),
            ("\n", "Sunny.", "\n\nSunny."),
        ],
    )
    def test_those_of_two_rounds_have_a_blank_line_between_them(self, first: str, then: str, whole: str) -> None:
        for cut in (False, True):  # character by character too
            played = Played()
            played.hear(*(said(Text(piece)) for piece in (first if cut else [first])), calls("roll"))
            played.answer("c0")
            played.hear(*(said(Text(piece)) for piece in (then if cut else [then])), said(reason="stop"))
            assert played.text == whole
            assert {one.source.get("content") for one in played.out} <= {None, *first, *then, first, then}

    def test_one_alone_has_none(self) -> None:
        played = Played()
        played.hear(calls("roll"))
        played.answer("c0")
        played.hear(DONE)
        assert played.text == "Done."

    def test_a_round_between_them_that_says_nothing_changes_nothing(self) -> None:
        played = Played()
        played.hear(said(Text("One.")), calls("roll"))
        played.answer("c0")
        played.hear(calls("roll"))
        played.answer("c1")
        played.hear(said(Text("Two.")), calls("roll"))
        played.answer("c2")
        played.hear(DONE)
        assert played.text == "One.\n\nTwo.\n\nDone."
        assert [m["content"] for m in played.asked.messages if m["role"] == "assistant"] == ["One.", None, "Two."]

    def test_there_is_one_role_and_one_finish_reason(self) -> None:
        played = Played()
        for number in range(3):
            played.hear(said(role="assistant", content=""), said(Text("Hm."), role="assistant"), calls("roll"))
            played.answer(f"c{number}")
        played.hear(said(role="assistant", content=""), DONE)
        assert [one.source["role"] for one in played.out if "role" in one.source] == ["assistant"]
        assert "role" in played.out[0].source
        assert played.reasons == ["stop"]
        assert [one.choice["finish_reason"] for one in played.out][-1] == "stop"
        assert {one.choice["finish_reason"] for one in played.out[:-1]} == {None}

    def test_what_comes_behind_a_finish_reason_is_nothing(self) -> None:
        played = Played()
        played.hear(DONE, said(Text("More.")), said(reason="stop"), calls("roll"))
        assert (played.text, played.reasons, played.called) == ("Done.", ["stop"], [])

    def test_thoughts_are_the_models_own_in_the_next_round(self) -> None:
        played = Played()
        played.hear(said(Reasoning("I ")), said(Reasoning("look.")), said(Text("A moment.")), calls("roll"))
        played.answer("c0")
        [_, made, _] = played.asked.messages
        assert (made["reasoning"], made["content"]) == ("I look.", "A moment.")
        played.hear(said(Reasoning("Good.")), calls("roll"))
        played.answer("c1")
        assert [m.get("reasoning") for m in played.asked.messages if m["role"] == "assistant"] == ["I look.", "Good."]
        played.hear(DONE)
        assert [event.text for event in played.events if isinstance(event, Reasoning)] == ["I ", "look.", "Good."]


class TestBegunAnswers:
    def test_the_model_goes_on_with_what_is_there(self) -> None:
        played = Played([HI, {"role": "assistant", "content": "Well, "}], begun=True)
        assert [m["content"] for m in played.asked.messages] == ["Hi", "Well, "]
        played.hear(said(Text("I look.")), calls("roll"))
        played.answer("c0")
        assert [m["role"] for m in played.asked.messages] == ["user", "assistant", "tool"]
        assert played.asked.messages[1]["content"] == "Well, I look."
        played.hear(said(Text("Again.")), calls("roll"))
        played.answer("c1")
        assert [m["content"] for m in played.asked.messages if m["role"] == "assistant"] == ["Well, I look.", "Again."]
        played.hear(DONE)
        assert played.text == "I look.\n\nAgain.\n\nDone."

    def test_its_messages_stay_the_clients(self) -> None:
        messages = [HI, {"role": "assistant", "content": "Well, "}]
        played = Played(messages, begun=True)
        played.hear(calls("roll"))
        played.answer("c0")
        assert messages == [HI, {"role": "assistant", "content": "Well, "}]
        assert played.asked.messages[1]["content"] == "Well, "


class TestLimits:
    def test_of_rounds(self) -> None:
        played = Played(rounds=2)
        played.hear(calls("roll"))
        played.answer("c0")
        assert played.hear(said(Text("Again.")), calls("roll")) == [CancelAll()]
        assert (played.end.status, played.end.code) == (502, TOO_MANY_ROUNDS)
        assert len(played.called) == 1

    def test_the_last_round_may_answer(self) -> None:
        played = Played(rounds=2)
        played.hear(calls("roll"))
        played.answer("c0")
        played.hear(DONE)
        assert isinstance(played.end, Complete)

    def test_of_bytes_in_what_the_model_wrote(self) -> None:
        played = Played(retained_bytes=1024)
        arguments = f'{{"n":"{"x" * 1020}"}}'
        assert played.hear(said(*call(0, "roll", arguments), reason="tool_calls")) == [CancelAll()]
        assert (played.end.status, played.end.code) == (502, TOO_LARGE)
        assert played.called == []

    def test_of_bytes_in_results(self) -> None:
        played = Played(retained_bytes=1024)
        played.hear(calls("roll", "roll", "roll"))
        assert played.answer("c0", "x" * 800) == []
        assert played.answer("c1", "x" * 800) == [CancelAll()]
        assert played.end.code == TOO_LARGE
        assert played.answer("c2") == []  # whoever is late

    def test_bytes_are_bytes(self) -> None:
        played = Played(retained_bytes=1024)
        played.hear(calls("roll"))
        played.answer("c0", "é" * 600)
        assert played.end.code == TOO_LARGE

    def test_words_of_the_last_round_are_not_retained(self) -> None:
        played = Played(retained_bytes=1024)
        played.hear(said(Text("x" * 5000), reason="stop"))
        assert isinstance(played.end, Complete)

    def test_of_seconds(self) -> None:
        played = Played(seconds=2.5)
        played.hear(calls("roll"))
        assert played.tell(TimedOut()) == [CancelAll()]
        assert (played.end.status, played.end.code) == (504, TIMED_OUT)
        assert "2.5 seconds" in played.end.message


class TestOneText:
    """Where the client has asked for JSON, words beside calls are no part of the answer."""

    def test_the_last_rounds_alone_is_the_answer(self) -> None:
        played = Played(one_text=True)
        played.hear(said(Text("I roll.")), calls("roll"))
        assert played.text == ""
        played.answer("c0")
        assert played.asked.messages[-2]["content"] == "I roll."
        played.hear(said(Text("{}")), DONE)
        assert played.text.startswith("{}")

    def test_words_before_a_call_of_the_clients_are_kept(self) -> None:
        played = Played(one_text=True)
        played.hear(said(Text("I look.")), calls("look_at_theirs"))
        assert played.text == "I look."


class TestTokens:
    def test_of_the_prompts_only_the_last_may_count(self) -> None:
        played = Played(usage="last_prompt")
        played.hear(calls("roll"), counts=usage(500, 30, prompt_tokens_details={"cached_tokens": 7}))
        played.answer("c0")
        played.hear(DONE, counts=usage(560, 10, prompt_tokens_details={"cached_tokens": 512}))
        assert played.end == Complete(usage(560, 40, prompt_tokens_details={"cached_tokens": 512}))

    def test_what_a_round_took_the_next_one_hasnt(self) -> None:
        played = Played(tokens=100)
        assert played.asked.tokens == 100
        for number, left in enumerate([70, 40, 10]):
            played.hear(calls("roll"), counts=usage(500, 30))
            played.answer(f"c{number}")
            assert played.asked.tokens == left
        played.hear(DONE, counts=usage(500, 10))
        assert played.end == Complete(usage(2000, 100))

    @pytest.mark.parametrize("spent", [100, 130])
    def test_where_nothing_is_left_the_answer_is_cut_off(self, spent: int) -> None:
        played = Played(tokens=100)
        played.hear(said(Text("I roll.")), calls("roll", "roll"), counts=usage(5, spent))
        assert played.answer("c1") == []
        assert played.answer("c0") == []
        assert (played.text, played.reasons) == ("I roll.", ["length"])
        assert isinstance(played.events[-1], ServedResult)
        assert played.out[-1].choice["finish_reason"] == "length"
        assert played.end == Complete(usage(5, spent))

    def test_a_backend_that_doesnt_count_takes_nothing(self) -> None:
        played = Played(tokens=100)
        played.hear(calls("roll"))
        played.answer("c0")
        assert played.asked.tokens == 100


class TestUsage:
    def test_it_is_the_sum_with_its_details(self) -> None:
        played = Played()
        first = usage(10, 5, prompt_tokens_details={"cached_tokens": 4, "audio_tokens": 1})
        played.hear(calls("roll"), counts=first)
        played.answer("c0")
        second = usage(20, 6, prompt_tokens_details={"cached_tokens": 8}, completion_tokens_details=None)
        played.hear(calls("roll"), counts=second)
        played.answer("c1")
        played.hear(DONE, counts=usage(30, 7, completion_tokens_details={"reasoning_tokens": 3}))
        assert played.end.usage == played.run.usage
        assert played.end.usage == usage(
            60,
            18,
            prompt_tokens_details={"cached_tokens": 12, "audio_tokens": 1},
            completion_tokens_details={"reasoning_tokens": 3},
        )
        assert first == usage(10, 5, prompt_tokens_details={"cached_tokens": 4, "audio_tokens": 1})

    def test_a_round_without_one_adds_nothing(self) -> None:
        played = Played()
        played.hear(calls("roll"), counts=usage(10, 5))
        played.answer("c0")
        played.hear(DONE)
        assert played.end == Complete(usage(10, 5))

    def test_an_estimate_of_one_round_is_one_of_all(self) -> None:
        played = Played()
        played.hear(calls("roll"), counts=usage(10, 5, estimated=True))
        played.answer("c0")
        played.hear(DONE, counts=usage(1, 1))
        assert played.end.usage == usage(11, 6, estimated=True)


class TestTheEnd:
    def test_a_client_that_leaves_ends_it(self) -> None:
        for told in ([], [ModelSaid(1, said(Text("Hi")))], [ModelSaid(1, calls("roll")), ModelEnded(1)]):
            played = Played()
            played.tell(*told)
            assert played.tell(ClientGone()) == [CancelAll()]
            assert played.end == Gone()

    @pytest.mark.parametrize(
        "last", [ClientGone(), TimedOut(), ModelEnded(1, None, ApiError(502, "It failed.", "server_error"))]
    )
    def test_nothing_counts_behind_it(self, last: Input) -> None:
        played = Played()
        played.tell(last)
        before = played.run.usage, len(played.out)
        late: list[Input] = [
            ModelSaid(1, said(Text("More."))),
            ModelSaid(1, calls("roll")),
            ModelEnded(1, usage(1, 1)),
            ToolEnded("c0", ToolResult("late")),
            TimedOut(),
            ClientGone(),
            last,
        ]
        assert [played.run.receive(told) for told in late] == [Step()] * len(late)
        assert (played.run.usage, len(played.out)) == before
        assert len(played.ends) == 1

    def test_late_results_of_cancelled_calls_are_nothing(self) -> None:
        played = Played()
        played.hear(calls("roll", "roll"))
        played.tell(TimedOut())
        assert played.run.receive(ToolEnded("c0", ToolResult("late"))) == Step()

    def test_a_complete_run_has_nothing_to_cancel(self) -> None:
        played = Played()
        assert played.hear(DONE) == []


class TestForeignInputs:
    def test_those_of_another_round_are_ignored(self) -> None:
        played = Played()
        for number in (0, 2):
            assert played.run.receive(ModelSaid(number, DONE)) == Step()
            assert played.run.receive(ModelEnded(number, usage(1, 1))) == Step()
        played.hear(calls("roll"))
        played.answer("c0")
        assert played.run.receive(ModelSaid(1, DONE)) == Step()
        assert played.run.receive(ModelEnded(1, usage(1, 1))) == Step()
        played.hear(DONE)
        assert played.end == Complete(None)

    def test_a_round_ends_once(self) -> None:
        played = Played(calls_at_once=1)
        played.hear(calls("roll", "roll"), counts=usage(1, 1))
        error = ApiError(502, "It broke behind its end.", "server_error")
        again: list[Input] = [ModelEnded(1, usage(1, 1)), ModelEnded(1, None, error), ModelSaid(1, DONE)]
        assert [played.run.receive(told) for told in again] == [Step()] * 3
        assert played.run.usage == usage(1, 1)
        assert played.run.ran == 1

    def test_a_call_ends_once(self) -> None:
        played = Played()
        played.hear(calls("roll", "roll"))
        played.answer("c0", "first")
        assert played.run.receive(ToolEnded("c0", ToolResult("second"))) == Step()
        assert played.run.receive(ToolEnded("backends", ToolResult("whose?"))) == Step()
        played.answer("c1")
        assert [m["content"] for m in played.asked.messages if m["role"] == "tool"] == ["first", "found"]

    def test_one_that_waits_hasnt_ended(self) -> None:
        played = Played(calls_at_once=1)
        played.hear(calls("roll", "roll"))
        assert played.run.receive(ToolEnded("c1", ToolResult("early"))) == Step()
        assert [effect.id for effect in played.answer("c0") if isinstance(effect, CallTool)] == ["c1"]

    def test_what_was_asked_stays_as_it_was(self) -> None:
        """A round may still be reading its messages when the next one begins."""
        played = Played()
        first = played.asked
        played.hear(calls("roll"))
        played.answer("c0")
        assert first.messages == [HI]
        assert len(played.asked.messages) == 3
