"""Writes docs/formats.md from the formats' own tables: `python -m tests.generate_format_docs`.

A test fails when the page is stale. What it says of a format is what the format's file says.
"""

from __future__ import annotations

import re
from pathlib import Path

from extproc.toolcalls import NAMED, Format, Variant

PAGE = Path(__file__).parent.parent / "docs" / "formats.md"

_HEAD = """\
# Tool-call formats

How models write calls, and the names that `format` takes in the configuration: those of vLLM's parsers, with
SGLang's as aliases. `extproc formats` prints the same list, and `extproc formats NAME` describes one format.

`python -m tests.generate_format_docs` writes this page from the files in `extproc/toolcalls/formats/`.
[How to add a format](adding-a-format.md) has a page of its own.

One more name is `hf`: a checkpoint's own [response template](configuration.md#a-checkpoints-own-format) says how it
writes calls.
"""


def page() -> str:
    """The whole page."""
    rows = [f"| [`{f.name}`](#{f.name}) | {_names(f)} | {', '.join(f.models)} | {_prose(f.title)} |" for f in NAMED]
    table = ["| format | also named | models | a call is |", "| --- | --- | --- | --- |", *rows]
    return "\n".join(
        [_HEAD, *table, "", "Each example below calls `get_weather` for Paris.", "", *map(_section, NAMED)]
    )


def _section(format_: Format | Variant) -> str:
    longest = max(map(len, re.findall("`+", format_.example)), default=0)
    fence = "`" * max(3, longest + 1)
    models = f"Models: {', '.join(format_.models)}."
    also = f" Also named {_names(format_)}." if format_.aliases else ""
    return f"## {format_.name}\n\n{models}{also}\n\n{fence}text\n{format_.example.rstrip()}\n{fence}\n"


def _names(format_: Format | Variant) -> str:
    return ", ".join(f"`{alias}`" for alias in format_.aliases)


def _prose(text: str) -> str:
    """Text that holds markers, for a table: nothing in it is markup."""
    return re.sub(r"[<|\[\]`\\]", r"\\\g<0>", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(PAGE.parent.parent))
