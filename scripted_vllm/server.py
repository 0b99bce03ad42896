"""The scripted vLLM itself: routes, the queue of replies, and what it was sent.

It stands in for a GPU and for nothing else: requests are checked and answered as `vllm serve` (0.32.0, without a tool
parser) was recorded to do, and only the model's text comes from a script or from the small built-in model. Routes
that it doesn't play are 404s, as they are on a vLLM that serves a chat model (embeddings), or would need more than the
model's text (the Responses and Messages APIs).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from scripted_vllm import metrics, shapes, small_model, template
from scripted_vllm.checks import ChatRequest, RequestError, Served, read_chat, read_completion, read_prompt
from scripted_vllm.connection import Connection, Received
from scripted_vllm.replies import Generation, Pieces, Reply, generate
from scripted_vllm.script import Answer, refusal, streamed, unary, whole
from scripted_vllm.template import Turn

_REMEMBERED = 10_000
"""Requests kept for inspection: enough for any test, and bounded for a server that runs for days."""


_TURNS_TO_CONNECT = 4
"""Turns of the loop until a connection that was accepted just now has its task."""


class ScriptedVLLM:
    """A vLLM server whose model is a script, or without one a small built-in model.

    Use it as an async context manager, or from synchronous code with `running()`. `play`, `requests`, `abandoned` and
    `wait_for` may be used from any thread.
    """

    def __init__(
        self,
        model: str = "qwen2.5-coder-0.5b",
        max_model_len: int = 4096,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        pieces: Pieces = "tokens",
        pace: float = 0.0,
        tool_parser: bool = False,
        multimodal: bool = False,
        think: bool = False,
        speak: Callable[[ChatRequest], Reply] | None = None,
    ) -> None:
        """`pieces` and `pace` are for the built-in model's answers, and so is `think`: with it those to requests with
        tools begin with a thought in tags, as from a server without a reasoning parser. Port 0 takes any free one.

        With `tool_parser` it takes tools with any choice, as a server with a parser does; nothing here parses, so a
        reply's calls are given apart from its text. With `multimodal` it takes images, and looks at none. `speak` is a
        model to take the built-in one's place in chats: it answers when no reply is queued, in the server's thread.
        """
        self._served = Served(model, max_model_len, tool_parser, multimodal)
        self._speak = self._built_in if speak is None else speak
        self._host = host
        self._wanted_port = port
        self._pieces: Pieces = pieces
        self._pace = pace
        self._think = think
        self._metrics = metrics.Metrics(model)
        self._changed = threading.Condition()
        self._queue: deque[Reply] = deque()
        self._requests: deque[Received] = deque(maxlen=_REMEMBERED)
        self._abandoned: deque[Received] = deque(maxlen=_REMEMBERED)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        if self._server is None or not self._server.sockets:
            raise RuntimeError("the server is not running")
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """Scheme, host and port; the API is below `/v1`."""
        return f"http://{self._host}:{self.port}"

    @property
    def requests(self) -> list[Received]:
        """What was sent so far, oldest first."""
        with self._changed:
            return list(self._requests)

    @property
    def abandoned(self) -> list[Received]:
        """Those of them whose client went before it had the whole answer."""
        with self._changed:
            return list(self._abandoned)

    def play(self, *replies: Reply) -> None:
        """Queue replies. Requests that vLLM would serve take them in order, one for each choice they ask for.

        When a request asks for more choices than there are replies left, the last one serves for the rest. With
        several choices, the first reply's trouble, pace and cuts hold for the whole answer.
        """
        with self._changed:
            self._queue.extend(replies)

    def forget(self) -> None:
        """Drop the replies that wait, and what was sent so far."""
        with self._changed:
            self._queue.clear()
            self._requests.clear()
            self._abandoned.clear()

    def wait_for(self, condition: Callable[[], bool], timeout: float = 30.0) -> bool:
        """Wait until `condition` holds, checked whenever a request arrives or ends. False: time is up."""
        with self._changed:
            return self._changed.wait_for(condition, timeout)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, self._host, self._wanted_port, backlog=1024)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is None:
            return
        # No more are accepted, and those that were are let in: asyncio leaves them open once the server is closed.
        for listening in self._server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(_TURNS_TO_CONNECT):
            await asyncio.sleep(0)
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        """Serve from a thread with a loop of its own, for synchronous code."""
        started: Future[Callable[[], object]] = Future()

        async def serve() -> None:
            loop, stopping = asyncio.get_running_loop(), asyncio.Event()
            async with self:
                started.set_result(lambda: loop.call_soon_threadsafe(stopping.set))
                await stopping.wait()

        def run() -> None:
            try:
                asyncio.run(serve())
            except OSError as error:
                if started.done():
                    raise
                started.set_exception(error)

        thread = threading.Thread(target=run, name="scripted-vllm")
        thread.start()
        try:
            stop = started.result()
            try:
                yield self
            finally:
                stop()
        finally:
            thread.join()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer)
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        task.add_done_callback(lambda _: connection.abort())  # one that is cancelled before it begins closes nothing

    async def _serve(self, connection: Connection) -> None:
        try:
            await connection.serve(self._answer, self._ended)
        except asyncio.CancelledError:
            connection.abort()  # The server is closing.
            raise
        finally:
            await connection.close()

    def _answer(self, request: Received) -> Answer:
        with self._changed:
            self._requests.append(request)
            self._metrics.running += _generates(request)
            self._changed.notify_all()
        if request.route not in _ROUTES:
            return whole(shapes.dump({"detail": "Not Found"}), status=404)
        method, answer = _ROUTES[request.route]
        if request.method != method:
            body = shapes.dump({"detail": "Method Not Allowed"})
            return whole(body, status=405, headers=[("allow", method)])
        try:
            return answer(self, request)
        except RequestError as error:
            return refusal(error)

    def _ended(self, request: Received, stayed: bool) -> None:
        with self._changed:
            self._metrics.running -= _generates(request)
            if not stayed:
                self._abandoned.append(request)
            self._changed.notify_all()

    def _chat(self, received: Received) -> Answer:
        request = read_chat(received.body, self._served)
        replies = self._replies(request.n, lambda: self._speak(request))
        choices = [generate(reply, max_tokens=request.max_tokens, stop=request.stop) for reply in replies]
        reply = replies[0]
        prompt = request.prompt_tokens if reply.usage is None else reply.usage.prompt
        self._count(prompt, choices)
        stamp = self._stamp(received)
        if request.stream:
            return streamed(shapes.stream(stamp, request, choices, prompt), reply)
        return unary(shapes.dump(shapes.completion(stamp, request, choices, prompt)), reply)

    def _completion(self, received: Received) -> Answer:
        request = read_completion(received.body, self._served)
        [reply] = self._replies(1, lambda: self._said([Turn("user", request.prompt)]))
        choice = generate(reply, max_tokens=request.max_tokens, stop=request.stop)
        prompt = request.prompt_tokens if reply.usage is None else reply.usage.prompt
        self._count(prompt, [choice])
        stamp = self._stamp(received)
        if request.stream:
            return streamed(shapes.text_stream(stamp, request, choice, prompt), reply)
        return unary(shapes.dump(shapes.text_completion(stamp, choice, prompt)), reply)

    def _tokenize(self, received: Received) -> Answer:
        count = read_prompt(received.body, self._served)
        counted = {"count": count, "max_model_len": self._served.max_model_len}
        numbers = list(range(count))
        return whole(shapes.dump({**counted, "tokens": numbers, "token_strs": None}))

    def _replies(self, number: int, spoken: Callable[[], Reply]) -> list[Reply]:
        with self._changed:
            taken = [self._queue.popleft() for _ in range(min(number, len(self._queue)))]
        if not taken:
            taken = [spoken()]
        return taken + taken[-1:] * (number - len(taken))

    def _built_in(self, request: ChatRequest) -> Reply:
        turns = template.turns(request.messages, request.tools)
        return self._said(turns, thinks=self._think and request.may_think)

    def _said(self, turns: list[Turn], *, thinks: bool = False) -> Reply:
        return Reply(small_model.answer(turns, thinks=thinks), pieces=self._pieces, pace=self._pace)

    def _stamp(self, received: Received) -> shapes.Stamp:
        request_id = received.header("x-request-id")
        if request_id is None:
            return shapes.Stamp(self._served.name)
        return shapes.Stamp(self._served.name, request_id)

    def _count(self, prompt: int, choices: list[Generation]) -> None:
        self._metrics.prompt_tokens += prompt
        for choice in choices:
            self._metrics.generation_tokens += choice.completion_tokens
            self._metrics.finished[choice.finish_reason] += 1

    def _models(self, _: Received) -> Answer:
        return whole(shapes.dump(shapes.models(self._served, int(time.time()))))

    def _metrics_page(self, _: Received) -> Answer:
        return whole(self._metrics.render(), content_type=metrics.CONTENT_TYPE)

    def _alive(self, _: Received) -> Answer:
        return whole(b"")

    def _load(self, _: Received) -> Answer:
        return whole(shapes.LOAD)

    def _version(self, _: Received) -> Answer:
        return whole(shapes.VERSION)


_ROUTES: Mapping[str, tuple[str, Callable[[ScriptedVLLM, Received], Answer]]] = {
    "/v1/chat/completions": ("POST", ScriptedVLLM._chat),
    "/v1/completions": ("POST", ScriptedVLLM._completion),
    "/tokenize": ("POST", ScriptedVLLM._tokenize),
    "/v1/models": ("GET", ScriptedVLLM._models),
    "/health": ("GET", ScriptedVLLM._alive),
    "/ping": ("GET", ScriptedVLLM._alive),
    "/load": ("GET", ScriptedVLLM._load),
    "/version": ("GET", ScriptedVLLM._version),
    "/metrics": ("GET", ScriptedVLLM._metrics_page),
}


def _generates(request: Received) -> bool:
    return request.route in ("/v1/chat/completions", "/v1/completions")
