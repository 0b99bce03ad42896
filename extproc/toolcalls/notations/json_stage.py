"""Where the reader of an object that holds a call is in it."""

from __future__ import annotations

import enum


class Stage(enum.Enum):
    OBJECT = enum.auto()
    KEY = enum.auto()
    IN_KEY = enum.auto()
    COLON = enum.auto()
    VALUE = enum.auto()
    IN_NAME = enum.auto()
    IN_ARGUMENTS = enum.auto()
    IN_QUOTED_ARGUMENTS = enum.auto()
    IN_WORD_ARGUMENTS = enum.auto()
    BEHIND_PLAIN = enum.auto()
    """Behind a word or a string in the arguments' place."""
    IN_STRAY = enum.auto()
    """In what makes no sense behind that."""
    IN_OTHER = enum.auto()
    COMMENT = enum.auto()
    """Behind its first slash."""
    IN_COMMENT = enum.auto()
