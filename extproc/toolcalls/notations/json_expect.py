"""What the scanner of a JSON text expects next."""

from __future__ import annotations

import enum


class Expect(enum.Enum):
    VALUE = enum.auto()
    KEY = enum.auto()
    COLON = enum.auto()
    NEXT = enum.auto()
    BEGIN = enum.auto()  # the first character between double quotes
    STRING = enum.auto()  # more of a string in which nothing was odd
    PART = enum.auto()  # more of a key or a value that has a reader of its own
    MORE = enum.auto()  # the string goes on between other quotes
