"""Asks the model: each round is a chat completion of the gateway's own, by Envoy's inner listener."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeAlias

import httpx2

from extproc.contract.errors import ApiError, backend_garbage
from extproc.contract.json_body import encode
from extproc.names import CHAT_PATH, DROPPED_HEADER, ROUND_HEADER
from extproc.runner.reading import RoundReader, error_in
from extproc.runner.steps import AskModel, ModelEnded, ModelSaid

Json: TypeAlias = dict[str, Any]

CONNECT_TIMEOUT = 5.0
"""Seconds. For all else Envoy's own limits hold, and the run's."""
_OF_ONE_BEGUN = ("add_generation_prompt", "continue_final_message")
"""How a message is gone on with: the answer that the client has begun, and no tool's result."""
_LARGEST_ERROR = 64 * 1024
_KEPT = ("retry-after", "retry-after-ms", "x-should-retry")
"""Of the head of an error."""


_URL = httpx2.URL(f"http://gateway{CHAT_PATH}")
_PATIENCE = {"timeout": httpx2.Timeout(None, connect=CONNECT_TIMEOUT).as_dict()}


def connections_to(socket: Path) -> httpx2.AsyncBaseTransport:
    """For all runs: as many as there are rounds under way.

    Without the library's client around it, whose cookies, redirects and the like take 0.3 ms of each round.
    """
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=60)
    return httpx2.AsyncHTTPTransport(uds=str(socket), limits=limits)


class ModelRounds:
    """The rounds of one run."""

    def __init__(
        self, connections: httpx2.AsyncBaseTransport, body: Json, tokens_name: str, headers: Mapping[str, str]
    ) -> None:
        """`body` and `headers` are what all rounds have in common; `tokens_name` is what limits their length."""
        self._connections = connections
        self._body = body
        self._tokens_name = tokens_name
        told = {**headers, "content-type": "application/json", "accept-encoding": "identity"}
        self._headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in told.items()]
        self.envelope: Json = {}
        """What the first round's chunks have beside their choices."""
        self.dropped: tuple[str, ...] = ()
        """The parameters that the backend didn't get."""
        self.kept: dict[str, str] = {}
        """What an error's head says for its client."""

    async def ask(self, asked: AskModel) -> AsyncGenerator[ModelSaid | ModelEnded, None]:
        """See `driver.Rounds`."""
        fields: Json = {**self._body, "messages": asked.messages}
        if asked.round > 1:
            for name in _OF_ONE_BEGUN:
                fields.pop(name, None)
        if asked.tokens is not None:
            fields[self._tokens_name] = asked.tokens
            if fields.get("min_tokens") is not None:
                fields["min_tokens"] = min(fields["min_tokens"], asked.tokens)
        headers = [*self._headers, (ROUND_HEADER.encode(), str(asked.round).encode())]
        reader = RoundReader(asked.round)
        try:
            request = httpx2.Request("POST", _URL, content=encode(fields), headers=headers, extensions=_PATIENCE)
            async with aclosing(await self._connections.handle_async_request(request)) as response:
                if response.status_code != 200:
                    raise await self._error(response)
                self.dropped = tuple(filter(None, response.headers.get(DROPPED_HEADER, "").split(", ")))
                async for piece in response.aiter_raw():
                    for one in reader.feed(piece):
                        self.envelope = self.envelope or reader.envelope
                        yield one
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise ApiError(
                503,
                "The gateway doesn't take requests of its own just now.",
                "server_error",
                code="gateway_unreachable",
            ) from None
        except httpx2.TransportError:
            yield ModelEnded(asked.round, error=backend_garbage("it is cut off."))
            return
        for one in reader.close():
            yield one

    async def _error(self, response: httpx2.Response) -> ApiError:
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > _LARGEST_ERROR:
                break
        self.kept = {name: value for name in _KEPT if (value := response.headers.get(name)) is not None}
        error = error_in(bytes(body), response.status_code)
        return error or backend_garbage(f"it has the status {response.status_code}.")
