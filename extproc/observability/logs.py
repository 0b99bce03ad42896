"""Logging as JSON lines on stderr: time, level, logger, message, and the request's id where there is one.

A line never carries what a request or an answer says. Messages are written with that in mind; the text of an
exception is not, and often quotes what it failed on: so of an exception only its type and its place are shown. Nor are
the records of libraries: asyncio writes out the exception of a task, and the arguments of a callback. Of their words
only those are shown that are known beforehand.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import TextIO

_OPENINGS = (
    "Task exception was never retrieved",
    "Task was destroyed but it is pending!",
    "Future exception was never retrieved",
    "Exception in callback",
    "Unhandled exception in event loop",
)
"""How records of asyncio and gRPC begin that tell of a bug."""


class JsonLines(logging.Formatter):
    """One JSON object per record, on one line.

    `extra={"exchange": id}` adds the exchange's id, under the name by which Envoy's access log has it, and
    `extra={"fields": {...}}` adds these.
    """

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage() if _is_ours(record.name) else _without_words(record),
        }
        if exchange := getattr(record, "exchange", None):
            line["request_id"] = exchange
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, trace = record.exc_info
            line["exception"] = kind.__qualname__
            line["at"] = "".join(traceback.format_tb(trace))
        return json.dumps(line, ensure_ascii=False)


def _is_ours(logger: str) -> bool:
    return logger.partition(".")[0] == "extproc"


def _without_words(record: logging.LogRecord) -> str:
    """What somebody else's record is about. Even its template may be made of what was said."""
    words = str(record.msg)
    known = next((opening for opening in _OPENINGS if words.startswith(opening)), "something was logged")
    return f"{known} ({record.module}.{record.funcName}, line {record.lineno}); its other words may quote a request"


def line(message: str, *arguments: object, logger: logging.Logger) -> str:
    """What a record of this logger would be, as one that isn't logged."""
    return JsonLines().format(logger.makeRecord(logger.name, logging.INFO, "", 0, message, arguments, None))


def log_to(stream: TextIO = sys.stderr, level: int = logging.INFO) -> None:
    """Send the records of every logger to `stream`."""
    lines = logging.StreamHandler(stream)
    lines.setFormatter(JsonLines())
    logging.basicConfig(handlers=[lines], level=level, force=True)
