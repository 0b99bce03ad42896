"""How models write tool calls: takes a model's output apart into content, reasoning and calls, and writes calls.

Pure: text in, events out. It knows neither HTTP nor OpenAI's wire format. A format's file says how it is read and how
it is written.
"""

from extproc.toolcalls.checkpoint.problems import ResponseTemplateError
from extproc.toolcalls.checkpoint.response_template import compile_template
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
from extproc.toolcalls.formats import (
    CHECKPOINT,
    FORMATS,
    NAMED,
    SYNTAXES,
    UnknownFormatError,
    call_syntax,
    checkpoint_format,
    entry,
    get_format,
)
from extproc.toolcalls.hiding import TEMPLATE_TOKENS
from extproc.toolcalls.parser import Parser, parse
from extproc.toolcalls.syntax.call_syntax import CallSyntax
from extproc.toolcalls.table import Format, Variant

__all__ = [
    "CHECKPOINT",
    "FORMATS",
    "NAMED",
    "SYNTAXES",
    "TEMPLATE_TOKENS",
    "ArgumentsDelta",
    "Call",
    "CallEnd",
    "CallStart",
    "CallSyntax",
    "Event",
    "Format",
    "Parsed",
    "Parser",
    "Reasoning",
    "ResponseTemplateError",
    "Text",
    "UnknownFormatError",
    "Variant",
    "call_syntax",
    "checkpoint_format",
    "compile_template",
    "entry",
    "get_format",
    "parse",
]
