"""Logging as JSON lines on stderr: time, level, logger, message, and the request's id where there is one.

A line never carries what a request or an answer says. Messages are written with that in mind; the text of an
exception is not, and often quotes what it failed on: so of an exception only its type and its place are shown.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import TextIO


class JsonLines(logging.Formatter):
    """One JSON object per record, on one line.

    `extra={"exchange": id}` adds the exchange's id, under the name by which Envoy's access log has it.
    """

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if exchange := getattr(record, "exchange", None):
            line["request_id"] = exchange
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, trace = record.exc_info
            line["exception"] = kind.__qualname__
            line["at"] = "".join(traceback.format_tb(trace))
        return json.dumps(line, ensure_ascii=False)


def log_to(stream: TextIO = sys.stderr, level: int = logging.INFO) -> None:
    """Send the records of every logger to `stream`."""
    lines = logging.StreamHandler(stream)
    lines.setFormatter(JsonLines())
    logging.basicConfig(handlers=[lines], level=level, force=True)
