"""`extproc watch`: what processors show, who gets to see it, what is kept of it; and what it never disturbs."""

from __future__ import annotations

import asyncio
import select
import socket
import stat
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from extproc.config import Address, Config, parse
from extproc.exchange.context import ExchangeContext
from extproc.exchange.machine import Exchange
from extproc.observability.telemetry import Telemetry
from extproc.recording import feed as feeding
from extproc.recording.document import Document, Kind
from extproc.recording.frames import Frame, FrameError, Frames, Tag, entry, told
from extproc.recording.kept import Kept
from extproc.recording.recordings import Recordings
from extproc.recording.tap import Tap
from extproc.watch.collecting import Collected, collecting
from extproc.watch.process import PageOptions, page_served
from extproc.watch.watched import Exchanges
from extproc.wire import HeaderMap, HeaderValue, HttpBody, HttpHeaders, ProcessingRequest
from scripted_vllm import Fail, Reply, ScriptedVLLM
from tests.reloadable import Gateway as Workers
from tests.reloadable import eventually, running
from tests.test_cli import run
from tests.test_reports import REPORTS
from tests.watch_stage import CHAT, KEYS, Feeder, Page, Stage, authorized, frames_of, over, request, stage
from tests.watch_stage import watching as watching_process

CALL = 'Sofort. <tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
TOKEN = "t" * 24
BEGAN = "2026-01-31T12:00:00.000+00:00"
[STREAM] = [Document.read(path.read_bytes()) for path in REPORTS if path.stem == "stream-in-many-pieces"]


# A gateway that is watched


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("watch")) as running:
        yield running


@pytest.fixture
def page(watched: Stage) -> Iterator[Page]:
    page = Page(watched.url)
    yield page
    page.close()


def newest(page: Page, words: str) -> dict[str, Any]:
    """The exchange that asked this, when it has ended."""
    rows = page.rows(lambda rows: any(row["words"] == words and row["state"] != "running" for row in rows))
    return next(row for row in reversed(rows.values()) if row["words"] == words)


def test_an_exchange_is_on_the_page_with_its_four_lanes(watched: Stage, page: Page) -> None:
    watched.backend.play(Reply(CALL, pace=0.002))
    answer = watched.ask("Weather, in four lanes?")
    row = newest(page, "Weather, in four lanes?")
    assert (row["model"], row["client"], row["tools"], row["stream"]) == ("coder", "alice", 1, True)
    made = page.exchange(row["id"])
    assert made["asked"] == request("Weather, in four lanes?")
    assert made["shown"]["messages"][0]["content"].startswith("Be brief.\n\n# Tools")
    [written] = made["written"]
    assert "".join(span["text"] for span in written["spans"]) == CALL
    assert {span["kind"] for span in written["spans"]} == {"content", "marker", "name", "arguments"}
    assert [item["name"] for item in made["received"]["items"]] == ["", "get_weather"]
    assert made["summary"]["completion_tokens"]
    assert "get_weather" in answer.text
    rows = page.rows(lambda rows: any(each["id"] == row["id"] and each["calls"] for each in rows))
    assert rows[row["id"]]["state"] == "called"


def test_the_open_one_grows_while_its_model_writes(watched: Stage, page: Page) -> None:
    watched.backend.play(Reply("word " * 600, pace=0.1))
    with watched.gateway.http.stream("POST", CHAT, json=request("Slowly, please"), headers=authorized("bob")):
        rows = page.rows(lambda rows: any(row["words"] == "Slowly, please" and row["first_ms"] for row in rows))
        row = next(row for row in rows.values() if row["words"] == "Slowly, please")
        assert row["state"] == "running"
        lengths = []
        with page.http.stream("GET", f"/exchanges/{row['id']}/events") as events:
            for line in events.iter_lines():
                if line.startswith("data: ") and '"written"' in line:
                    lengths.append(line.count("word "))
                if len(set(lengths)) == 3:
                    break
        assert len(set(lengths)) == 3
        assert lengths == sorted(lengths), "there is more and more of it"


@pytest.mark.parametrize(
    ("model", "reply", "words", "state", "error"),
    [
        ("coder", Reply(trouble=Fail(503)), "It is down", "failed", "service_unavailable"),
        ("absent", None, "Nobody is there", "failed", "backend_unreachable"),
        ("coder", Reply(CALL.replace("get_weather", "fetch")), "A wrong name", "invalid", None),
        ("coder", Reply("Hello!"), "Only words", "answered", None),
    ],
)
def test_how_it_ended_is_told(
    watched: Stage, page: Page, model: str, reply: Reply | None, words: str, state: str, error: str | None
) -> None:
    if reply is not None:
        watched.backend.play(reply)
    watched.ask(words, model=model)
    row = newest(page, words)
    assert (row["state"], row["error"]) == (state, error)


def test_what_goes_past_the_processor_is_told_as_such(watched: Stage, page: Page) -> None:
    watched.backend.play(Reply("Hello!"))
    watched.ask("No tools", tools=None)
    row = newest(page, "No tools")
    assert row["state"] == "passed"
    assert page.exchange(row["id"])["passed"]


def test_no_key_no_cookie_and_no_address_is_in_what_is_taken_along(watched: Stage, page: Page) -> None:
    watched.backend.play(Reply(CALL))
    secrets = {"cookie": "session=0123456789", "x-forwarded-for": "192.0.2.7", "x-of-some-proxy": "internal-0123456789"}
    body = request("Secrets?")
    watched.gateway.http.post(f"{CHAT}?key=sk-query-0123456789", json=body, headers={**secrets, **authorized("alice")})
    row = newest(page, "Secrets?")
    for what in ("recording", "report", "curl"):
        content = page.http.get(f"/exchanges/{row['id']}/{what}").raise_for_status().text
        for secret in (KEYS["alice"], "0123456789", "192.0.2.7", f"127.0.0.1:{watched.backend.port}", "alice"):
            assert secret not in content, (what, secret)
        assert "Secrets?" in content
    replayed = page.http.get(f"/exchanges/{row['id']}/replay").json()
    assert replayed == {"same": True, "steps": replayed["steps"]}
    recording = Document.read(page.http.get(f"/exchanges/{row['id']}/recording").content)
    assert recording.finished


def test_what_is_not_there_is_a_404(page: Page) -> None:
    for path in (
        "/exchanges/9-9/events",
        "/exchanges/9-9/recording",
        "/page/guard.py",
        "/page/..%2fguard.py",
        "/nowhere",
    ):
        assert page.http.get(path).status_code == 404, path


def test_the_socket_is_for_our_own_user_alone(watched: Stage) -> None:
    mode = (watched.folder / "watch.sock").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


# Who gets to see it


def test_without_the_token_there_is_nothing(watched: Stage) -> None:
    base = watched.url.partition("?")[0]
    for path in ("/", "/?token=", "/?token=wrong", "/events?token=x", "/exchanges/1-1/recording"):
        assert httpx.get(base.rstrip("/") + path).status_code == 403, path
    wrong = httpx.get(base, cookies={f"extproc_watch_{httpx.URL(base).port}": "wrong"})
    assert wrong.status_code == 403
    assert "extproc watch" in wrong.text
    assert "script-src" in wrong.headers["content-security-policy"]


def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_have(watched: Stage) -> None:
    entered = httpx.get(watched.url)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert cookie.startswith(f"extproc_watch_{httpx.URL(watched.url).port}=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "attacker.example"}, 421),
        ({"host": "attacker.example:9003"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_other_sites_and_rebound_names_are_refused_with_the_token_too(
    page: Page, headers: dict[str, str], status: int
) -> None:
    assert page.http.get("/", headers=headers).status_code == status


def test_it_takes_only_questions_and_loads_nothing_from_elsewhere(page: Page) -> None:
    assert page.http.post("/", content=b"x").status_code == 405
    answer = page.http.get("/")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "//" not in answer.text.replace("<!doctype", ""), "no address of any other place"


def test_an_address_that_others_reach_has_to_be_asked_for(tmp_path: Path) -> None:
    done = run("watch", "--sockets", tmp_path, "--listen", "0.0.0.0:9003")
    assert done.status == 2
    assert "can be reached from other machines" in done.stderr
    assert run("watch").status == 2


# The feed, at exchanges of its own


CONFIG = parse(
    "models: [{name: coder, backend: qwen, tools: prompt}]\nbackends: [{name: qwen, address: 'h:1'}]\n"
    "limits: {max_body_bytes: 100000000}\n"
)


def begin(recordings: Recordings, config: Config = CONFIG, words: str = "Hello") -> Any:
    """An exchange whose request has come."""
    exchange = recordings.of(Exchange(ExchangeContext(config), Telemetry(config)))
    fields = {":method": "POST", ":path": CHAT, "authorization": "Bearer sk-0123456789", "x-request-id": "r"}
    headers = HeaderMap(headers=[HeaderValue(key=key, raw_value=value.encode()) for key, value in fields.items()])
    body = b'{"model": "coder", "messages": [{"role": "user", "content": "%b"}]}' % words.encode()
    exchange.receive(ProcessingRequest(request_headers=HttpHeaders(headers=headers)))
    exchange.receive(ProcessingRequest(request_body=HttpBody(body=body, end_of_stream=True)))
    return exchange


@contextmanager
def at(folder: Path) -> Iterator[tuple[Recordings, Config]]:
    recordings = Recordings(None)
    yield recordings, CONFIG.model_copy(update={"sockets": folder, "watch": True})
    recordings.close()


@asynccontextmanager
async def listening(folder: Path) -> AsyncIterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "watch.sock"))
        server.listen()
        server.setblocking(False)
        yield server


async def frames_from(connection: socket.socket, until: Any, seconds: float = 10) -> list[Frame]:
    frames = Frames()
    found: list[Frame] = []
    async with asyncio.timeout(seconds):
        while not until(found):
            found += frames.feed(await asyncio.get_running_loop().sock_recv(connection, 1 << 16))
    return found


async def until(condition: Any) -> None:
    """Wait for something that has no other sign."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def ended(frames: list[Frame]) -> bool:
    return any(frame.tag is Tag.ENDED for frame in frames)


def test_unless_it_is_wanted_nothing_stands_in_between() -> None:
    exchange = Exchange(ExchangeContext(CONFIG), Telemetry(CONFIG))
    assert Recordings(None).of(exchange) is exchange


def test_unless_somebody_looks_nothing_stands_in_between(tmp_path: Path) -> None:
    async def scene() -> None:
        with at(tmp_path) as (recordings, config):
            exchange = Exchange(ExchangeContext(config), Telemetry(config))
            assert recordings.of(exchange) is exchange

    asyncio.run(scene())


def test_what_is_private_never_leaves_the_process(tmp_path: Path) -> None:
    async def scene() -> bytes:
        async with listening(tmp_path) as server:
            with at(tmp_path) as (recordings, config):
                exchange = begin(recordings, config)
                assert type(exchange) is Tap
                exchange.close()
                connection, _ = await asyncio.get_running_loop().sock_accept(server)
                with connection:
                    frames = await frames_from(connection, ended)
                tags = [frame.tag for frame in frames]
                assert tags[:2] == [Tag.HELLO, Tag.BEGAN]
                assert tags[-1] is Tag.ENDED
                assert Tag.TERMS in tags
                return b"".join(frame.data for frame in frames)

    data = asyncio.run(scene())
    assert b"sk-0123456789" not in data
    assert b"authorization" in data
    assert b"Hello" in data


def test_a_watcher_that_reads_nothing_costs_exchanges_on_the_page_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeding, "MOST_WAITING", 2_000_000)
    monkeypatch.setattr(feeding, "_FOR_NEW", 1_000_000)

    async def scene() -> None:
        async with listening(tmp_path) as server:
            with at(tmp_path) as (recordings, config):
                longest = 0.0
                for _ in range(40):
                    began = time.monotonic()
                    exchange = begin(recordings, config, "x" * 100_000)
                    exchange.close()
                    longest = max(longest, time.monotonic() - began)
                    await asyncio.sleep(feeding.GATHER)
                assert longest < 2, "nobody waits for it"
                connection, _ = await asyncio.get_running_loop().sock_accept(server)
                with connection:
                    frames = await frames_from(connection, lambda found: any(frame.tag is Tag.LOST for frame in found))
                lost = sum(frame.words["exchanges"] for frame in frames if frame.tag is Tag.LOST)
                shown = sum(frame.tag is Tag.BEGAN for frame in frames)
                assert lost > 0
                assert lost + shown == 40

    asyncio.run(scene())


def test_a_watcher_that_goes_and_another_that_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "AGAIN", 0.0)

    async def scene(recordings: Recordings, config: Config) -> None:
        loop = asyncio.get_running_loop()
        async with listening(tmp_path) as server:
            under_way = begin(recordings, config)
            connection, _ = await loop.sock_accept(server)
            connection.close()
        (tmp_path / "watch.sock").unlink()
        assert type(begin(recordings, config)) is Exchange
        async with listening(tmp_path) as server:
            begin(recordings, config, "Again").close()
            under_way.close()  # of which the new one knows nothing
            connection, _ = await loop.sock_accept(server)
            with connection:
                frames = await frames_from(connection, ended)
            assert [frame.number for frame in frames if frame.tag is Tag.ENDED] == [frames[1].number]
            assert b"Again" in b"".join(frame.data for frame in frames)

    with at(tmp_path) as (recordings, config):
        asyncio.run(scene(recordings, config))


def test_when_the_setting_goes_nothing_is_shown_any_more(tmp_path: Path) -> None:
    async def scene() -> None:
        async with listening(tmp_path) as server:
            with at(tmp_path) as (recordings, config):
                begin(recordings, config).close()
                connection, _ = await asyncio.get_running_loop().sock_accept(server)
                off = config.model_copy(update={"watch": False})
                assert type(begin(recordings, off)) is Exchange
                with connection:
                    assert (
                        await frames_from(connection, lambda _: select.select([connection], [], [], 0)[0]) is not None
                    )

    asyncio.run(scene())


# What is kept


def taken(folder: Path) -> Collected:
    return Collected(folder / "watch.sock", 1 << 26, 60)


def exchanges(most_bytes: int = 1 << 30, seconds: float = 60) -> Exchanges:
    return Exchanges(most_bytes, seconds, lambda _: None)


def put(kept: Exchanges, connection: int, number: int, *, ends: bool = True) -> None:
    frames = Frames()
    for frame in frames.feed(frames_of(STREAM, number, began=BEGAN, client="alice", ends=ends)):
        kept.take(connection, frame)


def test_frames_are_read_in_any_cut() -> None:
    data = told(0, Tag.HELLO, {"pid": 1}) + frames_of(STREAM, 1, began=BEGAN)
    whole = list(Frames().feed(data))
    frames = Frames()
    assert [frame for at in range(0, len(data), 7) for frame in frames.feed(data[at : at + 7])] == whole
    assert whole[2].kept is not None


@pytest.mark.parametrize(
    "data", [b"\0" * 17, b"\xff" * 17, entry(1, Kept(0, Kind.SAID, b"", {"status": 200})).replace(b"{", b"[")]
)
def test_what_is_no_frame_is_told_as_such(data: bytes) -> None:
    with pytest.raises(FrameError):
        _ = [frame.kept for frame in Frames().feed(data)]


def test_what_is_kept_is_bounded_and_what_is_over_leaves_first() -> None:
    kept = exchanges()
    connection = kept.connected()
    put(kept, connection, 1)
    size = kept.size
    kept = exchanges(most_bytes=5 * size)
    connection = kept.connected()
    put(kept, connection, 1, ends=False)
    for number in range(2, 20):
        put(kept, connection, number)
        assert kept.size <= 5 * size
    assert kept.get(f"{connection}-1") is not None, "it still runs"
    assert kept.get(f"{connection}-2") is None
    assert kept.get(f"{connection}-19") is not None
    assert kept.forgotten == 19 - len(kept)
    kept.disconnected(connection)
    first = kept.get(f"{connection}-1")
    assert first is not None
    assert first.ended is not None
    assert first.summary.complete is False


def test_what_ended_long_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = exchanges(seconds=60)
    connection = kept.connected()
    put(kept, connection, 1)
    put(kept, connection, 2, ends=False)
    kept.forget_old()
    assert len(kept) == 2
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)
    kept.forget_old()
    assert kept.all()[0].summary.id == f"{connection}-2"
    assert len(kept) == 1
    assert kept.size > 0


def test_what_is_of_no_interest_after_all_is_gone() -> None:
    kept = exchanges()
    connection = kept.connected()
    put(kept, connection, 1, ends=False)
    kept.take(connection, Frame(1, Tag.DROPPED, 0.0, b""))
    assert (len(kept), kept.size) == (0, 0)


def test_its_recording_is_the_one_that_would_have_been_made() -> None:
    kept = exchanges()
    connection = kept.connected()
    put(kept, connection, 1)
    found = kept.get(f"{connection}-1")
    assert found is not None
    assert found.document().entries == STREAM.entries
    assert found.document().settings == STREAM.settings


def test_two_processors_are_told_apart_and_nonsense_ends_only_its_own_connection(tmp_path: Path) -> None:
    async def scene() -> None:
        page = PageOptions(Address("127.0.0.1", 0), "http://127.0.0.1:10000", TOKEN)
        async with collecting(taken(tmp_path)) as kept, page_served(kept, page) as url:
            one, other = Feeder(tmp_path), Feeder(tmp_path)
            one.say(frames_of(STREAM, 1, began=BEGAN))
            other.say(frames_of(STREAM, 1, began=BEGAN))
            other.say(told(0, Tag.LOST, {"exchanges": 3}))
            await until(lambda: len(kept) == 2 and kept.lost == 3)
            other.say(b"\xff" * 100)
            await until(lambda: len(kept.processors) == 1)
            one.say(frames_of(STREAM, 2, began=BEGAN))
            await until(lambda: len(kept) == 3)
            async with httpx.AsyncClient(follow_redirects=True) as http:
                assert (await http.get(url)).status_code == 200
            one.close()
            other.close()
        assert not (tmp_path / "watch.sock").exists()

    asyncio.run(scene())


def test_a_second_watcher_is_refused(tmp_path: Path) -> None:
    async def scene() -> None:
        async with collecting(taken(tmp_path)):
            with pytest.raises(OSError, match="somebody does already"):
                async with collecting(taken(tmp_path)):
                    pass

    asyncio.run(scene())


# Several workers, and a change of the configuration


@pytest.mark.long
def test_each_worker_shows_its_exchanges_and_a_change_of_the_setting_is_followed(tmp_path: Path) -> None:
    with ScriptedVLLM(model="qwen").running() as backend, watching_process(tmp_path) as url:
        gateway = Workers(tmp_path, backend)
        settings = {**gateway.settings("coder"), "workers": 2, "sockets": str(tmp_path)}
        gateway.write({**settings, "watch": True})
        with running(gateway, follows=False, workers=2), closing(Page(url)) as page:
            asked = 0

            def asked_both() -> bool:
                """Several at once: the one with the fewest calls gets the next, and Envoy's log is a call too."""
                nonlocal asked
                with ThreadPoolExecutor(6) as pool:
                    assert {answer.status_code for answer in pool.map(gateway.ask, ["coder"] * 6)} == {200}
                asked += 6
                return len({identity.partition("-")[0] for identity in page.rows(over(asked))}) == 2

            eventually(asked_both)
            gateway.reload({**settings, "watch": False})
            for _ in range(4):
                assert gateway.ask("coder").status_code == 200
            gateway.reload({**settings, "watch": True})
            for _ in range(4):
                assert gateway.ask("coder").status_code == 200
            assert len(page.rows(over(asked + 4))) == asked + 4
