"""The gateway that is asked: one streamed chat completion at a time."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from extproc.contract.sse import DONE, Data, SseDecoder

Json: TypeAlias = dict[str, Any]

_PATIENCE = 300.0
"""Seconds of silence."""
_LONGEST = 1 << 16
"""Bytes of an error's body that are read, and behind an answer's end."""


class ChatError(Exception):
    """There is no answer, or no whole one; the text is one line that says why."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where it is, up to `/v1`, and the key that it asks for."""

    url: str
    key: str | None = None

    def models(self) -> list[str]:
        """The names that can be asked for. Raises ChatError."""
        with self._open("/models", None) as response:
            try:
                return [str(model["id"]) for model in json.load(response)["data"]]
            except (ValueError, LookupError, TypeError) as error:
                raise ChatError(
                    f"{self.url}/models holds no list of models: is it the address of a gateway?"
                ) from error

    def chunks(self, body: Mapping[str, Any]) -> Iterator[Json]:
        """The data of each event of the answer, until `[DONE]`. Raises ChatError, also if that doesn't come."""
        decoder = SseDecoder()
        with self._open("/chat/completions", {**body, "stream": True}) as response:
            try:
                while piece := response.read1(1 << 16):
                    for event in decoder.feed(piece):
                        if isinstance(event, Data):
                            if event.data == DONE:
                                response.read(_LONGEST)  # to its end: who leaves before counts as one who left
                                return
                            yield json.loads(event.data)
            except (OSError, http.client.HTTPException) as error:
                raise ChatError(f"the answer broke off: {error}") from error
            except ValueError as error:
                raise ChatError("the answer holds an event that is no JSON") from error
        raise ChatError("the answer broke off: its end is missing")

    def _open(self, path: str, body: Mapping[str, Any] | None) -> http.client.HTTPResponse:
        headers = {"content-type": "application/json"}
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key}"
        data = json.dumps(body).encode() if body is not None else None
        try:
            request = urllib.request.Request(self.url + path, data, headers)  # noqa: S310  the command line has seen to it
            response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_PATIENCE)  # noqa: S310
        except urllib.error.HTTPError as error:
            with error:
                raise ChatError(_complaint(error.code, error.read(_LONGEST))) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise ChatError(
                f"{self.url}: {reason}; is the gateway running? `extproc up --scripted` starts one"
            ) from error
        return response


def _complaint(status: int, body: bytes) -> str:
    """What an error says of itself."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        message = "without a word"
    return f"status {status}: {message}"
