"""A writer for every format: turns calls and text into what a model of that family would have written.

A format needs none of its own: what its file says of how it is written will do (`derived`).
"""

from __future__ import annotations

from extproc.toolcalls import FORMATS, get_format
from tests.format_writers import json_calls, named_calls, own_notations, tagged_values, typed_values
from tests.format_writers.derived import derived
from tests.format_writers.output import Call, Output, Place, Spelled, Types, Writer

_OWN: tuple[Writer, ...] = (
    *json_calls.WRITERS,
    *named_calls.WRITERS,
    *tagged_values.WRITERS,
    *typed_values.WRITERS,
    *own_notations.WRITERS,
)
_WRITTEN = {get_format(writer.format) for writer in _OWN}
WRITERS = (*_OWN, *(derived(format_) for format_ in FORMATS if format_ not in _WRITTEN))

__all__ = ["WRITERS", "Call", "Output", "Place", "Spelled", "Types", "Writer"]
