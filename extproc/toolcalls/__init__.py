"""The response half: takes a model's output apart into content, reasoning and tool calls.

Pure: text in, events out. It knows neither HTTP nor OpenAI's wire format.
"""

from extproc.toolcalls.events import (
    ArgumentsDelta,
    Call,
    CallEnd,
    CallStart,
    Event,
    Parsed,
    Reasoning,
    Text,
)
from extproc.toolcalls.formats import FORMATS, UnknownFormatError, get_format
from extproc.toolcalls.hiding import TEMPLATE_TOKENS
from extproc.toolcalls.machine import Parser, parse
from extproc.toolcalls.table import Format

__all__ = [
    "FORMATS",
    "TEMPLATE_TOKENS",
    "ArgumentsDelta",
    "Call",
    "CallEnd",
    "CallStart",
    "Event",
    "Format",
    "Parsed",
    "Parser",
    "Reasoning",
    "Text",
    "UnknownFormatError",
    "get_format",
    "parse",
]
