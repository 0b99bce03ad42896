"""Keeps what a client sends: a server that answers as an OpenAI-compatible one, by a script of turns.

    python -m tests.requests.capture tests/requests/scripts/opencode.json FOLDER [--workspace DIRECTORY] [--port N]

Each request becomes a file in FOLDER, numbered, with path, headers and body. A request that offers tools gets the
script's next turn; any other (a title, a summary) gets a few words, unless the script says `every`. A turn is an object
with the fields that it needs: `content`, `reasoning`, `calls` as pairs of name and arguments (an object, or a string
that is sent as it is), or `error` with the fields of an error object. `@WORKSPACE@` stands for the client's directory.

It listens on the loopback interface only, and answers 400 once the script is over: some clients never stop by
themselves. What it keeps is its author's text: never commit it before `redact` has been over it.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.requests import Json

_PAUSE = 0.02
"""Between two events of a stream: some clients behave differently when all comes at once."""
_USAGE = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}


class Recorder(ThreadingHTTPServer):
    """The server, with its script and its folder."""

    daemon_threads = True

    def __init__(self, script: Json, folder: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Exchange)
        self._turns: Iterator[Json] = iter(script["turns"])
        self._every = bool(script.get("every"))
        self._folder = folder
        self._lock = threading.Lock()
        self._count = 0
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, path: str, headers: Json, body: Json) -> tuple[int, Json]:
        """Write one request down; its number, and the turn that answers it."""
        with self._lock:
            self._count += 1
            kept = {"path": path, "headers": headers, "body": body}
            (self._folder / f"{self._count:03}.json").write_text(json.dumps(kept, ensure_ascii=False, indent=1))
            if not path.endswith("/chat/completions"):
                return self._count, {"error": {"message": "no such path", "type": "invalid_request_error"}}
            if not body.get("tools") and not self._every:
                return self._count, {"content": "A few words"}
            over = {"error": {"message": "the script is over", "type": "invalid_request_error"}}
            return self._count, next(self._turns, over)


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Recorder

    def do_GET(self) -> None:
        self._whole(200, {"object": "list", "data": [{"id": "m1", "object": "model", "created": 1, "owned_by": "x"}]})

    def do_POST(self) -> None:
        body: Json = json.loads(self._body())
        number, turn = self.server.keep(self.path, dict(self.headers), body)
        if "error" in turn:
            self._whole(400, {"error": turn["error"]})
            return
        answer = {"id": f"chatcmpl-{number}", "created": int(time.time()), "model": body["model"]}
        calls = list(_calls(turn, number))
        finish_reason = "tool_calls" if calls else "stop"
        message = {"role": "assistant", "content": turn.get("content"), "reasoning_content": turn.get("reasoning")}
        if not body.get("stream"):
            choice: Json = {"index": 0, "message": {**message, "tool_calls": calls}, "finish_reason": finish_reason}
            self._whole(200, {**answer, "object": "chat.completion", "choices": [choice], "usage": _USAGE})
            return
        deltas: list[Json] = [{name: value} for name, value in message.items() if value]
        for index, call in enumerate(calls):
            deltas += _pieces(index, call)
        choices: list[Json] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": finish_reason})
        chunk = {**answer, "object": "chat.completion.chunk"}
        chunks = [{**chunk, "choices": [choice]} for choice in choices]
        if (body.get("stream_options") or {}).get("include_usage"):
            chunks.append({**chunk, "choices": [], "usage": _USAGE})
        self._events([*(json.dumps(item) for item in chunks), "[DONE]"])

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing: the files are the log."""

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers["content-length"]))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _whole(self, status: int, value: Json) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _events(self, events: list[str]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()
            time.sleep(_PAUSE)
        self.wfile.write(b"0\r\n\r\n")


def _calls(turn: Json, number: int) -> Iterator[Json]:
    for index, (name, arguments) in enumerate(turn.get("calls", ())):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield {"id": f"call_{number}_{index}", "type": "function", "function": {"name": name, "arguments": text}}


def _pieces(index: int, call: Json) -> list[Json]:
    """A call as a stream has it: its name first, its arguments in two halves."""
    function = call["function"]
    half = len(function["arguments"]) // 2
    pieces: list[Json] = [{**call, "function": {**function, "arguments": ""}}]
    pieces += [
        {"function": {"arguments": part}} for part in (function["arguments"][:half], function["arguments"][half:])
    ]
    return [{"tool_calls": [{"index": index, **piece}]} for piece in pieces]


def main() -> None:
    """Print the address, and serve until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.requests.capture", description=__doc__)
    parser.add_argument("script", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workspace", default="/workspace", help="the client's directory (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    options = parser.parse_args()
    script = json.loads(options.script.read_text().replace("@WORKSPACE@", options.workspace))
    with Recorder(script, options.folder, options.port) as recorder:
        print(f"http://127.0.0.1:{recorder.server_port}/v1", flush=True)
        try:
            recorder.serve_forever()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
