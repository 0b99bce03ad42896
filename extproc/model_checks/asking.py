"""Asks a server all cases, so many at a time, and keeps each answer in a file: a run that was stopped goes on.

Everything is bounded: how many at once, the time of an answer, its length. Answers that are in the file already aren't
asked for again.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extproc.model_checks.cases import Case
from extproc.model_checks.reading import Answer, read
from extproc.model_checks.scores import WAYS

KEY = "OPENAI_API_KEY"
"""The environment variable that may hold the key."""
MOST_AT_ONCE = 64
_LONGEST = 8 << 20
"""So many bytes of an answer are read at most."""
_PIECE = 1 << 16

Answers = dict[tuple[str, str], Answer]
"""By the case's id and the way of asking."""


class ServerError(Exception):
    """The server can't be reached at all, or isn't to be asked."""


class BrokenAnswerError(Exception):
    """No whole answer came; the text says why."""


class ResultsError(Exception):
    """The file of results can't be gone on with."""


@dataclass(frozen=True, slots=True)
class Server:
    """Who is asked, and how."""

    url: str
    """Up to /v1."""
    model: str
    key: str | None = None
    timeout: float = 120.0
    """Seconds for one answer."""
    concurrency: int = 4
    max_tokens: int = 200


def require_allowed(url: str, *, remote: bool) -> None:
    """Raise ServerError unless it is an HTTP URL, on this machine's loopback interface if `remote` isn't allowed."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServerError(f"{url} is no http URL")
    if not remote and not _is_loopback(parts.hostname):
        raise ServerError(f"{parts.hostname} isn't this machine's loopback interface; --allow-remote asks it anyway")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def key_of(path: Path | None) -> str | None:
    """The API key: in the file, if there is one, else in the environment. Raises OSError."""
    return os.environ.get(KEY) if path is None else path.read_text(encoding="utf-8").strip()


class Results:
    """Answers, in a file if there is one: a line of JSON each, behind a first one that says what was asked."""

    def __init__(self, path: Path | None, run: Mapping[str, Any]) -> None:
        """Raises ResultsError if the file belongs to another run."""
        self._path, self._lock = path, threading.Lock()
        self.answers: Answers = {}
        if path is None:
            return
        if path.exists() and path.stat().st_size:
            self._load(path, run)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._write({"run": dict(run)})

    def _load(self, path: Path, run: Mapping[str, Any]) -> None:
        text = path.read_text(encoding="utf-8")
        if not text.endswith("\n"):  # Stopped in the middle of a line, which is asked for again.
            text = text[: text.rfind("\n") + 1]
            path.write_text(text, encoding="utf-8")
        try:
            head, *lines = [json.loads(line) for line in text.split("\n") if line]
            found = head["run"]
            self.answers = {(line["case"], line["how"]): Answer.from_json(line["answer"]) for line in lines}
        except (LookupError, TypeError, ValueError) as error:
            raise ResultsError(f"{path} holds no results: {error}") from error
        if found != dict(run):
            raise ResultsError(f"{path} is of another run: {json.dumps(found)}")

    def add(self, case: str, how: str, answer: Answer) -> None:
        with self._lock:
            self.answers[case, how] = answer
            if self._path is not None:
                self._write({"case": case, "how": how, "answer": answer.as_json()})

    def _write(self, line: Mapping[str, Any]) -> None:
        assert self._path is not None
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def ask_all(
    server: Server,
    cases: Sequence[Case],
    results: Results,
    told: Callable[[int, int], None] = lambda _done, _all: None,
    ways: Sequence[str] = WAYS,
) -> None:
    """Ask what isn't answered yet, in these ways: whole and then streamed, since the second time the prompt is cached.
    ServerError when nobody listens."""
    pending = [case for case in cases if any((case.id, how) not in results.answers for how in ways)]
    stopped = threading.Event()
    done = 0
    with ThreadPoolExecutor(max_workers=server.concurrency) as threads:
        try:
            for _ in threads.map(lambda case: _ask(server, case, results, stopped, ways), pending):
                done += 1
                told(done, len(pending))
        except BaseException:
            stopped.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _ask(server: Server, case: Case, results: Results, stopped: threading.Event, ways: Sequence[str]) -> None:
    for how in ways:
        if not stopped.is_set() and (case.id, how) not in results.answers:
            stream = how == "streamed"
            body = case.request(server.model, stream=stream, max_tokens=server.max_tokens)
            results.add(case.id, how, _answer(server, body, stream=stream))


def _answer(server: Server, body: Mapping[str, Any], *, stream: bool) -> Answer:
    try:
        status, text = posted(server.url, body, key=server.key, timeout=server.timeout)
    except BrokenAnswerError as error:
        return Answer(0, error=str(error))
    return read(status, text, stream=stream)


def posted(url: str, body: Mapping[str, Any], *, key: str | None, timeout: float) -> tuple[int, str]:
    """Status and text of what `{url}/chat/completions` answers within so many seconds. ServerError when nobody listens,
    BrokenAnswerError when no whole answer comes."""
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    asked = f"{url.rstrip('/')}/chat/completions"
    request = urllib.request.Request(asked, json.dumps(body).encode(), headers)  # noqa: S310 - the scheme was looked at
    deadline = time.monotonic() + timeout
    try:
        with _opener(url).open(request, timeout=timeout) as response:
            return response.status, _body(response, deadline)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(_PIECE).decode(errors="replace")
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise BrokenAnswerError(f"no answer within {timeout:g} s") from error
        if isinstance(error.reason, _BROKEN):
            raise _broken(error.reason) from error
        raise ServerError(f"{url}: {error.reason}") from error
    except TimeoutError as error:
        raise BrokenAnswerError(f"no answer within {timeout:g} s") from error
    except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
        raise _broken(error) from error


_BROKEN = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
"""Of a connection that was there."""


def _broken(error: Exception) -> BrokenAnswerError:
    return BrokenAnswerError(f"the connection broke: {type(error).__name__}: {error}"[:200])


def _opener(url: str) -> urllib.request.OpenerDirector:
    """No proxy stands before this machine itself."""
    local = _is_loopback(urllib.parse.urlsplit(url).hostname or "")
    return urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))


def _body(response: Any, deadline: float) -> str:
    pieces: list[bytes] = []
    for piece in _pieces(response):
        pieces.append(piece)
        if time.monotonic() > deadline:
            raise TimeoutError
    return b"".join(pieces).decode()


def _pieces(response: Any) -> Iterable[bytes]:
    left = _LONGEST
    while left > 0 and (piece := response.read1(min(left, _PIECE))):
        left -= len(piece)
        yield piece
