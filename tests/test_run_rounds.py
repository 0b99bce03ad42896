"""A round, as the gateway is asked for it, and what becomes of its answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeAlias

import httpx2
import orjson
import pytest

from extproc.contract.errors import ApiError
from extproc.names import CHAT_PATH, DROPPED_HEADER, ROUND_HEADER
from extproc.runner.rounds import ModelRounds
from extproc.runner.steps import AskModel, ModelEnded, ModelSaid
from tests.simulation.virtual_time import virtual_time

Json: TypeAlias = dict[str, Any]

HI: Json = {"role": "user", "content": "Hi"}
CHUNK: Json = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "qwen"}
ANSWER = (
    b"data: "
    + orjson.dumps({**CHUNK, "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]})
    + b"\n\ndata: "
    + orjson.dumps({**CHUNK, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})
    + b"\n\ndata: [DONE]\n\n"
)


class Pieces(httpx2.AsyncByteStream):
    """A body as it comes from a socket."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._body), 7):
            yield self._body[at : at + 7]


def replied(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> httpx2.Response:
    return httpx2.Response(status, stream=Pieces(body), headers=headers)


def answered(_: httpx2.Request) -> httpx2.Response:
    return replied(200, ANSWER, {DROPPED_HEADER: "seed, top_k"})


class Asked:
    """One round, and what was sent for it."""

    def __init__(
        self, body: Json, ask: AskModel, answer: Callable[[httpx2.Request], httpx2.Response] = answered
    ) -> None:
        self.said: list[ModelSaid | ModelEnded] = []
        self.sent: Json = {}
        self.headers = httpx2.Headers()

        def handler(request: httpx2.Request) -> httpx2.Response:
            assert request.url.path == CHAT_PATH
            self.sent, self.headers = orjson.loads(request.content), request.headers
            return answer(request)

        async def work() -> None:
            transport = httpx2.MockTransport(handler)
            async with transport as client:
                self.rounds = ModelRounds(client, body, "max_tokens", {"x-request-id": "r1"})
                async for one in self.rounds.ask(ask):
                    self.said.append(one)

        with virtual_time() as loop:
            loop.run_until_complete(work())


def test_a_round_is_a_request_of_its_own() -> None:
    asked = Asked({"model": "qwen", "stream": True}, AskModel(3, [HI], 50))
    assert asked.sent == {"model": "qwen", "stream": True, "messages": [HI], "max_tokens": 50}
    assert (asked.headers[ROUND_HEADER], asked.headers["x-request-id"]) == ("3", "r1")
    first, last = asked.said
    assert isinstance(first, ModelSaid)
    assert last == ModelEnded(3, {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3})
    assert asked.rounds.envelope == CHUNK
    assert asked.rounds.dropped == ("seed", "top_k")


def test_only_the_first_goes_on_with_what_the_client_has_begun() -> None:
    body = {"model": "qwen", "add_generation_prompt": False, "continue_final_message": True}
    assert Asked(body, AskModel(1, [HI], None)).sent == {**body, "messages": [HI]}
    assert Asked(body, AskModel(2, [HI], None)).sent == {"model": "qwen", "messages": [HI]}


def test_what_is_left_of_an_answers_length_is_enough() -> None:
    body = {"model": "qwen", "min_tokens": 20}
    assert Asked(body, AskModel(1, [HI], 50)).sent["min_tokens"] == 20
    assert Asked(body, AskModel(2, [HI], 5)).sent["min_tokens"] == 5
    assert Asked(body, AskModel(2, [HI], None)).sent["min_tokens"] == 20


def test_an_error_is_the_gateways_own() -> None:
    def refuses(_: httpx2.Request) -> httpx2.Response:
        error = {"error": {"message": "Wait.", "type": "requests", "code": "rate_limit_exceeded"}}
        return replied(429, orjson.dumps(error), {"retry-after": "3", "server": "x"})

    with pytest.raises(ApiError, match=r"Wait\.") as caught:
        Asked({}, AskModel(1, [HI], None), refuses)
    assert (caught.value.status, caught.value.code) == (429, "rate_limit_exceeded")


def test_one_that_says_nothing_is_told_by_its_status() -> None:
    with pytest.raises(ApiError, match="the status 502") as caught:
        Asked({}, AskModel(1, [HI], None), lambda _: replied(502, b"<html>"))
    assert caught.value.status == 502


def test_a_gateway_that_is_away_is_unavailable() -> None:
    def away(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no")

    with pytest.raises(ApiError) as caught:
        Asked({}, AskModel(1, [HI], None), away)
    assert (caught.value.status, caught.value.code) == (503, "gateway_unreachable")


def test_an_answer_that_is_cut_off_is_an_error_behind_what_came() -> None:
    class Broken(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield ANSWER[:200]
            raise httpx2.ReadError("gone")

    asked = Asked({}, AskModel(1, [HI], None), lambda _: httpx2.Response(200, stream=Broken()))
    first, last = asked.said
    assert isinstance(first, ModelSaid)
    assert isinstance(last, ModelEnded)
    assert last.error is not None
    assert last.error.status == 502
