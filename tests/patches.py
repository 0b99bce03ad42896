"""Patches as Codex's `apply_patch` takes them: the grammar that a client sends, and a reader of its own.

The reader shares nothing with what is tested by it.
"""

from __future__ import annotations

import re

APPLY_PATCH = """\
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
"""In Lark's notation."""

_LINE = r"[^\n]*\n"
_NAME = r"[^\n]+\n"
_ADD = rf"\*\*\* Add File: {_NAME}(?:\+{_LINE})+"
_DELETE = rf"\*\*\* Delete File: {_NAME}"
_CHANGE = rf"(?:@@\n|@@ {_NAME}|[+\- ]{_LINE})+(?:\*\*\* End of File\n)?"
_UPDATE = rf"\*\*\* Update File: {_NAME}(?:\*\*\* Move to: {_NAME})?(?:{_CHANGE})?"
_PATCH = re.compile(rf"\*\*\* Begin Patch\n(?:{_ADD}|{_DELETE}|{_UPDATE})+\*\*\* End Patch\n?\Z")


def is_patch(text: str) -> bool:
    """Whether `apply_patch` can read it."""
    return _PATCH.match(text) is not None
