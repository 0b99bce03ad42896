"""W3C's trace context, https://www.w3.org/TR/trace-context/: the header field `traceparent`.

00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01     version, trace, parent, flags
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"

_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_SAMPLED = 1


@dataclass(frozen=True, slots=True)
class Parent:
    """The span that another one belongs under."""

    trace_id: int
    span_id: int
    sampled: bool

    @classmethod
    def read(cls, field: str) -> Self | None:
        """None for what isn't W3C's form."""
        if (found := _FORM.fullmatch(field)) is None:
            return None
        trace, span, flags = found.groups()
        return cls(int(trace, 16), int(span, 16), bool(int(flags, 16) & _SAMPLED))

    def written(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{int(self.sampled):02x}"
