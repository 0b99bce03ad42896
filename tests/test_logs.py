"""Logs are JSON lines that never carry what a request says."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import logging
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from extproc.observability.logs import JsonLines


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@contextmanager
def attached(name: str, stream: io.StringIO) -> Iterator[logging.Logger]:
    logger = logging.getLogger(name)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)


@pytest.fixture
def logger(stream: io.StringIO) -> Iterator[logging.Logger]:
    with attached("extproc.test", stream) as logger:
        yield logger


def line(stream: io.StringIO) -> dict[str, Any]:
    [text] = stream.getvalue().splitlines()
    return dict(json.loads(text))


def test_a_record_is_one_json_object(logger: logging.Logger, stream: io.StringIO) -> None:
    logger.warning("%d of\nthem", 3, extra={"exchange": "0815"})
    logged = line(stream)
    assert logged.pop("time").endswith("Z")
    assert logged == {"level": "warning", "logger": "extproc.test", "message": "3 of\nthem", "request_id": "0815"}


def test_an_exception_shows_its_type_and_place_but_not_its_text(logger: logging.Logger, stream: io.StringIO) -> None:
    try:
        raise ValueError("what a user wrote")
    except ValueError:
        logger.error("it failed", exc_info=sys.exc_info())
    logged = line(stream)
    assert logged["exception"] == "ValueError"
    assert "test_an_exception_shows_its_type" in logged["at"]
    assert "what a user wrote" not in stream.getvalue().replace('raise ValueError(\\"what a user wrote\\")', "")


SECRET = "what-a-user-wrote"


async def forgotten(said: str) -> None:
    raise ValueError(said)


async def a_task_that_nobody_waits_for() -> None:
    task = asyncio.create_task(forgotten(SECRET))
    await asyncio.wait((task,))
    del task
    gc.collect()


async def a_callback_that_fails() -> None:
    asyncio.get_running_loop().call_soon(int, SECRET)
    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("fails", "opening"),
    [
        (a_task_that_nobody_waits_for, "Task exception was never retrieved"),
        (a_callback_that_fails, "Exception in callback"),
    ],
)
def test_what_asyncio_quotes_is_left_out(
    stream: io.StringIO, fails: Callable[[], Coroutine[Any, Any, None]], opening: str
) -> None:
    with attached("asyncio", stream):
        asyncio.run(fails())
    logged = line(stream)
    assert logged["message"].startswith(opening)
    assert logged["exception"] == "ValueError"
    assert SECRET not in stream.getvalue()


@pytest.mark.parametrize("name", ["grpc._cython.cygrpc", "concurrent.futures", "extprocs"])
def test_the_words_of_other_peoples_records_are_left_out(name: str, stream: io.StringIO) -> None:
    with attached(name, stream):
        logging.getLogger(name).error(f"Unexpected {SECRET}: %s", SECRET)
    logged = line(stream)
    assert (logged["logger"], logged["level"]) == (name, "error")
    assert "test_the_words_of_other_peoples_records_are_left_out, line " in logged["message"]
    assert SECRET not in stream.getvalue()
