"""What may come of a run."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import Any

from extproc.contract.errors import ApiError
from extproc.contract.json_body import is_object
from extproc.runner.run import TIMED_OUT, TOO_LARGE, TOO_MANY_ROUNDS, Run
from extproc.runner.steps import Complete, Gone, Step
from extproc.toolcalls import ArgumentsDelta, CallEnd, CallStart, Reasoning, Text
from extproc.turn.served import ServedCall, ServedResult
from tests.run_simulation.chance import SLACK, Json
from tests.run_simulation.rounds import Told
from tests.run_simulation.watched import Watched
from tests.run_simulation.world import World
from tests.simulation.checking import WrongError, check


def check_all_ended(world: World) -> None:
    check(not world.wrong, f"{world.wrong}")
    others = asyncio.all_tasks() - {asyncio.current_task()}
    check(not others, f"tasks are left over: {others}")
    check(world.running == world.open_rounds == 0, "something goes on behind the end")


def check_tools(world: World, run: Watched) -> None:
    check(world.most_running <= world.limits.calls_at_once, f"{world.most_running} tools run at once")
    ids = [call.id for call in run.called]
    check(len(ids) == len(set(ids)) == run.ran, "a call runs twice")
    reported = [ran.call.id for ran in world.ran]
    check(len(reported) == len(set(reported)) == world.begun_tools, "not every call that began is told of once")
    made = Counter((name, arguments) for told in world.rounds if told.goes_on for name, arguments in told.ours)
    check(Counter((call.name, call.arguments) for call in run.called) <= made, "a call runs that wasn't to run")


def check_conversation(world: World) -> None:
    """What the model is asked holds everything that was said and done before, in its order."""
    given = Counter(text for texts in world.answers.values() for text in texts)
    for asked in world.asked:
        budget = None if world.tokens is None else max(world.tokens - _spent(world.rounds[: asked.round - 1]), 0)
        check(asked.tokens == budget and asked.tokens != 0, f"round {asked.round} may have {asked.tokens} tokens")
        messages = list(asked.messages)
        begins, ids = world.messages, set[str]()
        check(messages[: len(begins) - world.begun] == begins[: len(begins) - world.begun], "the conversation is lost")
        del messages[: len(begins) - (world.begun and asked.round > 1)]
        prefix = "Well, " if world.begun else ""
        for told in world.rounds[: asked.round - 1]:
            made = messages.pop(0)
            check((made["content"] or "") == prefix + "".join(told.texts), "the model's words are lost")
            check(made.get("reasoning", "") == "".join(told.thoughts), "the model's thoughts are lost")
            check(len(made["tool_calls"]) == len(told.calls), "calls are lost")
            prefix = ""
            for call, (name, arguments) in zip(made["tool_calls"], told.calls, strict=True):
                shown = arguments if is_object(arguments) else "{}"
                check(call["function"] == {"name": name, "arguments": shown}, "a call isn't what the model made")
                check(call["id"] not in ids, "ids of calls aren't unique")
                ids.add(call["id"])
            for call, (name, arguments) in zip(made["tool_calls"], told.calls, strict=True):
                result = messages.pop(0)
                check(result["role"] == "tool" and result["tool_call_id"] == call["id"], "results are out of order")
                check(result["content"] in world.answers[name, arguments], "a result is another call's")
        check(not messages, "the conversation has more than was said")
        kept = sum(map(_size, asked.messages[len(begins) - world.begun :]))
        check(asked.round == 1 or kept <= world.limits.retained_bytes, f"the run retains {kept} bytes")
        texts = Counter(message["content"] for message in asked.messages if message["role"] == "tool")
        check(texts <= given, "a result is there twice")


def _size(message: Json) -> int:
    """In bytes, names and ids aside."""
    calls = (call["function"]["arguments"] for call in message.get("tool_calls", ()))
    texts = [message["content"] or "", message.get("reasoning", ""), *calls]
    return sum(len(text.encode()) for text in texts)


def _spent(rounds: list[Told]) -> int:
    return sum(told.usage["completion_tokens"] for told in rounds if told.usage is not None)


def check_usage(world: World, run: Run, *, complete: bool) -> None:
    def total(rounds: list[Told]) -> Json:
        counts = Counter[str]()
        for told in rounds:
            for name, count in (told.usage or {}).items():
                counts.update({name: count} if isinstance(count, int) else count)
        return dict(counts)

    usage = dict(run.usage or {})
    usage |= usage.pop("prompt_tokens_details", {})
    # A count that came, but was not told before the run was over, isn't in it.
    known = [total(world.rounds), total(world.rounds[:-1])]
    check(usage in known[: 1 if complete else 2], f"the usage is {usage}, and not {known[0]}")


def check_answer(world: World, run: Watched, steps: list[Step], *, complete: bool) -> None:
    """The client has what the model said, up to where the run came."""
    out = [said for step in steps for said in step.out]
    events = [event for said in out for event in said.events]
    text = "".join(event.text for event in events if isinstance(event, Text))
    whole = _joined(["".join(told.texts) for told in world.rounds])
    check(text == whole if complete else whole.startswith(text), f"the client has {text!r} of {whole!r}")
    thought = "".join(event.text for event in events if isinstance(event, Reasoning))
    thoughts = "".join(text for told in world.rounds for text in told.thoughts)
    check(thought == thoughts if complete else thoughts.startswith(thought), "thoughts are lost")
    calls = _calls_of(events)
    theirs = world.rounds[-1].theirs if world.rounds else []
    check(calls == theirs if complete else len(calls) <= len(theirs), f"the client's calls are {calls}, not {theirs}")
    reasons = [said.finish_reason for said in out if said.finish_reason is not None]
    check(len(reasons) == 1 if complete else len(reasons) <= 1, f"finish reasons {reasons}")
    check(not reasons or out[-1].finish_reason is not None, "something is said behind the finish reason")
    check(all(said.choice["finish_reason"] == said.finish_reason for said in out), "a choice has another reason")
    texts = [(said.source.get("content"), said.events) for said in out]
    check(all(not text or events == [Text(text)] for text, events in texts), "a delta says more than its events")
    check(sum("role" in said.source for said in out) <= 1, "there are several roles")
    check(not any("tool_calls" in said.source for said in out), "the model's calls are passed on unread")
    _check_served(world, run, events, complete=complete)


def _joined(texts: list[str]) -> str:
    """Texts of rounds with a blank line between them."""
    whole = ""
    for text in filter(None, texts):
        if whole:
            ends = len(whole[-2:]) - len(whole[-2:].rstrip("\n"))
            whole += "\n" * max(2 - ends - text.startswith("\n"), 0)
        whole += text
    return whole


def _calls_of(events: list[Any]) -> list[list[str]]:
    calls: list[list[str]] = []
    is_open = False
    for event in events:
        match event:
            case CallStart(index, name):
                check(index == len(calls) and not is_open, "a call begins out of order")
                calls.append([name, ""])
                is_open = True
            case ArgumentsDelta(index, json):
                check(index == len(calls) - 1 and is_open, "arguments of no call")
                calls[-1][1] += json
            case CallEnd(index):
                check(index == len(calls) - 1 and is_open, "the end of no call")
                is_open = False
    return calls


def _check_served(world: World, run: Watched, events: list[Any], *, complete: bool) -> None:
    began = [event for event in events if isinstance(event, ServedCall)]
    ended = [event for event in events if isinstance(event, ServedResult)]
    ids = [event.id for event in began]
    check(ids == [call.id for call in run.called][: len(ids)], "the client is shown other calls than run")
    check({event.id for event in ended} <= set(ids), "a result of a call that hasn't begun")
    check(len(ended) == len({event.id for event in ended}), "a result is shown twice")
    check(not complete or len(began) == len(ended) == len(run.called), "the client isn't shown all calls")
    by_id = {call.id: call for call in run.called}
    for event in ended:
        call = by_id[event.id]
        check(event.text in world.answers[call.name, call.arguments], "the client is shown another call's result")


def check_end(world: World, run: Run, end: Any, seconds: float) -> str:
    """Whether the run had to end like this; and the end in a word."""
    last = world.rounds[-1] if world.rounds else None
    match end:
        case Gone():
            return "gone"
        case Complete(usage):
            check(last is not None and last.whole, "complete, but the last round wasn't")
            assert last is not None
            spent = world.tokens is not None and _spent(world.rounds) >= world.tokens
            check(not last.goes_on or spent, "complete, although the model was to go on")
            check(usage == run.usage, "the end has another usage")
            deferred = [name for name, _ in last.ours] if last.reason == "tool_calls" and last.theirs else []
            check(run.deferred == deferred, f"deferred are {run.deferred}, not {deferred}")
            return "spent" if last.goes_on else "mixed" if deferred else "complete"
        case ApiError(code=code) if code == TIMED_OUT:
            check(seconds >= world.limits.seconds - SLACK, "time is up too early")
        case ApiError(code=code) if code == TOO_MANY_ROUNDS:
            check(last is not None and last.goes_on and run.rounds == world.limits.rounds, "not too many rounds")
        case ApiError(code=code) if code == TOO_LARGE:
            check(_retained(world) > world.limits.retained_bytes, "not too large")
        case ApiError(status=status, code=code):
            check(last is not None and not last.whole, f"a round ended with {code} that was whole")
            assert last is not None
            check((code == "internal_error") == isinstance(last.fails, ZeroDivisionError), "a bug isn't told of")
            return f"error {status}"
        case _:
            raise WrongError(f"no end: {end!r}")
    return str(end.code)


def _retained(world: World) -> int:
    """The most that the run may have counted."""
    said = [*itertools.chain.from_iterable(told.texts + told.thoughts for told in world.rounds)]
    called = [arguments for told in world.rounds for _, arguments in told.calls]
    results = [text for texts in world.answers.values() for text in texts]
    return sum(len(text.encode()) for text in [*said, *called, *results])
