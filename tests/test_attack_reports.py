"""What the measurements of `bench.attacks` are made of, and that docs/security.md shows what was measured."""

from __future__ import annotations

from bench.attacks.backends import PACE
from bench.attacks.honest import CUT, OK, STREAMS
from bench.attacks.kinds import ATTACKS
from bench.attacks.report import Delays, Event, Phase, percentile, recovery
from bench.attacks.table import BEGIN, END, PAGE, load, render
from bench.attacks.watch import shipped_limits


def test_the_page_shows_what_was_measured() -> None:
    page = PAGE.read_text()
    shown = page.partition(f"{BEGIN}\n")[2].partition(END)[0]
    assert shown == render(load("before.json"), load("after.json")), "run `python -m bench.attacks.table`"


def test_every_result_is_of_an_attack_that_there_is() -> None:
    assert {*load("before.json"), *load("after.json")} <= {*ATTACKS}


def test_a_phase_counts_what_ended_in_it() -> None:
    events: list[Event] = [
        (0.5, "tools", CUT),  # before
        (1.0, "tools", OK),
        (1.1, "whole", OK),
        (1.2, "plain", CUT),
        (1.3, "whole", "503"),
        (1.4, "tools", 0.02),
        (1.5, "direct", 0.5),
        (1.6, "direct", CUT),
        (1.7, "first", 0.1),
        (2.0, "tools", "503"),  # after
    ]
    phase = Phase.of(events, 1.0, 2.0)
    assert (phase.streams, phase.answered, phase.cut, phase.failed) == (1, 1, {CUT: 1}, {"503": 1})
    assert phase.late == Delays(1, 20.0, 20.0, 20.0)
    assert phase.late_direct == Delays(1, 500.0, 500.0, 500.0)
    assert phase.first == Delays(1, 100.0, 100.0, 100.0)


def test_percentiles() -> None:
    assert percentile([], 0.99) is None
    assert percentile([1.0], 0.99) == 1.0
    assert percentile([float(one) for one in range(1, 101)], 0.99) == 99.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0


def test_recovery_is_the_last_thing_that_went_wrong() -> None:
    tokens: list[Event] = [(10 + at * PACE / STREAMS, "tools", 0.0) for at in range(int(10 / PACE * STREAMS))]
    assert recovery(tokens, 10, 20) == 0.0
    assert recovery([*tokens, (13.0, "whole", "503")], 10, 20) == 3.0
    assert recovery([*tokens, (13.0, "tools", 0.9)], 10, 20) == 3.0
    assert recovery([*tokens, (13.0, "direct", 0.9)], 10, 20) == 0.0
    assert recovery([*tokens, (13.0, "tools", 0.9), (13.5, "direct", 0.8)], 10, 20) == 0.0, "it is the machine"
    assert recovery([*tokens, (19.5, "whole", "503")], 10, 20) is None
    assert recovery([], 10, 20) is None, "nobody gets a token"


def test_limits_are_those_of_the_manifests() -> None:
    limits = shipped_limits()
    assert set(limits) == {"envoy", "processor"}
    assert all(limit >= 256 << 20 for limit in limits.values())
