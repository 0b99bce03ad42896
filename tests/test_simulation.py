"""Histories of the gateway's core go right in every order of events, and what is wrong in it is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extproc.config import Choice, Team
from extproc.control.envoy_admin import Taken
from extproc.control.publishing import EnvoyFiles, RefusedByEnvoyError
from extproc.exchange import request
from extproc.exchange.accounting import ExchangeStats
from extproc.exchange.concurrency import TEAMS, Concurrency, Lease
from extproc.exchange.context import ExchangeContext
from extproc.exchange.outages import Outages
from extproc.exchange.replies import choice_shown
from extproc.exchange.second_answer import SecondAnswer
from extproc.observability.choice_metrics import ChoiceMetrics
from extproc.runner.run import Run
from extproc.runner.steps import Input, Step, ToolEnded
from extproc.runner.tools import ToolResult
from extproc.server.processor import Processor
from extproc.server.workers.process import WorkerProcess
from extproc.transport import Status
from extproc.transport.lean.connection import LeanCall
from extproc.transport.lean.messages import MessageReader
from extproc.turn.tally import Tally
from tests.simulation.__main__ import main
from tests.simulation.course import Part
from tests.simulation.plans import Fate
from tests.simulation.replaying import Drawn, played, wrong
from tests.simulation.searching import search
from tests.simulation.shrinking import Found, smallest

pytestmark = pytest.mark.long

FOUND: list[tuple[int, tuple[int, ...] | Part]] = [
    (1001395, (8,)),  # the simulation's own: where calls went before, answers are rewritten without tools too,
    (20001113, (9, 13)),  # but not a native backend's
    (6000000173, (10,)),  # and half an answer that isn't read passes without its length, to a host that shows all
    (6000001015, (0, 1, 2, *range(4, 17))),  # a deadline that passes just when nothing more is said
    (
        7000000315,
        (*range(15), 16, 17, 19),
    ),  # a processor that left has an answer when Envoy goes by the next one's files
    (20000020340, tuple(range(20))),  # the simulation's own: its Envoy didn't refuse the same text again,
    (541, (*range(17), 18, 19)),  # and the gateway went on where that looked as if nothing had been refused
    (
        110000000819,  # the simulation's own: a request that begins at the moment when a backend is found out may be
        Part.read(  # older than that
            "8,34-36,66,70,72,75,77,85,91,94,96,106,137,147,151,186,198,201-202",
            "control,deadlines,hosts,leaving,pieces,team,workers",
        ),
    ),
    (70000007189, (*range(16), 17, 19)),  # the simulation's own: a host that forwards long after its call's time is up
]
"""Seeds that have shown something wrong once, and the part of each that did: a Part of its events, or exchanges alone,
among which everything was drawn once more."""


def test_histories_go_right() -> None:
    fates, found = search(range(24), seconds=60)
    assert not found, str(found[0])
    assert fates.total() - fates["turned away"] > 400
    assert fates.keys() - {"turned away"} == {fate.value for fate in Fate}


@pytest.mark.parametrize(("seed", "keep"), FOUND)
def test_what_was_found_goes_right(seed: int, keep: tuple[int, ...] | Part) -> None:
    assert (Drawn(seed).wrong(keep) if isinstance(keep, Part) else wrong(seed, keep)) is None
    assert wrong(seed) is None


def test_a_seed_is_the_same_history_each_time() -> None:
    assert played(7) == played(7)
    assert played(7).fates != played(8).fates


def found_at(seed: int, *, exchanges: int, events: int) -> Found:
    """The first seed that shows what was planted, and as little of it as does: so much at most."""
    found = smallest(seed)
    assert len(found.exchanges) <= exchanges
    assert len(found.events) <= events
    return found


def seen_at(seed: int, *part: str) -> str:
    """What goes wrong there, and in the part that was left when it was made smaller: that takes a minute for each."""
    drawn = Drawn(seed)
    assert drawn.why is not None
    return drawn.wrong(Part.read(*part)) or ""


WITHOUT = "aliases,deadlines,hosts,leaving,pieces,team,workers"


# Planted


def test_a_reload_that_reaches_exchanges_which_have_begun_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go_by(self: Processor, context: ExchangeContext) -> None:
        self.context = context
        for call in self._running:
            call.exchange.request.context = context

    monkeypatch.setattr(Processor, "go_by", go_by)
    found = found_at(1, exchanges=1, events=3)
    assert "it goes by another configuration" in found.why


def test_a_prefix_that_is_lost_where_it_is_cut_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = MessageReader.feed

    def lossy(self: MessageReader, data: bytes) -> list[bytes | bytearray]:
        return [] if 0 < len(data) < 5 and not self.amid else feed(self, data)

    monkeypatch.setattr(MessageReader, "feed", lossy)
    assert found_at(0, exchanges=2, events=4).why


def test_pieces_that_change_places_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    send, held = LeanCall.send, dict[LeanCall, bytes]()

    def swapping(self: LeanCall, message: bytes) -> None:
        if len(message) > 300 and self not in held:
            held[self] = message
            self._connection._loop.call_soon(late, self)
        else:
            send(self, message)

    def late(call: LeanCall) -> None:
        send(call, held.pop(call))

    monkeypatch.setattr(LeanCall, "send", swapping)
    assert found_at(0, exchanges=1, events=10).why


def test_settings_that_a_worker_is_thought_to_have_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    end = WorkerProcess.end

    def forgetful(self: WorkerProcess) -> int:
        settings, status = self._config, end(self)
        self._config = settings  # which the next process doesn't have
        return status

    monkeypatch.setattr(WorkerProcess, "end", forgetful)
    assert "INTERNAL" in found_at(130, exchanges=2, events=8).why


def test_a_tools_result_that_the_model_isnt_told_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = Run.receive

    def forgetful(self: Run, told: Input) -> Step:
        return receive(self, replace(told, result=ToolResult("")) if isinstance(told, ToolEnded) else told)

    monkeypatch.setattr(Run, "receive", forgetful)
    assert "isn't told" in found_at(1, exchanges=1, events=2).why


def test_a_backend_that_is_forgotten_while_it_is_in_use_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Processor, "uses", lambda _self, _config: False)
    assert "Envoy has forgotten" in found_at(4, exchanges=1, events=2).why


def test_a_second_answer_that_costs_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = ExchangeStats.answered

    def once(self: ExchangeStats, usage: Any, tally: Tally, cost: Any = None) -> None:
        answered(self, {} if self._tokens else usage, tally, None if self._tokens else cost)

    monkeypatch.setattr(ExchangeStats, "answered", once)
    assert "2 answers count as 15.0 tokens" in found_at(1, exchanges=1, events=1).why


def test_a_place_of_a_team_that_is_given_back_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Concurrency.take

    def short(self: Concurrency, *told: Any, **more: Any) -> Lease | None:
        lease = take(self, *told, **more)
        if lease is not None and lease.resource == TEAMS:
            self.release(lease.number)
        return lease

    monkeypatch.setattr(Concurrency, "take", short)
    assert "requests of the team are under way" in found_at(80, exchanges=4, events=6).why


def test_a_share_that_is_too_large_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Concurrency.take

    def generous(self: Concurrency, *told: Any, **more: Any) -> Lease | None:
        return take(self, *told, **{**more, "alone": True})

    monkeypatch.setattr(Concurrency, "take", generous)
    assert "requests of one client, at one backend are under way" in found_at(0, exchanges=2, events=2).why


def test_a_team_that_may_have_less_than_it_should_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Concurrency.take

    def mean(self: Concurrency, client: str, resource: str, capacity: int, *told: Any, **more: Any) -> Lease | None:
        return take(self, client, resource, 1 if resource == TEAMS else capacity, *told, **more)

    monkeypatch.setattr(Concurrency, "take", mean)
    assert "others are under way, and it gets" in found_at(1, exchanges=2, events=2).why


def test_half_an_answer_that_costs_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = ExchangeStats.answered

    def told(self: ExchangeStats, usage: Any, tally: Tally, cost: Any = None) -> None:
        answered(self, usage, tally, cost if tally.finish_reasons else None)

    monkeypatch.setattr(ExchangeStats, "answered", told)
    assert "an answer isn't counted" in found_at(0, exchanges=1, events=1).why


def test_a_model_that_a_team_may_not_ask_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Team, "may_ask", lambda _self, _model: True)
    assert "a team asks what it may not" in found_at(0, exchanges=1, events=1).why


def test_a_choice_that_is_counted_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = ChoiceMetrics.chosen

    def twice(self: ChoiceMetrics, choice: Choice) -> None:
        chosen(self, choice)
        chosen(self, choice)

    monkeypatch.setattr(ChoiceMetrics, "chosen", twice)
    assert "1 requests for any-native count as 2" in found_at(9, exchanges=1, events=1).why


def test_a_backend_that_is_asked_while_it_is_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outages, "out", lambda _self: {})
    assert "which can't be reached, and there is another one" in found_at(20, exchanges=2, events=17).why


def test_a_fallback_without_a_reason_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outages, "out", lambda _self: dict.fromkeys(("b0", "b1", "b2"), "failing"))
    assert "which is said to be failing" in found_at(9, exchanges=1, events=1).why


def test_an_answer_that_names_another_model_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def own(choice: Choice | None) -> dict[str, str]:
        return choice_shown(choice and replace(choice, model=choice.instead_of or choice.model))

    monkeypatch.setattr(request, "choice_shown", own)
    assert "an answer says x-extproc-model" in found_at(9, exchanges=2, events=4).why


def test_new_terms_before_envoy_knows_of_them_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def until(_self: EnvoyFiles, *_: object) -> None:
        pass

    monkeypatch.setattr(EnvoyFiles, "_until", until)
    kept = "1,3,9,13,16,34,41,45-46,52,54,61,64,66-67,71,74-77,84,92-93,123,125,129,205"
    assert "Envoy has no backend" in seen_at(18, kept, WITHOUT)


def test_a_refusal_that_is_overlooked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file = EnvoyFiles._replace

    async def careless(self: EnvoyFiles, name: str, text: str) -> None:
        with suppress(RefusedByEnvoyError):
            await replace_file(self, name, text)

    monkeypatch.setattr(EnvoyFiles, "_replace", careless)
    assert "Envoy has no backend" in found_at(337, exchanges=2, events=5).why


def test_a_refusal_between_two_questions_that_is_taken_for_patience_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    until = EnvoyFiles._until

    async def going_on(self: EnvoyFiles, ready: Callable[[Taken], bool], name: str, *_: object) -> None:
        await until(self, ready, name)

    monkeypatch.setattr(EnvoyFiles, "_until", going_on)
    assert "Envoy has no backend" in seen_at(541, "151,604,616,619,647,869,892-893", WITHOUT)


def test_a_grace_that_is_none_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def until_idle(_: Processor) -> None:
        pass

    monkeypatch.setattr(Processor, "until_idle", until_idle)
    assert "stopping" in found_at(8, exchanges=1, events=9).why  # a run's round, which the processor no longer takes


def test_a_second_answer_that_gets_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = SecondAnswer._chosen
    monkeypatch.setattr(SecondAnswer, "_chosen", lambda self, _second: chosen(self, None))
    assert found_at(1, exchanges=1, events=1).why


def test_a_deadline_that_ends_a_call_as_if_all_were_well_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = LeanCall.finish

    def well(self: LeanCall, status: Status = Status.OK, message: str = "") -> None:
        finish(self, Status.OK if status is Status.DEADLINE_EXCEEDED else status, message)

    monkeypatch.setattr(LeanCall, "finish", well)
    assert found_at(2, exchanges=1, events=6).why


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("CRITICAL"):
        yield


def test_the_command_tells_how_many_went_right(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    state = tmp_path / "played.json"
    asked = ["--seconds", "1", "--processes", "1", "--state", str(state)]
    assert main([*asked, "--first", "0"]) == 0
    said = capsys.readouterr().out
    assert "seeds 0 to" in said
    exchanges = int(said.partition("exchanges")[0].split()[-1])
    assert exchanges >= 20
    assert main([*asked, "--first", "1000000"]) == 0, "it goes on from where it was"
    said = capsys.readouterr().out
    assert "seeds 0 to" in said
    assert int(said.partition("exchanges")[0].split()[-1]) > exchanges
    assert main(["--seed", "3", "--keep", "0-40"]) == 0
    begun = sum(one.event.kind == "begin" for one in Drawn(3).happened[:41])
    assert f"exchanges={begun}" in capsys.readouterr().out
    assert main(["--seed", "3", "--without", "workers"]) == 0
    assert "exchanges=20" in capsys.readouterr().out
