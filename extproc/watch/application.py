"""The page over HTTP: its files, the list and each exchange as they change, and what one can take along of an exchange.

What changes comes as server-sent events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from extproc.watch import page
from extproc.watch.curl import curl
from extproc.watch.following import changes, followed
from extproc.watch.viewed import name_of, replayed, report
from extproc.watch.watched import Exchanges, Watched

_FIXED = ("asked", "shown", "headers")
"""Of the lanes of an exchange: what is long and doesn't change once it is there."""
_STILL_THERE = b":\n\n"

Json = dict[str, Any]


def application(exchanges: Exchanges, gateway: str) -> Starlette:
    """Without its guard. `gateway` is the URL of the gateway, for commands."""
    pages = _Pages(exchanges, gateway)
    one = "/exchanges/{identity}"
    return Starlette(
        routes=[
            Route("/", pages.file),
            Route("/page/{name}", pages.file),
            Route("/events", pages.events),
            Route(f"{one}/events", pages.exchange_events),
            Route(f"{one}/recording", pages.recording),
            Route(f"{one}/report", pages.report),
            Route(f"{one}/curl", pages.curl),
            Route(f"{one}/replay", pages.replay),
        ]
    )


class _Pages:
    def __init__(self, exchanges: Exchanges, gateway: str) -> None:
        self._exchanges = exchanges
        self._gateway = gateway

    async def file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in page.FILES:
            return PlainTextResponse("not found\n", 404)
        return Response(page.content(name), media_type=page.TYPES[name.rpartition(".")[2]])

    async def events(self, _: Request) -> Response:
        return _stream(self._list())

    async def _list(self) -> AsyncIterator[bytes]:
        exchanges, first = self._exchanges, True
        async with aclosing(changes(exchanges)) as all_changes:
            async for some in all_changes:
                if some is None:
                    yield _STILL_THERE
                    continue
                rows = [watched.summary.as_json() for watched in some.changed]
                numbers = exchanges.numbers()
                if first:
                    yield _event("all", {"exchanges": rows, **numbers})
                else:
                    yield _event("some", {"changed": rows, "gone": some.gone, **numbers})
                first = False

    async def exchange_events(self, request: Request) -> Response:
        if (watched := self._watched(request)) is None:
            return _gone()
        return _stream(self._one(watched))

    async def _one(self, watched: Watched) -> AsyncIterator[bytes]:
        told: Json = {}
        async with aclosing(followed(self._exchanges, watched)) as views:
            async for view in views:
                if view is None:
                    yield _STILL_THERE
                    continue
                made = view.as_json()
                yield _event(
                    "exchange", {k: value for k, value in made.items() if k not in _FIXED or told.get(k) != value}
                )
                told = {name: made[name] for name in _FIXED}
        yield _event("end", {})

    async def recording(self, request: Request) -> Response:
        if (watched := self._watched(request)) is None:
            return _gone()
        document = await asyncio.to_thread(watched.document)
        return _download(document.written(), f"{name_of(watched)}.json", "application/json")

    async def report(self, request: Request) -> Response:
        if (watched := self._watched(request)) is None:
            return _gone()
        made = await asyncio.to_thread(report, watched)
        return _download(made, f"{name_of(watched)}.html", "text/html")

    async def curl(self, request: Request) -> Response:
        if (watched := self._watched(request)) is None:
            return _gone()
        document = await asyncio.to_thread(watched.document)
        return PlainTextResponse(curl(document, self._gateway))

    async def replay(self, request: Request) -> Response:
        if (watched := self._watched(request)) is None:
            return _gone()
        made = await asyncio.to_thread(replayed, watched)
        return Response(orjson.dumps(made.as_json()), media_type="application/json")

    def _watched(self, request: Request) -> Watched | None:
        return self._exchanges.get(request.path_params["identity"])


def _event(name: str, data: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(data))


def _stream(events: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(events, media_type="text/event-stream")


def _gone() -> Response:
    return PlainTextResponse("That exchange isn't here any more.\n", 404)


def _download(data: bytes, name: str, media_type: str) -> Response:
    return Response(data, media_type=media_type, headers={"content-disposition": f'attachment; filename="{name}"'})
