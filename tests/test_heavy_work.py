"""Whatever one client or backend sends, others go on: what is large is bounded, read elsewhere, or read in steps."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.config import parse
from extproc.contract import json_nodes
from extproc.contract.errors import ApiError
from extproc.contract.json_body import MOST_NODES, decode
from extproc.exchange.content_coding import Decoder, UnreadableCodingError, decoded
from extproc.exchange.effects import Breathe, Prepare, ReadCompletion
from extproc.exchange.machine import Exchange
from extproc.exchange.phases import Phase
from extproc.exchange.reading import LARGE_ANSWER
from extproc.exchange.request import LARGE, PATIENCE
from extproc.exchange.streaming import LARGEST_EVENT, STEP
from extproc.server.workers import Workers
from extproc.server.workers.process import WorkerBugError, WorkerDiedError, WorkerProcess
from extproc.surfaces import prepare, rewrite_completion, streamed_answer
from extproc.wire import ProcessingResponse
from scripted_vllm import Reply
from tests.gateway import MODEL, Gateway, wait_until
from tests.test_answer import CALL, completion
from tests.test_exchange import (
    EVENTS,
    JSON,
    WITH_TOOLS,
    asked,
    carried,
    request_body,
    request_headers,
    response_body,
    response_headers,
    started,
)
from tests.test_request import CONFIG, MESSAGES
from tests.test_retry import DEMAND, SETTINGS
from tests.test_server import connected

pytestmark = pytest.mark.long

DEEP = b"[" * 190 + b"]" * 190


def with_metadata(inside: bytes) -> bytes:
    return orjson.dumps({**MESSAGES, "metadata": None}).replace(b'"metadata":null', b'"metadata":' + inside)


HOSTILE = {
    "deep": with_metadata(b"[" + b",".join([DEEP] * (MOST_NODES // 190 + 1)) + b"]"),
    "small": with_metadata(b"[" + b",".join([b"{}"] * MOST_NODES) + b"]"),
    "keys": with_metadata(b"{" + b",".join(b'"%x":1' % n for n in range(MOST_NODES + 1)) + b"}"),
}


class TestNodes:
    @pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
    def test_too_many_are_refused_before_any_is_built(self, body: bytes) -> None:
        with pytest.raises(ApiError) as refusal:
            decode(body)
        assert (refusal.value.status, refusal.value.code) == (413, "request_too_large")
        assert str(MOST_NODES) in refusal.value.message

    def test_text_is_none(self) -> None:
        text = '[{"\\,' * MOST_NODES
        fields = decode(orjson.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}))
        assert fields["messages"][0]["content"] == text

    values = st.recursive(
        st.none() | st.integers() | st.text('a"\\[]{},:', max_size=6),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('a"\\[', max_size=4), inner, max_size=4),
    )

    @given(values, st.integers(1, 9))
    def test_all_are_counted_however_the_text_is_cut(self, value: Any, piece: int) -> None:
        text = json.dumps(value).encode()
        whole = json_nodes.count_nodes(text, 10**9)
        assert _nodes(value) <= whole <= 2 * _nodes(value)
        usual, json_nodes.PIECE = json_nodes.PIECE, piece
        try:
            assert json_nodes.count_nodes(text, 10**9) == whole
        finally:
            json_nodes.PIECE = usual

    def test_an_answer_may_not_have_too_many_either(self) -> None:
        answer = prepare(orjson.dumps(WITH_TOOLS), CONFIG).answer
        assert answer is not None
        body = b'{"choices":[],"x":[' + b",".join([b"{}"] * MOST_NODES) + b"]}"
        with pytest.raises(ApiError, match="JSON values"):
            rewrite_completion(body, answer)


def _nodes(value: Any) -> int:
    match value:
        case dict():
            return 1 + sum(map(_nodes, value.values()))
        case list():
            return 1 + sum(map(_nodes, value))
        case _:
            return 1


@dataclass(frozen=True)
class Dies:
    """An effect that is none: it does to its process what a body does that is too much for it."""

    how: str
    body: bytes = b""
    client: str | None = None

    def perform(self) -> ApiError:
        match self.how:
            case "memory":
                bytearray(1 << 40)
            case "bug":
                raise ValueError("the request says: " + SECRET)
            case _:
                os.kill(os.getpid(), getattr(signal, self.how))
        raise AssertionError

    def failed(self, why: str) -> ApiError:
        return ApiError(413, why)


SECRET = "sesame"


class Waits(Prepare):
    """Another: it waits for a byte in a FIFO, whose path stands in the place of the settings."""

    __slots__ = ()

    def perform(self) -> ApiError:
        with open(str(self.config), "rb", buffering=0) as fifo:
            fifo.read(1)
            return ApiError(400, "waited")


def waits(fifo: Path, size: int, client: str) -> Waits:
    return Waits(bytes(size), str(fifo), client)  # type: ignore[arg-type]


@contextmanager
def opened(fifo: Path) -> Iterator[int]:
    """Its end for writing, though nobody reads yet: each byte is for one who waits."""
    descriptor = os.open(fifo, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    workers = Workers()
    yield workers
    workers.close()


@pytest.fixture(scope="module")
def perform(runner: asyncio.Runner, workers: Workers) -> Callable[..., list[Any]]:
    """Performs effects, all at once, in workers that all tests here share."""

    async def all_of(effects: tuple[Any, ...]) -> list[Any]:
        return [*await asyncio.gather(*map(workers.perform, effects))]

    return lambda *effects: runner.run(all_of(effects))


class TestWorkers:
    def test_what_comes_back_is_what_would_come_here(self, perform: Callable[..., list[Any]]) -> None:
        strict = parse(SETTINGS.format(model=MODEL, port=1), source="test")
        plan = prepare(orjson.dumps(WITH_TOOLS), CONFIG)
        assert plan.answer is not None
        large = {**WITH_TOOLS, "messages": [{"role": "user", "content": "x" * 2_000_000}]}
        prepares = [
            Prepare(orjson.dumps(WITH_TOOLS), CONFIG),
            Prepare(orjson.dumps({**DEMAND, "model": "strict"}), strict),
            Prepare(orjson.dumps(large), CONFIG, "ann"),
        ]
        for effect, result in zip(prepares, perform(*prepares), strict=True):
            here = effect.perform()
            assert not isinstance(here, ApiError)
            assert (result.body, result.answer, result.again) == (here.body, here.answer, here.again)
        faulty = completion('<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>')
        for body in (completion(CALL), faulty, completion("x" * 2_000_000)):
            answer = ReadCompletion(gzip.compress(body), "gzip", len(body), plan.answer, plan.sent)
            (result,) = perform(answer)
            rewritten = answer.perform()
            assert not isinstance(rewritten, ApiError)
            assert len(result.body) == len(rewritten.body)  # ids of calls are made up
            assert (result.violations, result.violations.first) == (rewritten.violations, rewritten.violations.first)
            assert (result.usage, result.called) == (rewritten.usage, rewritten.called)

    def test_errors_come_back_too(self, perform: Callable[..., list[Any]]) -> None:
        wrong = Prepare(orjson.dumps({**WITH_TOOLS, "temperature": 9}), CONFIG)
        refused, hostile = perform(wrong, Prepare(HOSTILE["deep"], CONFIG))
        assert (refused.status, refused.param) == (400, "temperature")
        assert hostile.status == 413

    @pytest.mark.parametrize(
        ("how", "status", "size"),
        [("memory", 413, 0), ("SIGPROF", 413, 2_000_000), ("SIGKILL", 503, 0)],
        ids=["memory", "time", "killed"],
    )
    def test_what_it_dies_of_is_an_error_and_the_next_is_done(
        self, how: str, status: int, size: int, perform: Callable[..., list[Any]]
    ) -> None:
        error, after = perform(Dies(how, bytes(size)), Prepare(orjson.dumps(WITH_TOOLS), CONFIG))
        assert error.status == status
        assert after.model == WITH_TOOLS["model"]

    def test_one_that_gives_no_sign_is_ended_and_said_to_have_been_silent(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("extproc.server.workers.process.PATIENCE", 0.001)  # it takes longer to begin
        worker = WorkerProcess()
        with pytest.raises(WorkerDiedError, match=r"^a worker gave no sign for 0\.001 seconds$"):
            worker.perform([Prepare(orjson.dumps(WITH_TOOLS), CONFIG)])
        assert worker.pid is None

    def test_a_bug_is_told_by_its_place_alone(self, perform: Callable[..., list[Any]]) -> None:
        with pytest.raises(WorkerBugError, match="perform") as bug:
            perform(Dies("bug"))
        assert SECRET not in str(bug.value)

    def test_who_sends_much_waits_for_himself(self, runner: asyncio.Runner, workers: Workers, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        done: list[str] = []

        async def sent(client: str) -> None:
            await workers.perform(waits(fifo, 1000, client))
            done.append(client)

        async def main() -> None:
            tasks = [asyncio.create_task(sent(client)) for client in [*["much"] * 4, "ann", "bob"]]
            for _ in tasks:
                os.write(writer, b".")
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                tasks = [task for task in tasks if not task.done()]

        with opened(fifo) as writer:
            runner.run(main())
        assert done == ["much", "ann", "bob", "much", "much", "much"]

    def test_nobody_takes_all_the_room(self, runner: asyncio.Runner, workers: Workers, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        half = 48 * 1024 * 1024

        async def main() -> list[ApiError]:
            tasks = [
                asyncio.create_task(workers.perform(waits(fifo, size, client)))
                for size, client in [(half, "ann"), (half // 2, "ann"), (half // 2, "bob"), (half, "eve")]
            ]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            results = [task.result() if task.done() else None for task in tasks]
            while waiting := [task for task in tasks if not task.done()]:  # one after the other reads the FIFO
                os.write(writer, b".")
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return results  # type: ignore[return-value]

        with opened(fifo) as writer:
            first, second, third, fourth = runner.run(main())
        assert first is third is None
        assert second.code == fourth.code == "overloaded"


def test_a_worker_ends_with_its_processor(tmp_path: Path) -> None:
    async def main() -> int:
        async with connected(CONFIG, tmp_path) as (processor, _):
            await processor.workers.perform(Prepare(orjson.dumps(WITH_TOOLS), CONFIG))
            (pid,) = processor.workers.pids
            return pid

    pid = asyncio.run(main())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def event(**delta: Any) -> bytes:
    return (
        b"data: "
        + orjson.dumps({"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        + b"\n\n"
    )


LAST = b'data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def said_by(stream: bytes) -> tuple[str, str]:
    """Content and arguments, joined."""
    content = arguments = ""
    for line in stream.splitlines():
        if not line.startswith(b"data: {"):
            continue
        for choice in orjson.loads(line[6:])["choices"]:
            content += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls", ()):
                arguments += call["function"].get("arguments", "")
    return content, arguments


class TestStreams:
    """Of backends that send as much at once as they like."""

    @staticmethod
    def begun(**fields: str) -> Exchange:
        exchange = asked({**WITH_TOOLS, "stream": True})
        exchange.receive(response_headers({**EVENTS, **fields}))
        return exchange

    @staticmethod
    def steps(exchange: Exchange, body: bytes) -> tuple[list[int], bytes]:
        """How long what comes of each step is, and all of it."""
        lengths, joined = [], b""
        replies = exchange.receive(response_body(body))
        while replies:
            effect = None
            length = 0
            for reply in replies:
                if isinstance(reply, ProcessingResponse):
                    piece = reply.response_body.response.body_mutation.streamed_response.body
                    length += len(piece)
                    joined += piece
                else:
                    assert isinstance(reply, Breathe)
                    effect = reply
            lengths.append(length)
            replies = exchange.resume(None) if effect else []
        return lengths, joined

    def test_a_large_piece_is_read_in_steps(self) -> None:
        words = [event(content=f"word {number} ") for number in range(5000)]
        lengths, joined = self.steps(self.begun(), b"".join(words) + LAST)
        assert len(lengths) > sum(map(len, words)) // STEP
        assert said_by(joined)[0] == "".join(f"word {number} " for number in range(5000))
        assert joined.endswith(b"data: [DONE]\n\n")

    @pytest.mark.parametrize(
        "text", ["```json\n", "<tool_call>", "x", "{"], ids=["fences", "markers", "letters", "braces"]
    )
    def test_so_is_a_large_event(self, text: str) -> None:
        text *= 100_000 // len(text)
        lengths, joined = self.steps(self.begun(), event(role="assistant", content=text) + LAST)
        assert len(lengths) > len(text) // STEP
        answer = streamed_answer(prepare(orjson.dumps({**WITH_TOOLS, "stream": True}), CONFIG).answer)  # type: ignore[arg-type]
        small = b"".join(answer.feed(event(content=text[start : start + 1000])) for start in range(0, len(text), 1000))
        assert said_by(joined) == said_by(small + answer.feed(LAST))

    def test_and_a_call_in_it_stays_whole(self) -> None:
        arguments = json.dumps({"city": "x" * 50_000})
        call = '<tool_call>\n{"name": "get_weather", "arguments": ' + arguments + "}\n</tool_call>"
        _, joined = self.steps(self.begun(), event(content="Look: " + call) + LAST)
        assert said_by(joined)[1] == arguments

    def test_an_event_may_not_be_larger_than_it_can_be_read_at_once(self) -> None:
        exchange = self.begun()
        _, joined = self.steps(exchange, b'data: {"x":"' + b"x" * LARGEST_EVENT)
        assert b"too large" in joined

    def test_nor_have_more_choices_than_a_request_may_ask_for(self) -> None:
        choices = [{"index": n, "delta": {"content": "x"}, "finish_reason": None} for n in range(200)]
        _, joined = self.steps(self.begun(), b"data: " + orjson.dumps({"choices": choices}) + b"\n\n")
        assert b"more than 128 choices" in joined

    def test_a_bomb_goes_off_in_steps(self) -> None:
        bomb = gzip.compress((b": " + b"x" * 1000 + b"\n") * 20_000)
        assert len(bomb) < 100_000
        lengths, _ = self.steps(self.begun(**{"content-encoding": "gzip"}), bomb)
        assert len(lengths) > 20_000_000 // STEP
        assert max(lengths) < 100_000


class TestCoding:
    @given(st.lists(st.binary(max_size=3000), min_size=1, max_size=4), st.integers(1, 5000), st.integers(1, 5000))
    def test_members_in_a_row_are_one_text_however_it_is_cut(self, texts: list[bytes], cut: int, most: int) -> None:
        data = b"".join(map(gzip.compress, texts))
        decoder = Decoder("gzip")
        steps = [step for at in range(0, len(data), cut) for step in decoder.steps(data[at : at + cut], most)]
        assert b"".join(steps) == b"".join(texts)
        assert max(map(len, steps)) <= most

    def test_a_body_may_not_become_larger_than_any_other(self) -> None:
        with pytest.raises(UnreadableCodingError, match="more than 1000 bytes"):
            decoded(zlib.compress(bytes(1_000_000)), "deflate", 1000)

    def test_nor_have_any_number_of_members(self) -> None:
        with pytest.raises(UnreadableCodingError, match="parts"):
            decoded(gzip.compress(b"") * 2000, "gzip", 1000)


class TestAnswers:
    def test_a_large_one_is_read_elsewhere(self) -> None:
        exchange = asked(WITH_TOOLS)
        exchange.receive(response_headers(JSON))
        wait, effect = exchange.receive(response_body(completion("x" * LARGE_ANSWER)))
        assert isinstance(wait, ProcessingResponse)
        assert wait.HasField("override_message_timeout")
        assert isinstance(effect, ReadCompletion)
        (reply,) = exchange.resume(effect.perform())
        assert isinstance(reply, ProcessingResponse)
        assert reply.response_body.HasField("response")

    def test_a_bomb_is_no_answer(self) -> None:
        exchange = asked(WITH_TOOLS)
        exchange.receive(response_headers({**JSON, "content-encoding": "gzip"}))
        *_, reply = carried(exchange, response_body(gzip.compress(bytes(40_000_000))))
        assert reply.immediate_response.status.code == 502

    def test_nobody_looks_for_words_in_a_large_error(self) -> None:
        exchange = asked(WITH_TOOLS)
        exchange.receive(response_headers(JSON, 400))
        *_, reply = carried(exchange, response_body(b'{"error":{"message":"no"},"x":[' + b"[]," * 100_000 + b"0]}"))
        assert b"answered 400" in reply.response_body.response.body_mutation.body


@pytest.mark.parametrize(
    ("characters", "phase"), [(PATIENCE - 200, Phase.RESPONSE_HEADERS), (PATIENCE + 200, Phase.PREPARING)]
)
def test_many_malformed_arguments_are_repaired_elsewhere(characters: int, phase: Phase) -> None:
    arguments = "{'text': '" + "x" * (characters // 2)  # of two calls, neither of which is JSON
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "f", "arguments": arguments + str(n)}}
        for n in (1, 2)
    ]
    results = [{"role": "tool", "tool_call_id": f"call_{n}", "content": "done"} for n in (1, 2)]
    messages = [*MESSAGES["messages"], {"role": "assistant", "tool_calls": calls}, *results]
    exchange = started()
    exchange.receive(request_headers())
    exchange.receive(request_body({**WITH_TOOLS, "messages": messages}))
    assert exchange.phase is phase


def test_hostile_bodies_are_refused_at_the_front_door_and_others_are_served(gateway: Gateway) -> None:
    for body in HOSTILE.values():
        answer = gateway.http.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 413
        assert answer.json()["error"]["code"] == "request_too_large"
    gateway.backend.play(Reply("Well."))
    large = {**WITH_TOOLS, "model": "coder", "messages": [{"role": "user", "content": "x" * LARGE}]}
    answer = gateway.http.post("/v1/chat/completions", json=large)
    assert answer.json()["choices"][0]["message"]["content"] == "Well."
