"""Asks the questions, as a gateway would: the same code makes the request and reads the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any

import orjson

from extproc.config import Config
from extproc.contract.errors import ApiError
from extproc.model_checks.cases import Case
from extproc.model_checks.judging import checks
from extproc.model_checks.reading import Answer, read
from extproc.probe.measuring.ways import NAME, Way
from extproc.probe.server import Answer as Raw
from extproc.probe.server import NoAnswerError, Server
from extproc.surfaces import prepare, rewrite_completion
from extproc.turn.retry import Fault, Retry, fault, is_better
from extproc.turn.spec import ResponseSpec
from extproc.turn.tally import Tally

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
    """The answers to all questions, in their order; `told` hears how many have come. The first `concurrency` are asked
    by themselves: when none of them gets an answer, the rest isn't asked."""
    config = way.configuration(model, kind) if way.settings is not None else None

    def ask(case: Case) -> Answer:
        body = case.request(NAME if config is not None else model, stream=False, max_tokens=max_tokens)
        return _judged(case, server, body, config)

    answers: list[Answer] = []
    for some in (cases[:concurrency], cases[concurrency:]):
        for answer in _at_once(ask, some, concurrency):
            answers.append(answer)
            told(len(answers))
        if not any(each.status for each in answers):
            return answers + [answers[0]] * (len(cases) - len(answers))
    return answers


def _at_once(ask: Callable[[Case], Answer], cases: Sequence[Case], concurrency: int) -> Iterator[Answer]:
    """The answers in the order of the questions, as soon as they are there."""
    waiting: SimpleQueue[tuple[Case, Future[Answer]]] = SimpleQueue()
    coming: list[Future[Answer]] = []
    for case in cases:
        coming.append(Future())
        waiting.put((case, coming[-1]))
    stopped = threading.Event()

    def work() -> None:
        while not stopped.is_set():
            try:
                case, answer = waiting.get_nowait()
            except Empty:
                return
            try:
                answer.set_result(ask(case))
            except BaseException as error:
                answer.set_exception(error)
                raise

    for _ in range(min(concurrency, len(cases))):
        threading.Thread(target=work, daemon=True).start()  # so that an interrupted command waits for nobody
    try:
        for answer in coming:
            yield answer.result()
    finally:
        stopped.set()


def _judged(case: Case, server: Server, body: dict[str, Any], config: Config | None) -> Answer:
    """What can be told right from wrong, or no answer: servers may say anything."""
    try:
        given = _answer(server, body, config)
        checks(case, given)
    except (TypeError, ValueError, LookupError, AttributeError, RecursionError):
        return Answer(200, error="what it answers can't be read as a chat completion")
    return given


def _answer(server: Server, body: dict[str, Any], config: Config | None) -> Answer:
    try:
        if config is None:
            came = server.post(_PATH, body)
            return _read(came, orjson.dumps(came.json))
        request = prepare(orjson.dumps(body), config)
        assert request.answer is not None  # for tools are offered
        came = server.post(_PATH, orjson.loads(request.body) if request.body is not None else body)
        if came.status != 200:
            return _read(came, b"")
        answer = rewrite_completion(orjson.dumps(came.json), request.answer)
        given = _read(came, answer.body)
        wrong = fault(answer.tally, request.answer)
        if request.again is None or wrong is None:
            return given
        return _second(server, request.again, wrong, request.answer, (given, answer.tally))
    except NoAnswerError as error:
        return Answer(0, error=str(error))
    except ApiError as error:
        return Answer(error.status, error=error.message)


def _second(server: Server, again: Retry, wrong: Fault, spec: ResponseSpec, before: tuple[Answer, Tally]) -> Answer:
    """The better one of two answers, at the price of both."""
    first, tally = before
    try:
        came = server.post(_PATH, orjson.loads(again.body(wrong)))
        if came.status != 200:
            return first
        answer = rewrite_completion(orjson.dumps(came.json), spec)
    except (NoAnswerError, ApiError):
        return first
    second = _read(came, answer.body)
    better = second if is_better(answer.tally, spec, tally, called=answer.called) else first
    return replace(better, prompt_tokens=first.prompt_tokens + second.prompt_tokens)


def _read(came: Raw, written: bytes) -> Answer:
    """`written` is the answer as a client gets it; what the prompt cost is as the server counted it."""
    if came.status != 200:
        return Answer(came.status, error=came.complaint)
    given = read(200, written.decode(), stream=False)
    if given.error:
        return Answer(200, error="what it answers is no chat completion")
    return replace(given, prompt_tokens=came.number("usage", "prompt_tokens") or 0)
