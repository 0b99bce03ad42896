"""A writer for every format: turns calls and text into what a model of that family would have written."""

from __future__ import annotations

from tests.format_writers import json_calls, named_calls, own_notations, tagged_values, typed_values
from tests.format_writers.output import Call, Output, Place, Spelled, Types, Writer

WRITERS: tuple[Writer, ...] = (
    *json_calls.WRITERS,
    *named_calls.WRITERS,
    *tagged_values.WRITERS,
    *typed_values.WRITERS,
    *own_notations.WRITERS,
)

__all__ = ["WRITERS", "Call", "Output", "Place", "Spelled", "Types", "Writer"]
