"""Logs are JSON lines that never carry what a request says."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from extproc.logs import JsonLines


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def logger(stream: io.StringIO) -> Iterator[logging.Logger]:
    logger = logging.getLogger("extproc.test")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)


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
