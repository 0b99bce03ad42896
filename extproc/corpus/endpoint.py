"""The rows asked of an OpenAI-compatible server whose model is played: a question names a row, the answer is its text.

Each row is asked for twice, whole and streamed. A row is out of reach where the prompt would have to open the thinking,
and is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from extproc.corpus.differences import difference
from extproc.corpus.judging import Delta, joined
from extproc.corpus.reports import Report, Verdict
from extproc.corpus.rows import Row
from extproc.model_checks.asking import BrokenAnswerError, ServerError, posted, require_allowed


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
    try:
        require_allowed(url, remote=True)
        return Report(tuple(_verdict(url, row, model, key, timeout) for row in reachable(rows)))
    except ServerError as error:
        raise EndpointError(str(error)) from error


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
        status, answer = posted(url, body, key=key, timeout=timeout)
        if status != 200:
            return f"status {status}: {answer[:200]}"
        return difference(row, joined(_streamed(answer) if stream else _whole(answer)))
    except BrokenAnswerError as error:
        return str(error)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"[:200]


def _whole(answer: str) -> Iterator[Delta]:
    message = json.loads(answer)["choices"][0]["message"]
    calls = [{"index": index, **call} for index, call in enumerate(message.get("tool_calls") or ())]
    yield {**message, "tool_calls": calls}


def _streamed(answer: str) -> Iterator[Delta]:
    from extproc.contract.sse import DONE, Data, SseDecoder  # nothing else here needs more than Python itself

    decoder = SseDecoder()
    events = [*decoder.feed(answer.encode()), *decoder.close()]
    data = [event.data.strip() for event in events if isinstance(event, Data)]
    if DONE not in data:
        raise ValueError("the stream doesn't end in [DONE]")
    for each in data:
        if not each.startswith(b"{"):
            continue
        chunk = json.loads(each)
        if "error" in chunk:
            raise ValueError(f"an error in the stream: {chunk['error']}")
        for choice in chunk.get("choices", ()):
            yield choice["delta"]
