"""Parts of the histories of `tests.simulation` go as the whole went, and those that go wrong become small."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from extproc.config import Team
from tests.simulation.__main__ import main
from tests.simulation.checking import WrongError
from tests.simulation.course import WITHOUT, Part
from tests.simulation.history import Report
from tests.simulation.replaying import Drawn, played
from tests.simulation.searching import search
from tests.simulation.shrinking import GoesRightError, fewest, smallest

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level("CRITICAL"):
        yield


@pytest.mark.parametrize("seed", [2, 5, 8, 17, 80])
def test_any_part_of_a_history_goes_right(seed: int) -> None:
    drawn, rng = Drawn(seed), random.Random(seed)
    assert played(seed, course=drawn.course(drawn.whole)) == played(seed), "the whole is a part as well"
    for kept in (0.02, 0.1, 0.5, 0.9):
        events = tuple(number for number in drawn.whole.events if rng.random() < kept)
        part = Part(events, frozenset(name for name in WITHOUT if rng.random() < 0.3))
        assert drawn.wrong(part) is None, f"{seed} {part}"


def test_a_part_is_written_as_it_is_read() -> None:
    part = Part((3, 12, 13, 14, 20), frozenset(("team", "pieces")))
    assert str(part) == "--keep 3,12-14,20 --without pieces,team"
    assert Part.read("3,12-14,20", "team,pieces") == part
    with pytest.raises(ValueError, match="'crew' is none of team"):
        Part.read("", "crew")
    with pytest.raises(ValueError, match="none of the number 100000"):
        Drawn(7).course(Part((3, 100_000)))
    with pytest.raises(ValueError, match="have to ascend"):
        Drawn(7).course(Part((4, 3)))


@pytest.mark.parametrize(
    ("keep", "complaint"),
    [
        ("3,100000", "none of the number 100000"),
        ("100000,3", "'3': the numbers have to ascend"),
        ("9-3", "'9-3': the numbers have to ascend"),
        ("3,3", "'3': the numbers have to ascend"),
        ("7,x", "'x' is no number, and no range of them such as 7-12"),
        ("7-", "'7-' is no number"),
    ],
)
def test_what_cant_be_kept_is_told_in_one_line(keep: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--seed", "7", "--keep", keep])
    assert caught.value.code == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("python -m tests.simulation: error: ")
    assert complaint in told


def test_no_smaller_piece_is_enough() -> None:
    asked = list[Sequence[int]]()

    def enough(those: Sequence[int]) -> bool:
        asked.append(those)
        return {3, 40} <= set(those)

    assert fewest(range(100), enough) == [3, 40]
    assert len(asked) < 40
    assert fewest(range(100), lambda _: True) == []


def test_a_history_that_goes_right_has_no_smallest_part() -> None:
    with pytest.raises(GoesRightError, match="nothing goes wrong"):
        smallest(7)


def test_what_goes_wrong_only_once_is_told_and_the_search_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_wrong(seed: int) -> Report:
        if seed == 7:
            raise WrongError("a page of memory was flipped")
        return played(seed)

    monkeypatch.setattr("tests.simulation.searching.played", first_wrong)
    fates, found = search((7, 8), seconds=60)
    assert fates == played(8).fates
    assert [str(one).splitlines() for one in found] == [
        [
            "tests.simulation.checking.WrongError: a page of memory was flipped",
            "not reproducible: played again, the history of the seed 7 goes right",
        ]
    ]


def test_a_part_goes_wrong_again_as_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Team, "may_ask", lambda _self, _model: True)
    found = smallest(0)
    said = str(found).splitlines()
    assert said[1].startswith("1 of 17 exchanges, 1 of 589 events: begin 5")
    told = said[2].partition("--seed 0 ")[2].split()
    assert Drawn(0).wrong(Part.read(told[1], told[3])) == found.why
    with pytest.raises(WrongError, match="a team asks what it may not"):
        main(["--seed", "0", *told])


def test_a_history_is_replayed_so_often_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Team, "may_ask", lambda _self, _model: True)
    play, asked = Drawn.wrong, list[Part]()

    def counted(self: Drawn, part: Part) -> str | None:
        asked.append(part)
        return play(self, part)

    monkeypatch.setattr(Drawn, "wrong", counted)
    found = smallest(0, replays=3)
    assert len(asked) == 3 + 1, "and once more, for its words"
    assert len(found.events) > 1
    assert "a team asks what it may not" in found.why
