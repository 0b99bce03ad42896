"""Clients that ask all the time, in a process of their own: `python -m tests.alerts.traffic CA CLIENTS`."""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
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


@contextmanager
def asking(authority: Path, *clients: Clients) -> Iterator[None]:
    """All of them ask, until the end of the block. What they get is nobody's concern here."""
    told = json.dumps([asdict(each) for each in clients])
    process = subprocess.Popen([sys.executable, "-m", "tests.alerts.traffic", str(authority), told])
    try:
        yield
    finally:
        process.kill()
        process.wait(30)


async def _ask_all(trust: ssl.SSLContext, clients: Sequence[Clients]) -> None:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(verify=trust, timeout=None, limits=limits) as http, asyncio.TaskGroup() as tasks:
        for each in clients:
            tasks.create_task(_ask_on(http, each, tasks))


async def _ask_on(http: httpx.AsyncClient, clients: Clients, tasks: asyncio.TaskGroup) -> None:
    loop = asyncio.get_running_loop()
    due = loop.time()
    rounds = itertools.count() if clients.rounds is None else range(clients.rounds)
    for _ in rounds:
        for text in clients.texts:
            tasks.create_task(_ask(http, clients, text))
            due += 1 / clients.per_second
            await asyncio.sleep(due - loop.time())


async def _ask(http: httpx.AsyncClient, clients: Clients, text: str) -> None:
    body: dict[str, Any] = {"model": clients.model, "stream": True, "messages": [{"role": "user", "content": text}]}
    if clients.tools:
        body["tools"] = TOOLS
    with suppress(httpx.HTTPError):
        async with http.stream("POST", f"{clients.url}/v1/chat/completions", json=body) as answer:
            async for _ in answer.aiter_raw():
                if clients.leave:
                    return


if __name__ == "__main__":
    told = [Clients(**each) for each in json.loads(sys.argv[2])]
    asyncio.run(_ask_all(ssl.create_default_context(cafile=sys.argv[1]), told))
