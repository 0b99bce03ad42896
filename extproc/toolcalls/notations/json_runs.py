"""Patterns that cross JSON as far as it is right, so that the common case costs few steps."""

from __future__ import annotations

import re

from extproc.toolcalls.notations.json_strings import RUN
from extproc.toolcalls.notations.json_words import NUMBER

# Fewer than the window in which what follows is looked for: where there are more, nobody waits for it.
_BLANKS = r"[ \t\r\n]{0,250}+"
_WORD = rf"(?:{NUMBER}|true|false|null)"
_SCALAR = rf'(?:{_WORD}|"{RUN}")'
_KEY = rf'"{RUN}"{_BLANKS}:'

string_stop = re.compile(r'["\\\x00-\x1f]').search
run = re.compile(RUN).match
"""The inside of a string."""
members = re.compile(rf"(?:{_KEY}{_BLANKS}{_SCALAR}{_BLANKS},{_BLANKS}(?={_KEY}))*+").match
"""Members of an object, each with the comma behind it."""
elements = re.compile(rf'(?:{_SCALAR}{_BLANKS},{_BLANKS}(?=["{{\[]|-?[0-9]|(?:true|false|null)\b))*+').match
"""Elements of a list, the same."""
end_of_member = re.compile(rf'"{_BLANKS}(?:(?=[}}\]])|(,{_BLANKS}{_KEY}{_BLANKS}))').match
"""From the last quote of a value in an object to the next value, or the closing bracket."""
word = re.compile(rf"{_WORD}(?={_BLANKS}(?:[}}\]]|,{_BLANKS}{_KEY}))").match
"""A value in an object, or the last one of a list, that is no string, and whole."""
blanks = re.compile(r"[ \t\r\n]*+").match
