"""An Envoy as a process of its own, in a directory of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

from extproc.conformance.driver import HostError
from extproc.conformance.envoys.bootstrap import bootstrap, listener
from extproc.conformance.envoys.http1 import ask
from extproc.conformance.envoys.tap import Record
from extproc.conformance.envoys.wire import Pace
from extproc.conformance.host.settings import HostSettings, HttpMessage

_START_SECONDS = 30.0


class EnvoyError(HostError):
    """Envoy ends, or doesn't take a configuration."""


class Envoy:
    """Started on entering, in a directory that is there for it alone, and ended on leaving."""

    def __init__(self, program: Path, folder: Path, message_timeout: float) -> None:
        self._program, self._folder, self._message_timeout = program, folder, message_timeout
        self._listeners: dict[HostSettings, dict[str, Any]] = {}

    async def __aenter__(self) -> Envoy:
        self._publish()
        path = self._folder / "envoy.json"
        path.write_text(json.dumps(bootstrap(self._folder)), encoding="utf-8")
        command = [str(self._program), "-c", str(path), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: ASYNC220, S603
        await self._reached(self._folder / "admin")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, 10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def at(self, settings: HostSettings) -> Path:
        """The socket of a listener with these settings. Raises EnvoyError."""
        if settings not in self._listeners:
            name = f"listener_{len(self._listeners)}"
            self._listeners[settings] = listener(name, settings, self._folder, self._message_timeout)
            self._publish()
            await self._reached(self._folder / name)
        return self._folder / str(self._listeners[settings]["name"])

    async def counters(self) -> dict[str, int]:
        """Those of its ext_proc filters, over all listeners."""
        request = HttpMessage(
            ((":method", b"GET"), (":path", b"/stats?usedonly&filter=ext_proc"), (":authority", b"admin"))
        )
        pace = Pace(Record(), HostSettings())
        told = await ask(self._folder / "admin", request, pace, _START_SECONDS, head_only=False)
        result: dict[str, int] = {}
        for line in told.body.decode().splitlines():
            name, _, value = line.partition(": ")
            if value.isdigit():
                name = name.rpartition(".")[2]
                result[name] = result.get(name, 0) + int(value)
        return result

    def _publish(self) -> None:
        """Envoy reads the file when another one takes its place."""
        told = {"version_info": str(len(self._listeners)), "resources": list(self._listeners.values())}
        new = self._folder / "listeners.new"
        new.write_text(json.dumps(told), encoding="utf-8")
        new.replace(self._folder / "listeners.json")

    async def _reached(self, path: Path) -> None:
        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while True:
            try:
                _, writer = await asyncio.open_unix_connection(path)
            except OSError:
                late = asyncio.get_running_loop().time() > deadline
                if late or self._process.poll() is not None:
                    said = (self._folder / "log").read_text(errors="replace")[-600:]
                    raise EnvoyError(f"{self._program} doesn't listen at {path.name}: {said}") from None
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return
