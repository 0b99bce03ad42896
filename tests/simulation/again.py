"""Envoy's inner listener as the processor asks it for a second answer: HTTP/1.1, and what a backend makes of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

import h11
import orjson

from extproc.names import BACKEND_HEADER
from tests.simulation.answers import streamed, whole
from tests.simulation.checking import check
from tests.simulation.judging import MARKER, check_priority
from tests.simulation.plans import Plan, Second


class InnerListener:
    """Serves a connection at a time; `plans` knows the exchanges by their markers."""

    def __init__(
        self, plans: dict[bytes, Plan], rng: random.Random, known: Callable[[str], bool], first: Mapping[bytes, str]
    ) -> None:
        """`known`: whether Envoy has a backend of this name; `first`: which backend was asked at first, by marker."""
        self._plans = plans
        self._rng = rng
        self._known = known
        self._first = first
        self.asked: set[bytes] = set()
        self.wrong: list[str] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._talk(reader, writer)
        except Exception as error:
            self.wrong.append(repr(error))
        finally:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http, body = h11.Connection(h11.SERVER), bytearray()
        backend = ""
        while not isinstance(event := http.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                piece = await reader.read(65_536)
                if not piece:
                    return  # whoever asked has gone
                http.receive_data(piece)
            elif isinstance(event, h11.Request):
                backend = dict(event.headers)[BACKEND_HEADER.encode()].decode()
            elif isinstance(event, h11.Data):
                body += event.data
        (marked,) = set(MARKER.findall(body))
        plan = self._plans[marked]
        check(plan.second is not None, "a backend is asked again that needn't be")
        check_priority(plan, orjson.loads(bytes(body)))
        check(marked not in self.asked, "a backend is asked a third time")
        check(self._known(backend), f"it is asked of {backend}, which Envoy doesn't know")
        check(backend == self._first[marked], f"{self._first[marked]} is asked, and then {backend}")
        self.asked.add(marked)
        await asyncio.sleep(self._rng.choice((0.0, 0.01, 3.0, 100.0)))
        await self._answer(http, plan, reader, writer)

    async def _answer(
        self, http: h11.Connection, plan: Plan, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if plan.second is Second.NOTHING:
            return
        if plan.second is Second.SILENCE:
            await reader.read()
            return
        if plan.second is Second.BUSY:
            status, said = 503, b'{"error": {"message": "busy"}}'
        elif plan.stream:
            status, said = 200, b"".join(streamed(self._rng, plan.mode, plan.again, cut=False))
        else:
            status, said = 200, whole(plan.mode, plan.again)
        length = len(said) + (100 if plan.second is Second.BROKEN else 0)
        writer.write(http.send(h11.Response(status_code=status, headers=[("content-length", str(length))])) or b"")
        writer.write(http.send(h11.Data(data=said)) or b"")
        if plan.second is not Second.BROKEN:
            writer.write(http.send(h11.EndOfMessage()) or b"")
        await asyncio.sleep(0.001)
