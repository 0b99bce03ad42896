"""A vLLM that answers each question of `extproc probe` as told: all kinds that one scripted vLLM can't be.

The shapes of the answers are those of vLLM 0.32, without the fields that nobody reads.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from extproc.config import Config, parse
from extproc.probe import Origin, Report, probe
from tests.serving_in_thread import serving_in_thread

NAME = "qwen2.5-coder-0.5b"
CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
TAGGED = f"<tool_call>\n{CALL}\n</tool_call>"
FORCED = '<forced>{"word": "zebra"}</forced>'
ODD_CHOICE = "zebra-zebra"


def question(path: str, body: Any) -> str:
    """The name of the question that a request puts."""
    if path != "/v1/chat/completions":
        return path if path.startswith(("/api/", "/openai/")) else path.rpartition("/")[2]
    if (body.get("response_format") or {}).get("type") == "structural_tag":
        return "structural_tag"
    constraint = body.get("structured_outputs", {})
    if constraint:
        return "structural_tag" if "structural_tag" in constraint else "choice"
    if "tools" in body:
        return str(body["tool_choice"])
    return "baseline" if body["max_tokens"] == 1 else "chat"


Played: TypeAlias = tuple[int, Any]
"""A status and a body: bytes as they are, anything else as JSON."""


def completion(
    content: str | None = "ready",
    *,
    prompt: int = 38,
    finish: str = "stop",
    reasoning_tokens: int | None = None,
    **message: Any,
) -> Played:
    """An answer as vLLM 0.32 words it, without the fields that nobody reads."""
    details = None if reasoning_tokens is None else {"reasoning_tokens": reasoning_tokens}
    spoken = {"role": "assistant", "content": content, "reasoning": None, **message}
    usage = {"prompt_tokens": prompt, "completion_tokens": 3, "completion_tokens_details": details}
    choice = {"index": 0, "message": spoken, "finish_reason": finish}
    return 200, {"object": "chat.completion", "choices": [choice], "usage": usage}


def refusal(message: str, status: int = 400) -> Played:
    return status, {"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}}


def card(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "object": "model", "owned_by": "vllm", "root": f"models/{name}", "parent": None, **fields}


def models(*cards: Any) -> Played:
    return 200, {"object": "list", "data": list(cards)}


NOT_FOUND: Played = 404, {"detail": "Not Found"}
NO_PARSER = refusal('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
CALLED = completion(
    "",
    prompt=182,
    finish="tool_calls",
    tool_calls=[
        {
            "id": "chatcmpl-tool-a5e60aaf750c9bc4",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
        }
    ],
)
PLAIN: Mapping[str, Played] = {
    "version": (200, {"version": "0.32.0"}),
    "models": models(card(NAME, max_model_len=4096)),
    "chat": completion(),
    "baseline": completion("As", finish="length"),
    "auto": NO_PARSER,
    "none": completion(TAGGED, prompt=182),
    "structural_tag": completion(FORCED),
    "choice": completion(ODD_CHOICE),
    "tokenize": NOT_FOUND,
    "detokenize": NOT_FOUND,
}
"""A vLLM without a tool parser, whose model calls tools as it should."""
KNOWN = PLAIN.keys()
"""All else is a 404 there."""


def rendered(call: str, *, opened: str = "", tools: str = "Get the current weather in a city") -> dict[str, Played]:
    """How a vLLM shows the prompt: as tokens, and these as text. It is the one of a real Qwen2.5."""
    prompt = (
        f"<|im_start|>system\n# Tools\n\n<tools>\n{tools}\n</tools>\n\nFor each function call, return a json object "
        'within <tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": '
        "<args-json-object>}\n</tool_call><|im_end|>\n<|im_start|>user\nWhat is the weather in Paris right now?"
        f"<|im_end|>\n<|im_start|>assistant\n{call}<|im_end|>\n<|im_start|>user\n<tool_response>\n"
        f"17 degrees and drizzle\n</tool_response><|im_end|>\n<|im_start|>assistant\n{opened}"
    )
    return {"tokenize": (200, {"count": 2, "tokens": [1, 2]}), "detokenize": (200, {"prompt": prompt})}


class Server:
    """Answers each question as told, and remembers what it was sent."""

    def __init__(self, answers: Mapping[str, Played], tls: ssl.SSLContext | None = None) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        if tls is not None:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True)
            self.url = f"https://localhost:{self.http.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers.get("content-length", 0)))
                asked = question(self.path, json.loads(sent) if sent else None)
                server.asked.append((asked, {name.lower(): value for name, value in self.headers.items()}))
                status, said = server.answers[asked] if asked in KNOWN or asked in server.answers else NOT_FOUND
                body = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 - as the base class names it
                pass

        return Handler


@contextmanager
def serving(tls: ssl.SSLContext | None = None, /, **answers: Played) -> Iterator[Server]:
    """The plain vLLM, with other answers to some questions."""
    server = Server({**PLAIN, **answers}, tls)
    with serving_in_thread(server.http):
        yield server


def ask(url: str, model: str | None = None, **options: Any) -> Report:
    return probe(Origin.parse(url), model, **{"timeout": 10.0, **options})


def config_of(report: Report) -> Config:
    """The printed configuration, as `extproc check` reads it."""
    return parse(report.yaml())


def asked(**answers: Played) -> Report:
    with serving(**answers) as server:
        return ask(server.url)


def settings(**answers: Played) -> tuple[str, str]:
    """The mode and the format that are advised."""
    [model] = config_of(asked(**answers)).models
    return model.tools, model.format
