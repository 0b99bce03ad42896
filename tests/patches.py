"""A grammar of patches, as Codex gives its tool `apply_patch` one, and texts that are patches and that aren't."""

from __future__ import annotations

import re

GRAMMAR = r"""
start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?
filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""


def _patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


VALID = [
    _patch("*** Add File: a.txt", "+hello"),
    _patch("*** Add File: a.txt", "+hello") + "\n",
    _patch("*** Add File: src/größe ☃ 😀.py", "+", "+\tprint(\"a\\n\", 'b')", "+\\"),
    _patch("*** Delete File: C:\\temp\\a b.txt"),
    _patch("*** Update File: a.py"),
    _patch("*** Update File: a.py", "*** Move to: b.py"),
    _patch("*** Update File: a.py", "@@", "-old", "+new", " same"),
    _patch("*** Update File: a.py", "@@ def f():", '@@ class "A":', "+new", "*** End of File"),
    _patch("*** Update File: a.py", "-*** End Patch", "+*** Begin Patch"),
    _patch("*** Update File: a.py", " ", "+\x01\x1f\x7f\u2028\u00a0\b\f\r"),
    _patch("*** Update File: a.py", "*** Move to: b.py", "@@", "-old", "*** End of File", "*** Delete File: c"),
    _patch("*** Delete File: a", "*** Add File: b", "+1", "+2", "*** Update File: c", "-3", "*** Delete File: d"),
]
BROKEN = [
    "",
    "hello",
    _patch(),
    _patch("*** Add File: a.txt"),
    _patch("*** Add File: ", "+hello"),
    _patch("*** Add File: a.txt", "hello"),
    _patch("*** Add File: a.txt", "-hello"),
    _patch("*** Remove File: a.txt"),
    _patch("*** Delete File: a.txt", "+hello"),
    _patch("*** Update File: a.py", "+new", "*** Move to: b.py"),
    _patch("*** Update File: a.py", "@@def f():", "+new"),
    _patch("*** Update File: a.py", "*** End of File"),
    _patch("*** Add File: a.txt", "+hello") + "\n\n",
    _patch("*** Add File: a.txt", "+hello") + " ",
    " " + _patch("*** Add File: a.txt", "+hello"),
    _patch("*** Add File: a.txt", "+hello").removesuffix("\n*** End Patch"),
    _patch("*** Add File: a.txt", "+hello").removeprefix("*** Begin Patch\n"),
    _patch("*** Add File: a.txt", "+hello").replace("\n", "\r\n"),
]

_LINE = r"[^\n]*\n"
_NAME = r"[^\n]+\n"
_ADD = rf"\*\*\* Add File: {_NAME}(?:\+{_LINE})+"
_DELETE = rf"\*\*\* Delete File: {_NAME}"
_CHANGE = rf"(?:@@\n|@@ {_NAME}|[+\- ]{_LINE})+(?:\*\*\* End of File\n)?"
_UPDATE = rf"\*\*\* Update File: {_NAME}(?:\*\*\* Move to: {_NAME})?(?:{_CHANGE})?"
_PATCH = re.compile(rf"\*\*\* Begin Patch\n(?:{_ADD}|{_DELETE}|{_UPDATE})+\*\*\* End Patch\n?\Z")


def is_patch(text: str) -> bool:
    """Whether `apply_patch` can read it, by a reading that shares nothing with the grammar's."""
    return _PATCH.match(text) is not None
