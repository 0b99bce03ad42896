"""All rows of the corpus, as they are made: situations by writers, then what was a sample before."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

from extproc.toolcalls import NAMED, entry
from tests.corpus_rows import endings
from tests.corpus_rows.converted import broken_json, samples
from tests.corpus_rows.endings import Ending, expected
from tests.corpus_rows.material import Material
from tests.corpus_rows.situations import ADVERSARIAL, EVERY_FORMAT, EVERY_WRITER, WELL_FORMED, Maker, Situation, fits
from tests.corpus_rows.sources import SOURCES
from tests.format_writers import WRITERS, Writer

Row = dict[str, Any]

_TRIES = 12
"""So often another choice of words is tried where the format can't hold the first, or another row has it."""
_SHARE = 0.15
_SHARES = {
    "long_string": 0.15,
    "five_calls": 0.15,
    "a-tool-that-was-not-offered": 0.3,
    "cut-in-a-marker": 0.5,
    "cut-in-opened-thinking": 0.3,
    "without-the-last-marker": 0.6,
}


def made_rows() -> list[Row]:
    """Every row, without `since`, in the order of the formats; no two are alike in text and tools."""
    seen: set[str] = set()
    found: list[Row] = []
    for format_ in NAMED:
        writers = [writer for writer in WRITERS if format_of(writer) == format_.name]
        for number, writer in enumerate(writers):
            found += _written(writer, seen, first=number == 0 or format_.name == "glm47")
    for row in (*broken_json(), *samples()):
        if row and _key(row) not in seen:
            seen.add(_key(row))
            found.append(row)
    return found


def _written(writer: Writer, seen: set[str], *, first: bool) -> Iterator[Row]:
    for kind, makers in (("well_formed", WELL_FORMED), ("adversarial", ADVERSARIAL)):
        for maker in makers:
            if maker in EVERY_WRITER or (first and _is_for(writer, maker)):
                row = _situated(writer, maker, kind, seen)
                if row:
                    yield row
    for kind, make in (
        ("cut_off", endings.cut_off),
        ("malformed", endings.tag_slips),
        ("malformed", endings.duplicate_keys),
        ("malformed", lambda writer, made: endings.json_slips(writer, made, 3)),
        ("adversarial", endings.unknown_tool),
        ("adversarial", endings.spoken_of),
        ("malformed", endings.call_in_thinking),
    ):
        if not first and kind != "cut_off":
            continue
        for ending in make(writer, _material(writer, kind, 0)):
            if not _is_wanted(writer, ending, first=first):
                continue
            row = _ended(writer, ending, kind)
            if _key(row) not in seen:
                seen.add(_key(row))
                yield row


def format_of(writer: Writer) -> str:
    """The format's name in docs/formats.md; two of them share a table and so a writer's name."""
    return "glm47" if writer.variant == "4.7" else entry(writer.format).name


def _is_for(writer: Writer, maker: Maker) -> bool:
    """Every format gets what is most often wrong; of the rest it gets some, and others get the others."""
    if maker in EVERY_FORMAT:
        return True
    return random.Random(f"{writer.name} {maker.__name__}").random() < _SHARES.get(maker.__name__, _SHARE)


def _is_wanted(writer: Writer, ending: Ending, *, first: bool) -> bool:
    if first:
        return (
            ending.slug not in _SHARES or random.Random(f"{writer.name} {ending.slug}").random() < _SHARES[ending.slug]
        )
    return ending.slug in ("cut-in-a-string", "cut-between-calls")


def _situated(writer: Writer, maker: Maker, kind: str, seen: set[str]) -> Row | None:
    slug = maker.__name__.replace("_", "-")
    for number in range(_TRIES):
        situation = maker(writer, _material(writer, slug, number))
        if situation is None or not fits(writer, situation):
            continue
        row = _row(writer, slug, kind, writer.write(situation.output), situation.tools, _meant(situation))
        if situation.output.thinking_is_open:
            row["prompt_opens_thinking"] = True
        if _key(row) not in seen:
            seen.add(_key(row))
            return row
    return None


def _meant(situation: Situation) -> Row:
    output = situation.output
    said = [output.before, *([output.between] * (len(output.calls) - 1)), output.after]
    return expected("\n".join(filter(None, said)), output.reasoning, output.calls)


def _ended(writer: Writer, ending: Ending, kind: str) -> Row:
    row = _row(writer, ending.slug, kind, ending.text, ending.tools, ending.expected)
    if ending.also:
        row["also"] = list(ending.also)
    if ending.notes:
        row["notes"] = ending.notes
    if ending.opened:
        row["prompt_opens_thinking"] = True
    return row


def _row(writer: Writer, slug: str, kind: str, text: str, tools: list[Row], meant: Row) -> Row:
    format_ = format_of(writer)
    # Two names of one format may both have a writer.
    variant = writer.variant or (writer.format if writer.format != format_ else "")
    name = [format_, re.sub(r"[^\w.]+", "-", variant), slug]
    source = SOURCES[format_]
    return {
        "id": ":".join(filter(None, name)),
        "format": format_,
        "family": source.family,
        "source": {"kind": source.kind, "where": source.where},
        "kind": kind,
        "tools": tools,
        "text": text,
        "expected": meant,
        "licence": "CC0-1.0",
    }


def _material(writer: Writer, what: str, number: int) -> Material:
    return Material(random.Random(f"{writer.name}/{what}/{number}"))


def _key(row: Row) -> str:
    return repr((row["text"], row["tools"]))
