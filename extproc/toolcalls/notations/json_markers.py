"""What ends a JSON value wherever it stands: the markers of a format, and the fence around a call.

No reader of JSON knows its format's markers, but all of them look alike: tokens between bars, tags that close, and tags
whose names speak of tools. As everywhere, a group that takes part in a match says that the text ended before that was
certain.
"""

from __future__ import annotations

import re

_NAME = r"[\w:]{0,16}?(?:tool|TOOL|func|invoke|param|arg_|think|TOKEN|response>|user>|co[:>])"
_CLOSED_NAME = r"[\w:｜| ]{0,16}?(?:tool|TOOL|func|invoke|param|call|arg_|response>|s>)"
_LONGEST_NAME = 28

MARKER = rf"(?:<(?:[/|｜]|(?={_NAME})|ifm\||[\w:]{{0,{_LONGEST_NAME}}}+(\Z))|`(?:(\Z)|`(?:(\Z)|`)))"
"""Where no string is open."""
_marker = re.compile(MARKER).match
_end_of_call = re.compile(rf"<(?:[|｜]|/(?={_CLOSED_NAME})|/?+[\w:｜| ]{{0,{_LONGEST_NAME}}}+(\Z))").match


def is_marker(text: str, position: int, *, final: bool) -> bool | None:
    """Whether a marker or a fence stands here; None when that isn't certain yet."""
    return _is_certain(_marker(text, position), final=final)


def ends_call(text: str, position: int, *, final: bool) -> bool | None:
    """Whether a marker stands here that ends a call, although a string may be open."""
    return _is_certain(_end_of_call(text, position), final=final)


def _is_certain(found: re.Match[str] | None, *, final: bool) -> bool | None:
    if found is None:
        return False
    if found.lastindex is None:
        return True
    return False if final else None
