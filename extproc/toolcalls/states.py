"""Where the reading of an output can stand: the states of the formats' tables.

The names are shared, so that a state means the same in every format that has it. A format with a state that no other
one has defines it in its own file, in an enum of its own.
"""

from __future__ import annotations

import enum
from typing import TypeAlias


class State(enum.Enum):
    """One state of a format's table. What is done in it the table says (`table.Rules`)."""

    # Text
    BEGIN = enum.auto()
    """The first words, where the prompt ends inside a header."""
    PROSE = enum.auto()
    """What is for the reader."""
    THINKING = enum.auto()
    CODE = enum.auto()
    """A code block: no call stands in it."""
    FENCE = enum.auto()
    """Behind a code block's opening, on the same line."""
    TAG_SAID = enum.auto()
    """Text that speaks of an opening tag: the closing one is text as well."""
    LEFT_OVER = enum.auto()
    """Behind a closing tag that closes nothing, or a section without calls."""
    LEFT_OVER_TOKEN = enum.auto()
    IN_FENCE = enum.auto()
    """Where a code block begins, which may be nothing but calls."""
    IN_CALL_FENCE = enum.auto()
    """The same where the block says that it is JSON."""
    ANSWER = enum.auto()
    """Text behind calls that may be said twice."""
    BROKEN_CALL = enum.auto()
    """The text of what was to be a call."""
    BEHIND_CALL = enum.auto()
    """Text in which more calls may stand."""
    TOLD = enum.auto()
    """What is said to a tool, and is no call."""
    MESSAGE = enum.auto()
    """The beginning of a message to the reader."""

    # Around calls
    HEADER = enum.auto()
    """Of a message."""
    QUOTED_HEADER = enum.auto()
    """A header in the middle of a text, which may only speak of one."""
    QUOTED_END = enum.auto()
    """Behind an end in the middle of a text, which may only be spoken of."""
    RECIPIENT = enum.auto()
    OTHERS = enum.auto()
    """Where a message begins that is not the model's own."""
    CITATION = enum.auto()
    """Of sources, in the text."""
    CITATION_IN_THINKING = enum.auto()
    SECTION = enum.auto()
    """Behind a marker that opens a section of calls."""
    SECTION_END = enum.auto()
    CALLS = enum.auto()
    """Where the first of several calls comes."""
    LIST = enum.auto()
    IN_LIST = enum.auto()
    AFTER_LIST = enum.auto()
    BLOCK = enum.auto()
    """Behind the marker that opens one call."""
    AFTER_BLOCK = enum.auto()
    CLOSED = enum.auto()
    """Behind the tag that closes a block or section."""
    BETWEEN_MESSAGES = enum.auto()
    ECHO = enum.auto()
    """A call that may be said once more."""
    IN_ECHO = enum.auto()
    AFTER_ECHO = enum.auto()

    # A call in a notation of its own
    CALL = enum.auto()
    NEXT_CALL = enum.auto()
    OTHER_TAG = enum.auto()
    """Behind a tag that is none of the format's, but may stand around a call."""
    ATTRIBUTES = enum.auto()
    """Within such a tag."""
    BARE_CALL = enum.auto()
    """A call that no marker announces."""
    FENCED_CALL = enum.auto()
    NEXT_FENCED_CALL = enum.auto()
    ARRAY_CALL = enum.auto()
    JSON_CALL = enum.auto()
    """JSON, where the format has another notation."""
    AFTER_CALL = enum.auto()
    AFTER_BARE_CALL = enum.auto()
    AFTER_FENCED_CALL = enum.auto()
    AFTER_ARRAY_CALL = enum.auto()
    AFTER_JSON_CALL = enum.auto()
    AFTER_FUNCTION = enum.auto()
    AFTER_INVOKE = enum.auto()

    # The parts of a call
    KIND = enum.auto()
    """Where a word stands that may say what kind of tool is called."""
    ID = enum.auto()
    NAME = enum.auto()
    NAME_BEFORE = enum.auto()
    """A name that stands before its separator."""
    UNWRAPPED_NAME = enum.auto()
    """One whose block or section has not been opened."""
    BARE_NAME = enum.auto()
    """A call that is nothing but a name."""
    BEFORE_ARGUMENTS = enum.auto()
    ARGUMENTS = enum.auto()
    """All of them, in a notation of their own."""
    AFTER_ARGUMENTS = enum.auto()
    PARAMETERS = enum.auto()
    """Between the name and the first argument."""
    KEY = enum.auto()
    AFTER_KEY = enum.auto()
    TYPE = enum.auto()
    BEFORE_VALUE = enum.auto()
    VALUE = enum.auto()
    AFTER_VALUE = enum.auto()
    NEXT_KEY = enum.auto()
    """Behind a tag inside a value that may open the next argument's key."""
    NEXT_KEY_ON_LINE = enum.auto()
    BEHIND_KEY = enum.auto()
    """Behind such a tag that follows a value's closing tag."""
    NEXT_VALUE = enum.auto()
    """Behind such a key."""
    NESTED_VALUE = enum.auto()
    """A value in which a tag like its own has been opened."""
    AFTER_NESTED_VALUE = enum.auto()
    QUOTED_NAME = enum.auto()
    """Behind a tag inside a value that may begin a quoted call."""
    QUOTED_HEAD = enum.auto()
    QUOTED_CALL = enum.auto()
    """A call that a value quotes."""
    AFTER_QUOTED_VALUE = enum.auto()
    AFTER_QUOTED_CALL = enum.auto()
    AFTER_UNCLOSED_VALUE = enum.auto()
    """Behind a marker that ends the call before its last value was closed; if that was the end."""
    UNCLOSED_BLOCK = enum.auto()
    """Behind such a marker and one that opens a block, where the next call may begin."""
    UNCLOSED_NAME = enum.auto()
    """... in front of its name, or behind it."""
    UNCLOSED_OBJECT = enum.auto()
    """... behind the bracket of its object."""


StateName: TypeAlias = "enum.Enum | tuple[StateName, str]"
"""A state; or one that was made of it: inside of a tag with a suffix that leads from it, at the end of a fence, or the
same within a fence."""
