"""Asks the questions, as a gateway would: the same code makes the request and reads the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from extproc.config import Config
from extproc.contract.errors import ApiError
from extproc.model_checks.cases import Case
from extproc.model_checks.reading import Answer, read
from extproc.probe.measuring.ways import NAME, Way
from extproc.probe.server import NoAnswerError, Server
from extproc.surfaces import prepare, rewrite_completion

_PATH = "/v1/chat/completions"


def asked(
    server: Server,
    model: str,
    kind: str,
    way: Way,
    cases: Sequence[Case],
    *,
    max_tokens: int,
    concurrency: int,
    told: Callable[[int], None],
) -> list[Answer]:
    """The answers to all questions, in their order; `told` hears how many have come."""
    config = way.configuration(model, kind) if way.settings is not None else None

    def answered(case: Case) -> Answer:
        body = case.request(NAME if config is not None else model, stream=False, max_tokens=max_tokens)
        return _alone(server, body) if config is None else _through(server, body, config)

    answers: list[Answer] = []
    threads = ThreadPoolExecutor(max_workers=concurrency)
    try:
        for answer in threads.map(answered, cases):
            answers.append(answer)
            told(len(answers))
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
    return answers


def _alone(server: Server, body: dict[str, Any]) -> Answer:
    status, text = _posted(server, body)
    return read(status, text, stream=False)


def _through(server: Server, body: dict[str, Any], config: Config) -> Answer:
    try:
        request = prepare(orjson.dumps(body), config)
        assert request.body is not None
        assert request.answer is not None  # for tools are offered
        status, text = _posted(server, orjson.loads(request.body))
        if status == 200:
            text = rewrite_completion(text.encode(), request.answer, request.sent).body.decode()
    except ApiError as error:
        return Answer(error.status, error=error.message)
    return read(status, text, stream=False)


def _posted(server: Server, body: dict[str, Any]) -> tuple[int, str]:
    try:
        answer = server.post(_PATH, body)
    except NoAnswerError as error:
        return 0, str(error)
    return answer.status, orjson.dumps(answer.json).decode() if answer.status == 200 else answer.complaint
