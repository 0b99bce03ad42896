"""The page as a person uses it: every lane, live, by mouse and by keys alone; and what is taken along."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from extproc.recording.difference import first_difference
from extproc.recording.document import Document
from extproc.recording.replay import ReplayResult, replay
from scripted_vllm import Fail, Reply
from tests.gateway import wait_until
from tests.watch_stage import CHAT, Feeder, Stage, authorized, frames_of, request, watching

pytestmark = pytest.mark.browser

ARGUMENTS = '{"city": "Zürich", "days": 3}'
CALL = f'Sofort, ich sehe nach.\n<tool_call>\n{{"name": "get_weather", "arguments": {ARGUMENTS}}}\n</tool_call>'
SLIPS = "{'city': 'Zürich', 'days': 3,}"
QUOTES = f'I\'ll look it up.\n<tool_call>\n{{"name": "get_weather", "arguments": {SLIPS}}}\n</tool_call>'
UNKNOWN = '<tool_call>\n{"name": "fetch_forecast", "arguments": {"town": "Bern"}}\n</tool_call>'
TAGGED = (
    "<think>\nThe user wants the weather.\n</think>\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n"
    "</parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>"
)
ASKED = "What is the weather in Zürich?"


@pytest.fixture(scope="module", autouse=True)
def played(watched: Stage) -> None:
    """What is on the page before anybody looks."""
    told = (
        "Is my train late?",
        "And in Paris, the day after?",
        "Which way to Bern?",
        "Tell me a story",
        "Just say hello",
    )
    for reply, asked, fields in (
        (Reply(CALL, pace=0.01), told[0], {}),
        (Reply(TAGGED, pace=0.005), told[1], {"model": "thinker", "key": "bob"}),
        (Reply(UNKNOWN), told[2], {}),
        (Reply(trouble=Fail(503)), told[3], {"key": "bob"}),
        (Reply("Hello!"), told[4], {"tools": None}),
        (Reply(QUOTES, pace=0.01, pieces=4), ASKED, {}),
    ):
        watched.backend.play(reply)
        watched.ask(asked, **fields)


def row(page: Any, words: str) -> Any:
    return page.locator(".row", has_text=words)


def lane(page: Any, number: int) -> Any:
    return page.locator(f".lane-{number} .lane-body")


def opened(page: Any, words: str) -> None:
    row(page, words).click()
    expect(page.locator(".detail h2")).to_be_visible()
    expect(lane(page, 1)).to_contain_text(words)


def test_the_page_is_calm_and_asks_nobody_else(watched: Stage, open_page: Any) -> None:
    shown = open_page(watched.url)
    expect(row(shown.page, ASKED)).to_be_visible()
    assert "token" not in shown.page.url, "it is in no history"
    opened(shown.page, ASKED)
    origin = watched.url.partition("/?")[0]
    assert {url.startswith((origin, "data:")) for url in shown.asked} == {True}
    assert shown.troubles == []


def test_each_lane_says_its_part(watched: Stage, open_page: Any) -> None:
    shown = open_page(watched.url)
    page = shown.page
    opened(page, ASKED)
    expect(lane(page, 1).locator(".message[data-role=user] .text")).to_have_text(ASKED)
    expect(lane(page, 1).locator(".tool summary")).to_contain_text("get_weather")
    expect(lane(page, 2)).to_contain_text("prompt mode")
    expect(lane(page, 2).locator(".message[data-role=system]")).to_contain_text("# Tools")
    assert "I'll look it up." in lane(page, 3).inner_text()
    expect(lane(page, 3).locator(".wrote.marker").first).to_contain_text("<tool_call>")
    expect(lane(page, 3).locator(".wrote.name")).to_have_text("get_weather")
    expect(lane(page, 3).locator(".events").first).to_contain_text("text")
    expect(lane(page, 3)).to_contain_text("call start")
    expect(lane(page, 3)).to_contain_text("call end")
    expect(lane(page, 3).locator("rt").first).to_contain_text('"')
    expect(lane(page, 4).locator(".call-head b")).to_have_text("get_weather")
    assert json.loads(lane(page, 4).locator(".call pre").inner_text()) == {"city": "Zürich", "days": 3}
    expect(lane(page, 4)).to_contain_text("finish_reason: tool_calls")
    expect(page.locator(".found")).to_contain_text("The model wrote arguments with single quotes: repaired")
    expect(page.locator(".timeline")).to_contain_text("the model writes")
    shown.picture("light")


def test_what_was_wrong_is_said(watched: Stage, open_page: Any) -> None:
    page = open_page(watched.url).page
    opened(page, "Which way to Bern?")
    expect(page.locator(".violation")).to_have_text(
        "The model called 'fetch_forecast', which is none of the tools it was offered."
    )
    expect(page.locator(".title .outcome")).to_have_text("bad call")
    page.locator(".row.failed").first.click()
    expect(lane(page, 4).locator(".error")).to_contain_text("service_unavailable")
    opened(page, "Just say hello")
    expect(lane(page, 3)).to_contain_text("went past the processor")


def test_it_is_dark_where_the_system_is(watched: Stage, open_page: Any) -> None:
    shown = open_page(watched.url, color_scheme="dark")
    opened(shown.page, "And in Paris, the day after?")
    expect(lane(shown.page, 3).locator(".wrote.reasoning")).to_contain_text("The user wants the weather.")
    colour = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) < 40, colour
    shown.picture("dark")


def test_a_stream_grows_while_one_looks(watched: Stage, open_page: Any) -> None:
    page = open_page(watched.url).page
    expect(row(page, ASKED)).to_be_visible()  # the others are there, in an order of the page's own
    watched.backend.play(Reply("one word after the other, " * 12 + CALL, pace=0.1))

    def ask() -> None:
        body = request("A live one, please")
        watched.gateway.http.post(CHAT, json=body, headers=authorized("alice"))

    asking = threading.Thread(target=ask)
    asking.start()
    live = row(page, "A live one, please")
    expect(live).to_have_class("row running")
    expect(live).to_have_attribute("aria-posinset", "1")
    live.click()
    expect(lane(page, 3)).to_contain_text("one word after the other")
    lengths = [len(lane(page, 3).inner_text())]
    for _ in range(3):
        wait_until(lambda: len(lane(page, 3).inner_text()) > lengths[-1])
        lengths.append(len(lane(page, 3).inner_text()))
    assert page.locator(".title .outcome").inner_text() == "running"
    asking.join()
    expect(page.locator(".title .outcome")).to_have_text("called")
    expect(lane(page, 4).locator(".call")).to_have_count(1)


def test_search_and_filters_leave_what_fits(watched: Stage, open_page: Any) -> None:
    page = open_page(watched.url).page
    expect(row(page, ASKED)).to_be_visible()
    page.locator("#search").fill("paris day")
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator("#counts")).to_contain_text("1 of ")
    page.locator("#search").fill("")
    page.locator("#outcome").select_option("failed")
    expect(page.locator(".row.failed").first).to_be_visible()
    expect(page.locator(".row:not(.failed)")).to_have_count(0)
    page.locator("#outcome").select_option("")
    page.locator("#model").select_option("thinker")
    expect(page.locator(".row")).to_have_count(1)
    page.locator("#model").select_option("")
    page.locator("#client").select_option("bob")
    expect(page.locator(".row")).to_have_count(2)


def test_one_key_saves_a_recording_that_can_be_replayed(watched: Stage, open_page: Any, tmp_path: Path) -> None:
    page = open_page(watched.url).page
    opened(page, ASKED)
    with page.expect_download() as download:
        page.keyboard.press("s")
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    document = Document.read(path.read_bytes())
    assert ASKED in path.read_text()
    assert first_difference(ReplayResult.recorded(document), replay(document, 1)) is None
    expect(page.locator("#told")).to_contain_text("saved")


def test_a_replay_plays_it_byte_by_byte(watched: Stage, open_page: Any) -> None:
    shown = open_page(watched.url)
    page = shown.page
    opened(page, ASKED)
    whole = lane(page, 3).locator(".flow").inner_text()
    page.keyboard.press("r")
    expect(page.locator(".verdict")).to_contain_text("the same as recorded, byte by byte")
    expect(page.locator(".place")).to_contain_text("of 110 characters")
    wait_until(lambda: int(page.locator(".player input").input_value()) > 20)
    page.keyboard.press("Space")
    at = int(page.locator(".player input").input_value())
    page.keyboard.press("ArrowLeft")
    assert int(page.locator(".player input").input_value()) == at - 1
    page.locator(".player input").fill("64")
    shown.picture("replay")
    page.locator(".player input").fill("16")
    assert lane(page, 3).inner_text().startswith("I'll look it up.")
    expect(lane(page, 3).locator(".wrote.name")).to_have_count(0)
    expect(lane(page, 4).locator(".call")).to_have_count(0)
    page.locator(".player input").fill("110")
    expect(lane(page, 4).locator(".call")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.locator(".player")).to_be_hidden()
    assert lane(page, 3).locator(".flow").inner_text() == whole


def test_who_wants_no_motion_gets_none(watched: Stage, open_page: Any) -> None:
    page = open_page(watched.url, reduced_motion="reduce").page
    opened(page, ASKED)
    page.keyboard.press("r")
    expect(page.locator(".verdict")).to_contain_text("the same")
    assert page.locator(".player input").input_value() == "0"
    page.keyboard.press("ArrowRight")
    assert page.locator(".player input").input_value() == "1"


def test_one_key_copies_a_command_that_asks_the_same(watched: Stage, open_page: Any) -> None:
    shown = open_page(watched.url, permissions=["clipboard-read", "clipboard-write"])
    page = shown.page
    opened(page, ASKED)
    page.keyboard.press("c")
    expect(page.locator("#told")).to_contain_text("keys are not in it")
    command = page.evaluate("navigator.clipboard.readText()")
    assert command.startswith("curl -sSN ")
    assert "$API_KEY" in command
    # The watcher was told of sockets alone, and so of no address.
    body = command.partition("--data-raw ")[2]
    assert json.loads(
        subprocess.run(["sh", "-c", f"printf %s {body}"], capture_output=True, check=True).stdout
    ) == request(ASKED)


def test_one_key_makes_a_file_that_needs_nothing_else(watched: Stage, open_page: Any, tmp_path: Path) -> None:
    shown = open_page(watched.url)
    opened(shown.page, ASKED)
    with shown.page.expect_download() as download:
        shown.page.keyboard.press("e")
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    assert path.suffix == ".html"
    assert "alice" not in path.read_text()
    report = open_page(path.as_uri(), offline=True)
    page = report.page
    for number, words in enumerate((ASKED, "# Tools", "get_weather", "Zürich"), 1):
        expect(lane(page, number)).to_contain_text(words)
    expect(page.locator(".found")).to_contain_text("single quotes: repaired")
    page.keyboard.press("r")
    wait_until(lambda: int(page.locator(".player input").input_value()) > 20)
    page.keyboard.press("Escape")
    with page.expect_download() as download:
        page.keyboard.press("s")
    recording = tmp_path / "recording.json"
    download.value.save_as(recording)
    document = Document.read(recording.read_bytes())
    assert first_difference(ReplayResult.recorded(document), replay(document, 1)) is None
    assert report.troubles == []
    assert [url for url in report.asked if not url.startswith(("file:", "blob:", "data:"))] == []


def test_the_keyboard_leads_everywhere(watched: Stage, open_page: Any) -> None:
    """No mouse at all: from the address to a saved file, and back."""
    page = open_page(watched.url).page
    expect(row(page, ASKED)).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "list"
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("/")
    page.keyboard.type("zürich")
    page.keyboard.press("Enter")
    expect(page.locator(".row[aria-selected=true]")).to_have_count(1)
    active = page.locator("#list").get_attribute("aria-activedescendant")
    assert page.locator(f"[id='{active}']").get_attribute("role") == "option"
    page.keyboard.press("Enter")
    expect(lane(page, 1)).to_contain_text(ASKED)
    assert page.evaluate("document.activeElement.id") == "detail"
    page.keyboard.press("3")
    expect(page.locator(".lane:visible")).to_have_count(1)
    page.keyboard.press("3")
    expect(page.locator(".lane:visible")).to_have_count(4)
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "document.activeElement.dataset.key || document.activeElement.getAttribute('aria-label') || ''"
            )
        )
    assert {"s", "r", "c", "e", "The model wrote"} <= reached
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "list"
    page.keyboard.press("/")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.press("Delete")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    first = page.locator(".row[aria-selected=true]").get_attribute("aria-posinset")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert (first, page.locator(".row[aria-selected=true]").get_attribute("aria-posinset")) == ("1", "2")
    page.keyboard.press("G")
    last = page.locator(".row[aria-selected=true]")
    assert last.get_attribute("aria-posinset") == last.get_attribute("aria-setsize")


def test_the_rounds_of_a_character_stand_under_their_run(watched: Stage, open_page: Any) -> None:
    shown = open_page(watched.url)
    page = shown.page
    watched.backend.play(
        Reply('<tool_call>\n{"name": "log_story_event", "arguments": {"event": "the dragon returns"}}\n</tool_call>')
    )
    watched.backend.play(Reply("It is logged."))
    body = {"model": "character/narrator", "messages": [{"role": "user", "content": "Please log: the dragon returns"}]}
    assert watched.gateway.http.post(CHAT, json=body, headers=authorized("alice")).is_success
    run = row(page, "character/narrator")
    expect(run).to_be_visible()
    run.click()
    rounds = page.locator(".rounds li")
    expect(rounds).to_have_count(2)
    expect(rounds.first).to_contain_text("log_story_event")

    def stands_under_it(number: int) -> bool:
        """The list may still move: what ends goes to another place."""
        place = int(run.get_attribute("aria-posinset") or 0)
        [text] = page.locator(f".row.round[aria-posinset='{place + number}']").all_text_contents() or [""]
        return f"round {number}" in text

    for number in (1, 2):
        wait_until(partial(stands_under_it, number))
    shown.picture("run")
    rounds.last.get_by_role("button").click()
    expect(page.locator(".detail h2")).to_have_text("coder")
    expect(lane(page, 1).locator(".message[data-role=tool]")).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits(watched: Stage, open_page: Any, width: int) -> None:
    shown = open_page(watched.url, width, 844, device_scale_factor=1 if width > 400 else 2)
    page = shown.page
    expect(row(page, ASKED)).to_be_visible()
    for looked_at in ("list", "exchange"):
        if looked_at == "exchange":
            opened(page, ASKED)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for each in page.locator("button:visible, select:visible, input:visible").all():
            box = each.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width, each
    if width == 390:
        expect(page.locator("#list")).to_be_hidden()
        shown.picture("narrow")
        page.locator("#back").click()
        expect(page.locator("#list")).to_be_visible()


# Ten thousand


WORDS = "Which way leads to the sea?"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`feed(n)` has so many exchanges there in all."""
    folder = tmp_path_factory.mktemp("many")
    reports = Path(__file__).parents[1] / "recordings" / "reports"
    document = Document.read((reports / "whole-answer.json").read_bytes())
    with watching(folder, "--megabytes", "1000") as url:
        feeder, sent = Feeder(folder), 0

        def feed(number: int) -> str:
            nonlocal sent
            for number_ in range(sent, number):
                minutes, seconds = divmod(number_ % 3600, 60)
                began = f"2026-01-31T12:{minutes:02}:{seconds:02}.000+00:00"
                feeder.say(frames_of(document, number_ + 1, began=began, client=f"client-{number_ % 7}"))
            sent = number
            return url

        yield feed
        feeder.close()


_KEY_TO_FRAME = """async (key) => {
  const times = [];
  for (let turn = 0; turn < 25; turn++) {
    const began = performance.now();
    document.getElementById("list").dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push(performance.now() - began);
  }
  return times.sort((one, other) => one - other)[12];
}"""
_SEARCH = """async (words) => {
  const search = document.getElementById("search"), times = [];
  for (let turn = 0; turn < 9; turn++) {
    search.value = turn % 2 ? "" : words;
    const began = performance.now();
    search.dispatchEvent(new Event("input", {bubbles: true}));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push(performance.now() - began);
  }
  search.value = "";
  search.dispatchEvent(new Event("input", {bubbles: true}));
  return times.sort((one, other) => one - other)[4];
}"""


def measured(page: Any, number: int) -> tuple[float, float]:
    """Milliseconds from a key to the next frame, and of a search, with so many exchanges there that are at rest."""
    expect(page.locator("#counts")).to_contain_text(f"{number:,} exchanges", timeout=120_000)
    wait_until(lambda: page.evaluate("[...list.all.values()].every((row) => row.state === 'called')"), 120)
    return page.evaluate(_KEY_TO_FRAME, "j"), page.evaluate(_SEARCH, "zürich")


def test_ten_thousand_exchanges_slow_nothing(many: Any, open_page: Any) -> None:
    shown = open_page(many(100))
    page = shown.page
    few = measured(page, 100)
    many(10_000)
    both = [measured(page, 10_000) for _ in range(2)]  # the machine may be busier than before
    lots = [min(each) for each in zip(*both, strict=True)]
    told = (
        f"{name}: {before:.1f} and {now:.1f} ms" for name, before, now in zip(("key", "search"), few, lots, strict=True)
    )
    print("with 100 and 10,000 exchanges,", ", ".join(told))
    assert page.locator(".row").count() < 60, "only what can be seen is there"
    assert lots[0] < 2 * few[0] + 20
    assert lots[1] < 4 * few[1] + 100
    page.evaluate("document.getElementById('list').scrollTop = 1e9")
    expect(page.locator(".row[aria-posinset='10000']")).to_be_visible()
    assert page.locator(".row").count() < 60
    page.locator(".row[aria-posinset='10000']").click()
    expect(lane(page, 3)).to_contain_text("Ich sehe nach.")
    assert shown.troubles == []
