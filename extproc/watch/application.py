"""The page over HTTP: its files, the list and each exchange as they change, and what one can take along of an exchange.

What changes comes as server-sent events, gathered for a moment: a model writes faster than anybody reads.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from extproc.diagnosis import diagnose, told
from extproc.recording.difference import first_difference, steps_of
from extproc.recording.document import Document, RecordingError
from extproc.recording.replay import ReplayResult, replay
from extproc.watch import page
from extproc.watch.curl import curl
from extproc.watch.lanes import lanes
from extproc.watch.watched import Exchanges, Listener, Watched

GATHER = 0.1
"""Seconds between two events of a stream."""
QUIET = 15.0
"""Seconds after which a stream says that it is still there."""
_COSTLY = 8
"""An exchange that goes on is read again after so many times as long as reading it took."""
_FIXED = ("asked", "shown", "headers")
"""Of the lanes of an exchange: what is long and doesn't change once it is there."""

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
        exchanges, woken = self._exchanges, asyncio.Event()
        listener = Listener(woken.set)
        exchanges.listen(listener)
        try:
            yield _event("all", {"exchanges": exchanges.summaries(), **exchanges.numbers()})
            while True:
                if not await _woken(woken):
                    yield b":\n\n"
                    continue
                woken.clear()
                changed, gone = list(listener.changed), list(listener.gone)
                listener.changed.clear()
                listener.gone.clear()
                found = [watched for identity in changed if (watched := exchanges.get(identity)) is not None]
                rows = [watched.summary.as_json() for watched in found]
                yield _event("some", {"changed": rows, "gone": gone, **exchanges.numbers()})
                await asyncio.sleep(GATHER)
        finally:
            exchanges.unlisten(listener)

    async def exchange_events(self, request: Request) -> Response:
        if (watched := self._watched(request)) is None:
            return _gone()
        return _stream(self._one(watched))

    async def _one(self, watched: Watched) -> AsyncIterator[bytes]:
        woken = asyncio.Event()
        listener = Listener(woken.set)
        self._exchanges.listen(listener)
        told: Json = {}
        seen = -1
        try:
            while True:
                ended, changes = watched.ended is not None, watched.changes
                if changes != seen:
                    began, seen = time.monotonic(), changes
                    made = await asyncio.to_thread(exchange_json, watched)
                    news = {
                        name: value for name, value in made.items() if name not in _FIXED or told.get(name) != value
                    }
                    told = {name: made[name] for name in _FIXED}
                    yield _event("exchange", news)
                    await asyncio.sleep(max(GATHER, _COSTLY * (time.monotonic() - began)))
                if ended and watched.changes == seen and watched.ended is not None:
                    # What else is found out of it (`Exchanges.read`) is no part of its lanes.
                    yield _event("end", {})
                    return
                if watched.changes == seen and not await _woken(woken):
                    yield b":\n\n"
                woken.clear()
                listener.changed.clear()
                if self._exchanges.get(watched.summary.id) is not watched:
                    yield _event("end", {})
                    return
        finally:
            self._exchanges.unlisten(listener)

    async def recording(self, request: Request) -> Response:
        if (watched := self._watched(request)) is None:
            return _gone()
        document = await asyncio.to_thread(watched.document)
        return _download(document.written(), f"{_name(watched)}.json", "application/json")

    async def report(self, request: Request) -> Response:
        if (watched := self._watched(request)) is None:
            return _gone()
        made = await asyncio.to_thread(_report, watched)
        return _download(made, f"{_name(watched)}.html", "text/html")

    async def curl(self, request: Request) -> Response:
        if (watched := self._watched(request)) is None:
            return _gone()
        document = await asyncio.to_thread(watched.document)
        return PlainTextResponse(curl(document, self._gateway))

    async def replay(self, request: Request) -> Response:
        if (watched := self._watched(request)) is None:
            return _gone()
        if watched.ended is None:
            return Response(orjson.dumps({"trouble": "It hasn't ended yet."}), media_type="application/json")
        made = await asyncio.to_thread(lambda: replayed(watched.document()))
        return Response(orjson.dumps(made), media_type="application/json")

    def _watched(self, request: Request) -> Watched | None:
        return self._exchanges.get(request.path_params["identity"])


def exchange_json(watched: Watched) -> Json:
    """An exchange with its lanes, for the page."""
    ended = watched.ended is not None
    document = watched.document()
    made = lanes(document, ended=ended).as_json()
    made["diagnosis"] = _diagnosis(document) if ended else []
    return {**made, "summary": watched.summary.as_json(), "began": watched.summary.began, "ended": ended}


def _diagnosis(document: Document) -> list[dict[str, str]]:
    try:
        return [told(finding, quotes=True) for finding in diagnose(document)]
    except RecordingError:  # the lanes tell of it
        return []


def replayed(document: Document) -> Json:
    """What this very code makes of it, byte by byte: whether it is the same, else where it differs first."""
    try:
        now = replay(document, 1)
    except RecordingError as error:
        return {"trouble": str(error)}
    recorded = ReplayResult.recorded(document)
    difference = first_difference(recorded, now)
    made: Json = {"same": difference is None, "steps": steps_of(now)}
    if difference is not None:
        made |= {"place": difference.place, "recorded": difference.recorded, "now": difference.now}
    return made


def _report(watched: Watched) -> bytes:
    document = watched.document()
    made = exchange_json(watched)
    # Whose key it was, and what else isn't in a recording, is in no report either.
    made["summary"] = {**made["summary"], "client": None}
    made["recording"] = document.written().decode()
    made["extproc"] = document.extproc
    return page.report(made, f"extproc: {watched.summary.model or 'an exchange'}, {watched.summary.began}")


async def _woken(woken: asyncio.Event) -> bool:
    try:
        await asyncio.wait_for(woken.wait(), QUIET)
    except TimeoutError:
        return False
    return True


def _event(name: str, data: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(data))


def _stream(events: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(events, media_type="text/event-stream")


def _gone() -> Response:
    return PlainTextResponse("That exchange isn't here any more.\n", 404)


def _download(data: bytes, name: str, media_type: str) -> Response:
    return Response(data, media_type=media_type, headers={"content-disposition": f'attachment; filename="{name}"'})


def _name(watched: Watched) -> str:
    """An id can come from a client; what is left of it is a plain name."""
    identity = re.sub(r"[^A-Za-z0-9-]", "", watched.summary.request_id)[:36] or "unnamed"
    return f"extproc-{watched.began:%Y%m%dT%H%M%S}Z-{identity}"
