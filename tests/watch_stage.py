"""A gateway whose exchanges are watched: a real Envoy and processor, and `extproc watch` as a process beside them."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from extproc.exchange.api_keys import hash_line
from extproc.recording.document import Document, Kind
from extproc.recording.envoy_json import bytes_from_json, from_json
from extproc.recording.frames import Tag, entry, told
from extproc.recording.kept import Kept
from extproc.wire import ProcessingRequest, ProcessingResponse
from tests.gateway import EXTPROC, MODEL, AskedVLLM, Gateway, configured_gateway, free_port

CHAT = "/v1/chat/completions"
KEYS = {"alice": "sk-alice-0123456789abcdef", "bob": "sk-bob-0123456789abcdef"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}


@contextmanager
def watching(folder: Path, *arguments: str) -> Iterator[str]:
    """`extproc watch` in front of the sockets in `folder`; yields the URL that it has printed."""
    command = [*EXTPROC, "watch", "--sockets", str(folder), "--listen", f"127.0.0.1:{free_port()}", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "http://" in line, line
            yield line.rpartition(" ")[2].strip()
        finally:
            process.terminate()
            assert process.wait(20) == 0


class Stage:
    """What tests send, and where they look."""

    def __init__(self, gateway: Gateway, backend: AskedVLLM, url: str, folder: Path) -> None:
        self.gateway = gateway
        self.backend = backend
        self.url = url
        self.folder = folder

    def ask(
        self, content: str = "What is the weather in Zürich?", *, key: str = "alice", **fields: Any
    ) -> httpx.Response:
        """One request with a tool, and its answer."""
        return self.gateway.http.post(CHAT, json=request(content, **fields), headers=authorized(key))


def request(content: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": content}]
    made = {"model": "coder", "messages": messages, "tools": [WEATHER], "stream": True, **fields}
    return {name: value for name, value in made.items() if value is not None}


def authorized(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS[key]}"}


@contextmanager
def stage(folder: Path, settings: str = "", **options: Any) -> Iterator[Stage]:
    """All of it, in `folder`. `settings` is more YAML."""
    keys, backend = folder / "keys", AskedVLLM(model=MODEL)
    keys.write_text("\n".join(hash_line(name, key) for name, key in KEYS.items()))
    with backend.running():
        configuration = f"""
api_keys: {keys}
models:
  - {{name: coder, backend: qwen, upstream_model: {MODEL}, tools: prompt}}
  - {{name: thinker, backend: qwen, upstream_model: {MODEL}, tools: template, format: qwen3_coder}}
  - {{name: native, backend: qwen, upstream_model: {MODEL}, tools: native}}
  - {{name: strict, backend: qwen, upstream_model: {MODEL}, tools: prompt, invalid_calls: error}}
  - {{name: absent, backend: absent, tools: prompt}}
backends:
  - {{name: qwen, address: "127.0.0.1:{backend.port}", health_check: false}}
  - {{name: absent, address: "127.0.0.1:1", health_check: false}}
watch: true
{settings}"""
        with watching(folder) as url, configured_gateway(folder, configuration, backend, **options) as gateway:
            yield Stage(gateway, backend, url, folder)


class Feeder:
    """A processor as the watcher sees one: sends it recordings as exchanges."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(folder / "watch.sock"))
        self.say(told(0, Tag.HELLO, {"pid": 1, "extproc": "test"}))

    def say(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close(self) -> None:
        self._socket.close()


def frames_of(document: Document, number: int, *, began: str, client: str | None = None, ends: bool = True) -> bytes:
    """What a processor would have said of this exchange."""
    model = document.settings["models"][0]["name"]
    terms = {"settings": document.settings, "addresses": "", "model": model, "client": client, "is_run": False}
    made = [told(number, Tag.BEGAN, {"began": began})]
    made += [entry(number, kept) for kept in kept_of(document)]
    made.append(told(number, Tag.TERMS, terms))
    if ends:
        made.append(told(number, Tag.ENDED, {"complete": document.complete}))
    return b"".join(made)


def kept_of(document: Document) -> Iterator[Kept]:
    """Its entries as they were kept."""
    for step in document.entries:
        match step.kind:
            case Kind.ENVOY:
                yield Kept(step.at, step.kind, from_json(step.what, ProcessingRequest).SerializeToString(), {})
            case Kind.PROCESSOR:
                yield Kept(step.at, step.kind, from_json(step.what, ProcessingResponse).SerializeToString(), {})
            case Kind.ASKED | Kind.SAID:
                beside = {name: value for name, value in step.what.items() if name != "body"}
                yield Kept(step.at, step.kind, bytes_from_json(step.what["body"]), beside)
            case _:
                yield Kept(step.at, step.kind, b"", step.what)


class Events:
    """The server-sent events of one address of the page."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def __next__(self) -> tuple[str, Any]:
        name = ""
        for line in self._lines:
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return name, json.loads(line.removeprefix("data: "))
        raise AssertionError("the stream has ended")


class Page:
    """A browser's view without a browser: the list as it changes, and what can be taken along."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url.partition("?")[0], timeout=20, follow_redirects=True)
        self.http.get(f"/?{url.partition('?')[2]}").raise_for_status()

    def rows(self, until: Any) -> dict[str, dict[str, Any]]:
        """The list, by id, when this holds of it."""
        rows: dict[str, dict[str, Any]] = {}
        with self.http.stream("GET", "/events") as answer:
            events = Events(answer.iter_lines())
            while True:
                _, told_ = next(events)
                for row in told_.get("exchanges", told_.get("changed", ())):
                    rows[row["id"]] = row
                for identity in told_.get("gone", ()):
                    rows.pop(identity, None)
                self.numbers = told_
                if until(list(rows.values())):
                    return rows

    def exchange(self, identity: str) -> dict[str, Any]:
        """One with its lanes, when it has ended."""
        made: dict[str, Any] = {}
        with self.http.stream("GET", f"/exchanges/{identity}/events") as answer:
            events = Events(answer.iter_lines())
            while True:
                name, news = next(events)
                if name == "end":
                    return made
                made |= news

    def close(self) -> None:
        self.http.close()


def over(number: int) -> Any:
    """So many exchanges have ended."""
    return lambda rows: sum(row["state"] != "running" for row in rows) >= number
