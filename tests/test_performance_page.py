"""docs/performance.md and its pictures show what was measured, and what `make bench` measures is what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.gateways import page
from bench.gateways.bodies import CONVERSATION, REQUEST, SHAPES, Shape, filled
from bench.gateways.charts import Bars, Lines, number
from bench.gateways.goals import GOALS
from bench.gateways.paced import PACE, STAMP, event, token, whole
from bench.gateways.plan import FULL, QUICK, WAYS
from bench.gateways.results import Results, newest, ratio
from bench.gateways.ways import STARTS
from bench.gateways.wrk import CONVERSATIONS, MOST_PER_SECOND, Numbers
from extproc.config import parse
from extproc.surfaces import prepare
from extproc.toolcalls import parse as read_calls


def measured() -> Any:
    return json.loads(newest().read_text())


def test_the_page_and_its_pictures_show_what_was_measured() -> None:
    made = page.files(measured())
    there = {path: (page.DOCS / path).read_text() for path in made}
    assert there == made, "run `python -m bench.gateways --page`"
    there_are = {path.name for path in (page.DOCS / page.PICTURES).glob("*.svg")} - {"watch-tui.svg"}
    assert there_are == {Path(path).name for path in made if path.startswith(page.PICTURES)}


def test_what_was_measured_names_no_place_of_a_machine() -> None:
    text = newest().read_text()
    assert not [name for name in ("/tmp", "/root", "/home", "/work") if name in text]


def test_every_way_that_is_planned_can_be_started() -> None:
    assert {way.gateway for way in WAYS} == {*STARTS}
    for plan in (FULL, QUICK):
        assert {load.shape for load in plan.wholes} <= {*SHAPES}
        assert {*plan.streams} >= {64}, "what goals and pictures ask for"


@pytest.mark.parametrize(("shape", "kilobytes"), [("17k", 17), ("41k", 41), ("229k", 229)])
def test_a_conversation_has_its_size_at_its_tenth_request(shape: str, kilobytes: int) -> None:
    assert round(len(filled(SHAPES[shape].template(), 1)) / 1000) == kilobytes


@pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
def test_each_request_of_a_conversation_goes_on_from_the_one_before(shape: Shape) -> None:
    earlier: list[Any] = []
    for request in range(1, 11):
        body = json.loads(filled(shape.template(request), 1))
        assert body["messages"][: len(earlier)] == earlier
        assert len(body["messages"]) > len(earlier)
        assert body.get("tools", []) == json.loads(filled(shape.template(1), 1)).get("tools", [])
        earlier = body["messages"]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=lambda shape: shape.name)
def test_another_conversation_is_another_one_everywhere(shape: Shape) -> None:
    template = shape.template()
    assert template.count(CONVERSATION) == 1 + shape.tools, "the system prompt, and every tool"
    assert template.count(REQUEST) == 1
    assert template.index(REQUEST) > template.rindex(b'"role"'), "in the last message"
    assert len(filled(template, 1, 2)) == len(filled(template, 99_999_999, 99_999_999))


def test_requests_are_such_as_the_gateway_takes() -> None:
    config = parse("models: [{name: coder, backend: b, tools: prompt}]\nbackends: [{name: b, address: '127.0.0.1:1'}]")
    for shape in SHAPES.values():
        for stream in (False, True):
            prepare(filled(shape.template(stream=stream), 1), config)


def _deltas(native: bool, tokens: int) -> list[Any]:
    chunks = [token(native, at, 123456).split(b"data: ")[1].strip() for at in range(tokens)]
    return [json.loads(chunk)["choices"][0]["delta"] for chunk in chunks]


def test_half_of_a_stream_is_a_call() -> None:
    tokens = 2 * PACE + 1
    text = "".join(delta["content"] for delta in _deltas(native=False, tokens=tokens))
    read = read_calls(text, format="hermes")
    assert [call.name for call in read.calls] == ["tool_1"]
    assert (read.content or "").count("~") == PACE
    arguments = json.loads(read.calls[0].arguments)
    assert (arguments["mode"], arguments["text_0"].count("~")) == ("write", PACE)
    native = [delta["tool_calls"][0] for delta in _deltas(native=True, tokens=tokens) if "tool_calls" in delta]
    assert [call["function"]["name"] for call in native if "id" in call] == ["tool_1"]
    assert json.loads("".join(call["function"]["arguments"] for call in native)) == arguments


def test_every_token_tells_when_it_left() -> None:
    for native in (True, False):
        assert all(STAMP.findall(token(native, at, 654321)) == [b"654321"] for at in (1, 50, 99))


def test_an_event_is_a_chunk_of_http() -> None:
    size, _, rest = event({"content": "größer"}).partition(b"\r\n")
    assert int(size, 16) == len(rest) - 2
    assert whole(native=True).startswith(b"HTTP/1.1 200")


def results(**rates: float) -> Results:
    """Of ways under one load, in three rounds, the last of which was three times slower for all of them."""
    key = {"shape": "17k", "request": "first", "connections": 16, "seconds": 2}
    rows = []
    for way, rate in rates.items():
        runs = [{"requests": rate / slow, "seconds": 1.0, "p50": 100.0 * slow, "p99_9": 300.0} for slow in (1, 1, 3)]
        rows.append({"way": way, **key, "runs": runs})
    return Results({"whole": rows, "streams": []})


def test_a_ratio_is_that_of_each_round() -> None:
    found = results(plain=6000, fastapi=1000)
    plain, fastapi = (found.whole(way, "17k", "first", 16) for way in ("plain", "fastapi"))
    assert ratio(plain, fastapi, "rate") == 6.0
    assert ratio(plain, plain, "p99_9", "p50") == 3.0
    assert ratio(plain, None, "rate") is None


def test_a_goal_is_held_or_not_or_was_not_measured() -> None:
    (throughput,) = [goal for goal in GOALS if "answers a second" in goal.said]
    assert throughput.measured(results(fastapi=1000)) is None
    for rate, held in ((6000, True), (4000, False)):
        value = throughput.measured(results(plain=rate, fastapi=1000))
        assert value is not None
        assert throughput.held(value) is held


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0"), (0.0123, "0.0123"), (1.5, "1.5"), (10.0, "10"), (123.4, "123"), (12345.6, "12,346")]
)
def test_numbers_have_three_digits_that_count(value: float, said: str) -> None:
    assert number(value) == said


def test_charts_are_drawn_to_scale() -> None:
    bars = ElementTree.fromstring(Bars("Times", "ms", {"one": {"b": 100.0, "a": 1.0}}, "ab", logarithmic=False).svg())
    widths = [float(rect.attrib["width"]) for rect in bars.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[1] == pytest.approx(100 * widths[0], rel=0.02)
    lines = ElementTree.fromstring(Lines("Grows", "kB", "ms", {"one": [(1, 1), (10, 10), (100, 100)]}).svg())
    dots = [float(dot.attrib["cy"]) for dot in lines.iter("{http://www.w3.org/2000/svg}circle")]
    assert dots[0] - dots[1] == pytest.approx(dots[1] - dots[2], abs=0.2)


def test_no_request_of_a_full_run_needs_a_number_that_another_had() -> None:
    numbers = Numbers()
    for _ in range(FULL.rounds):
        for way in WAYS:
            for load in FULL.wholes:
                if load.shape in way.shapes:
                    numbers.take(CONVERSATIONS)
                    numbers.take(MOST_PER_SECOND * load.seconds)
