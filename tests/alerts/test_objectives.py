"""An objective that burns its budget too fast is told in time; what is within it, or a client's own doing, is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.alerts.promtool import check
from tests.k8s.rendered import K8S, one, rendered

pytestmark = pytest.mark.alerts

GROUPS = one(rendered(K8S / "overlays/monitoring"), "PrometheusRule", "extproc-objectives")["spec"]["groups"]
FAST, SLOWLY = "ExtprocObjectiveBurnsFast", "ExtprocObjectiveBurnsSlowly"
AVAILABILITY, CALLS, FIRST_TOKEN = "availability", "valid_calls", "first_token"
CODER = "coder"


def answers(end: str, model: str = CODER, pod: str = "one") -> str:
    return f'extproc_answers_total{{namespace="shop",pod="{pod}",instance="{pod}:9002",model="{model}",end="{end}"}}'


def calls(result: str, model: str = CODER) -> str:
    return f'extproc_calls_total{{namespace="shop",pod="one",instance="one:9002",model="{model}",result="{result}"}}'


def streams(model: str = CODER) -> str:
    """All of them."""
    of = f'namespace="shop",pod="one",instance="one:9002",gen_ai_request_model="{model}"'
    return f"gen_ai_server_time_to_first_token_seconds_count{{{of}}}"


def in_time(model: str = CODER) -> str:
    return streams(model).replace("_count{", '_bucket{le="2.5",')


def test_an_hour_of_many_failures_is_told_soon_and_no_longer_than_it_lasts(tmp_path: Path) -> None:
    series = {answers("complete"): "0+100x320 32080+80x79 38500+100x100", answers("error"): "0x320 20+20x79 1600x100"}
    fast, slowly = (FAST, AVAILABILITY, CODER), (SLOWLY, AVAILABILITY, CODER)
    # Six hours have seen it, and so the slow one goes on.
    check(tmp_path, GROUPS, series, {"320m": [], "380m": [fast], "398m": [fast, slowly], "480m": [slowly]})


def test_few_failures_that_go_on_are_told_in_hours_and_more_of_them_at_once(tmp_path: Path) -> None:
    series = {answers("complete"): "0+985x400", answers("timeout"): "0+10x400", answers("cut_by_backend"): "0+5x400"}
    more = {answers("complete", "worse"): "0+92x400", answers("error", "worse"): "0+8x400"}
    told = [(SLOWLY, AVAILABILITY, CODER), (FAST, AVAILABILITY, "worse"), (SLOWLY, AVAILABILITY, "worse")]
    check(tmp_path, GROUPS, series | more, {"50m": [told[1]], "400m": told})


SILENT = {
    "within the budget": {answers("complete"): "0+995x400", answers("error"): "0+5x400"},
    "none fails": {answers("complete"): "0+100x400"},
    "clients' own doing": {
        answers("complete"): "0+50x400",
        answers("refused"): "0+30x400",
        answers("left_by_client"): "0+20x400",
    },
    "one of two at night": {answers("complete"): "0x390 1x10", answers("error"): "0x390 1x10"},
    "some bad calls": {calls("valid"): "0+97x400", calls("malformed_tool_arguments"): "0+3x400"},
    "calls that nobody checked": {calls("valid"): "0+50x400", calls("cut_off"): "0+50x400"},
    "some slow streams": {streams(): "0+100x400", in_time(): "0+97x400"},
    # A processor that is started again counts from 0: that is no rise, and no fall.
    "a new start": {answers("complete"): "0+99x200 0+99x200", answers("error"): "0+0.5x200 0+0.5x200"},
    "pods come and go": {answers("complete"): "0+99x300", answers("complete", pod="two"): "_x200 0+99x200"},
}


def test_nobody_is_woken(tmp_path: Path) -> None:
    series = {
        name.replace(f'"{CODER}"', f'"{why}"'): values for why, told in SILENT.items() for name, values in told.items()
    }
    assert len(series) == sum(map(len, SILENT.values()))
    check(tmp_path, GROUPS, series, {at: [] for at in ("100m", "200m", "210m", "300m", "400m")})


def test_the_other_objectives(tmp_path: Path) -> None:
    series = {calls("valid"): "0+20x100", calls("unknown_tool_call"): "0+80x100"}
    series |= {streams(): "0+100x100", in_time(): "0+20x100"}
    fast = [(FAST, objective, CODER) for objective in (CALLS, FIRST_TOKEN)]
    slowly = [(SLOWLY, objective, CODER) for objective in (CALLS, FIRST_TOKEN)]
    check(tmp_path, GROUPS, series, {"50m": fast, "100m": [*fast, *slowly]})
