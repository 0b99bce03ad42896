"""Clients that ask all the time, in a process of their own: `python -m tests.alerts.traffic CA CLIENTS`."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


@dataclass(frozen=True)
class Clients:
    """They ask one model of one gateway."""

    url: str
    model: str
    per_second: float
    texts: Sequence[str] = ("well",)
    """One after the other, and from the first on again, `rounds` times."""
    rounds: int | None = None
    tools: bool = True
    leave: bool = False
    """After the first piece of an answer."""
    key: str = ""
    """What they have in `authorization`."""
    traced: int = 0
    """Every so many of their requests is traced."""
    history: Sequence[Mapping[str, Any]] = ()
    """Messages before the text."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """More of the request."""


@contextmanager
def asking(authority: Path | None, *clients: Clients) -> Iterator[None]:
    """All of them ask, until the end of the block; `authority` is whose certificates they trust. What they get is
    nobody's concern here."""
    told = json.dumps([asdict(each) for each in clients])
    process = subprocess.Popen([sys.executable, "-m", "tests.alerts.traffic", str(authority or ""), told])
    try:
        yield
    finally:
        process.kill()
        process.wait(30)


async def _ask_all(trust: ssl.SSLContext, clients: Sequence[Clients]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for each in clients:
            tasks.create_task(_ask_on(trust, each, tasks))


async def _ask_on(trust: ssl.SSLContext, clients: Clients, tasks: asyncio.TaskGroup) -> None:
    # Each has a pool of its own: what a pool does for a request takes as long as it has connections.
    http = httpx.AsyncClient(verify=trust, timeout=None, limits=httpx.Limits(max_connections=None))
    loop = asyncio.get_running_loop()
    due = loop.time()
    rounds = itertools.count() if clients.rounds is None else range(clients.rounds)
    asked = 0
    for _ in rounds:
        for text in clients.texts:
            asked += 1
            traced = clients.traced > 0 and asked % clients.traced == 0
            tasks.create_task(_ask(http, clients, text, traced=traced))
            due += 1 / clients.per_second
            await asyncio.sleep(due - loop.time())


async def _ask(http: httpx.AsyncClient, clients: Clients, text: str, *, traced: bool) -> None:
    messages = [*clients.history, {"role": "user", "content": text}]
    body: dict[str, Any] = {"model": clients.model, "stream": True, "messages": messages, **clients.fields}
    headers = {"authorization": clients.key} if clients.key else {}
    if traced:
        headers["traceparent"] = f"00-{os.urandom(16).hex()}-{os.urandom(8).hex()}-01"
    if clients.tools:
        body["tools"] = TOOLS
    with suppress(httpx.HTTPError):
        async with http.stream("POST", f"{clients.url}/v1/chat/completions", json=body, headers=headers) as answer:
            async for _ in answer.aiter_raw():
                if clients.leave:
                    return


if __name__ == "__main__":
    told = [Clients(**each) for each in json.loads(sys.argv[2])]
    asyncio.run(_ask_all(ssl.create_default_context(cafile=sys.argv[1] or None), told))
