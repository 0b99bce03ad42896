"""Every alert fires by the fault that it is for, in a real Prometheus, goes on as long as that lasts, and ends with it.

Times are scaled: a minute of a rule, and of a PodMonitor's interval, is a second. None is left to made-up series.
"""

from __future__ import annotations

import pytest

from tests.alerts.scene import GROUPS, HAPPENING, IGNORED, LINGERING, STATES, Seen, gateways

pytestmark = pytest.mark.alerts

FAULTS = {*STATES, *HAPPENING, *LINGERING, IGNORED}
RULES = [rule["alert"] for group in GROUPS for rule in group["rules"] if "alert" in rule]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    with gateways(tmp_path_factory.mktemp("alerts")) as scene:
        return scene.play()


def test_each_alert_has_its_fault() -> None:
    assert sorted(RULES) == sorted({alert for alert, _ in FAULTS})


def test_nothing_fires_before(seen: Seen) -> None:
    assert seen.before == set()


@pytest.mark.parametrize("alert", RULES)
def test_it_fires_and_ends(seen: Seen, alert: str) -> None:
    assert {fault for fault in FAULTS if fault[0] == alert} <= seen.ever
    assert alert not in {name for name, _ in seen.after - {*LINGERING}}


def test_it_goes_on_as_long_as_the_fault_lasts(seen: Seen) -> None:
    assert set(STATES) - seen.lasting == set()


def test_nothing_fires_for_another_gateway(seen: Seen) -> None:
    assert seen.ever - FAULTS == set()


def test_every_answer_that_the_backend_cuts_is_counted(seen: Seen) -> None:
    assert seen.cut == pytest.approx(1, abs=0.05)
