"""The rows asked of an OpenAI-compatible server whose model is played: a question names a row, the answer is its text.

Each row is asked for twice, whole and streamed. A row is out of reach where the prompt would have to open the thinking,
and is left out.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from extproc.corpus.differences import difference
from extproc.corpus.judging import Delta, joined
from extproc.corpus.reports import Report, Verdict
from extproc.corpus.rows import Row

_LONGEST = 8 << 20
"""So many bytes of an answer are read at most."""


class EndpointError(Exception):
    """The server can't be reached at all."""


def reachable(rows: Iterable[Row]) -> list[Row]:
    """The rows that can be asked for."""
    return [row for row in rows if not row.prompt_opens_thinking]


def answers(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """The answers that the scripted vLLM has to know, a line of its file each."""
    for row in reachable(rows):
        yield {"to": row.id, "text": row.text, "finish_reason": "length" if row.kind == "cut_off" else "stop"}


def judge_url(url: str, rows: Sequence[Row], *, model: str, key: str | None = None, timeout: float = 30.0) -> Report:
    """A verdict for each row in reach; `timeout` in seconds. EndpointError when nobody answers at `url`."""
    return Report(tuple(_verdict(url, row, model, key, timeout) for row in reachable(rows)))


def _verdict(url: str, row: Row, model: str, key: str | None, timeout: float) -> Verdict:
    whole = _reason(url, row, model, key, timeout, stream=False)
    streamed = _reason(url, row, model, key, timeout, stream=True)
    return Verdict(row.id, row.format, row.kind, whole, f"streamed: {streamed}" if streamed else None)


def _reason(url: str, row: Row, model: str, key: str | None, timeout: float, *, stream: bool) -> str | None:
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": f"Row {row.id}"}],
        "stream": stream,
    }
    if row.tools:
        body["tools"] = row.tools
    try:
        answer = _post(f"{url.rstrip('/')}/chat/completions", body, key, timeout)
        return difference(row, joined(_streamed(answer) if stream else _whole(answer)))
    except urllib.error.HTTPError as error:
        with error:
            return f"status {error.code}: {error.read(200).decode(errors='replace')}"
    except (urllib.error.URLError, ConnectionError) as error:
        raise EndpointError(f"{url}: {error}") from error
    except (LookupError, TypeError, ValueError, TimeoutError) as error:
        return f"{type(error).__name__}: {error}"[:200]


def _post(url: str, body: dict[str, Any], key: str | None, timeout: float) -> str:
    if not url.startswith(("http://", "https://")):
        raise EndpointError(f"{url} is no http URL")
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - the scheme was looked at
    with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310
        return str(response.read(_LONGEST).decode())


def _whole(answer: str) -> Iterator[Delta]:
    message = json.loads(answer)["choices"][0]["message"]
    calls = [{"index": index, **call} for index, call in enumerate(message.get("tool_calls") or ())]
    yield {**message, "tool_calls": calls}


def _streamed(answer: str) -> Iterator[Delta]:
    lines = answer.replace("\r\n", "\n").split("\n")
    events = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    if "[DONE]" not in events:
        raise ValueError("the stream doesn't end in [DONE]")
    for event in events:
        if not event.startswith("{"):
            continue
        chunk = json.loads(event)
        if "error" in chunk:
            raise ValueError(f"an error in the stream: {chunk['error']}")
        for choice in chunk.get("choices", ()):
            yield choice["delta"]
