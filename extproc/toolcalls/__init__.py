"""How models write tool calls: takes a model's output apart into content, reasoning and calls, and writes calls.

Pure: text in, events out. It knows neither HTTP nor OpenAI's wire format. A format's file says how it is read and how
it is written.

The public interface, for programs that have outputs to read and no gateway (docs/library.md):

    parse, Parsed, Call          a whole output, and what becomes of it
    Parser, Event, Text, Reasoning, CallStart, ArgumentsDelta, CallEnd
                                 one that comes in pieces, and what becomes of those
    NAMED, UnknownFormatError    the formats, by the names in docs/formats.md

All other names are for the gateway's own use, and may change at any time.
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
from extproc.toolcalls.notations.lazy_pattern import compile_patterns
from extproc.toolcalls.parser import Parser, parse
from extproc.toolcalls.special_tokens import TEMPLATE_TOKENS
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
    "compile_patterns",
    "compile_template",
    "entry",
    "get_format",
    "parse",
]
