"""The text that is measured: one call that writes a file of code, as each format's models write it.

A format's own example is a call of get_weather for Paris; the file takes the city's place, spelled as the example
spells the city: between double quotes it is JSON, between single quotes Python, and otherwise the bare text.
"""

from __future__ import annotations

import json
from typing import Any

from extproc.toolcalls import Format, Variant

KILOBYTE = 1024
CALLED = "content"
"""The parameter that holds the code."""

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "write_file",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}, CALLED: {"type": "string"}}},
        },
    }
]

_LINES = (
    "def rows(table: dict[str, list[int]], limit: int = 10) -> list[str]:\n",
    '    """Each row as "name: values", shortest first."""\n',
    "    found = {name: values for name, values in table.items() if len(values) < limit}\n",
    "    if not found or '<none>' in found:\n",
    '        return [f"nothing below {limit}\\n"]\n',
    "    return [f'{name}: {values!r}' for name, values in sorted(found.items(), key=lambda item: len(item[1]))]\n",
    "\n",
    "# if a < b && c > d { print(\"<b>\" + x[0] + '</b>'); }  \\\\ 100 % of it, naïve or not\n",
    "\n",
)


def code(kilobytes: int) -> str:
    """Source text with quotes, line breaks, brackets, `<` and backslashes; the same at every call."""
    size = kilobytes * KILOBYTE
    block = "".join(_LINES)
    return (block * (size // len(block) + 1))[:size]


def model_text(format_: Format | Variant, content: str) -> str:
    """A call of write_file with `content`, as the format's models write it."""
    example = format_.example.replace("get_weather", "write_file").replace("city", CALLED)
    if '"Paris"' in example and "|>" + '"Paris"' not in example and '<|"|>Paris' not in example:
        return example.replace('"Paris"', json.dumps(content, ensure_ascii=False))
    if "'Paris'" in example:
        return example.replace("'Paris'", _in_single_quotes(content))
    return example.replace("Paris", content)


def _in_single_quotes(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
