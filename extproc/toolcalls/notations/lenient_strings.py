"""Finds out which kind of string opens in a notation that is nearly JSON, and makes its reader."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from extproc.toolcalls.notations.delimited_text import DelimitedText, HandQuotedText, StringMarkers
from extproc.toolcalls.notations.lenient_notation import Notation, Shape
from extproc.toolcalls.notations.quoted_text import QuotedText

String: TypeAlias = QuotedText | DelimitedText


class Stands(NamedTuple):
    """Where a string stands."""

    shape: Shape
    at_key: bool
    depth: int
    """How many brackets are open around it."""


def string_at(
    notation: Notation, text: str, position: int, stands: Stands, *, raw: bool, final: bool
) -> tuple[String, int] | None:
    """The string that opens at `position`, and where its text begins; None when that isn't certain yet."""
    if notation.markers is not None:
        return _marked_string(notation, notation.markers, text, position, stands, final=final)
    quote = text[position]
    quotes = text[position : position + 3]
    if quotes == quote * 3:
        quote = quotes
    elif quotes == quote * len(quotes) and not final:
        return None
    return QuotedText(quote, notation.follows(stands.shape, stands.at_key), raw=raw), position + len(quote)


def _marked_string(
    notation: Notation, markers: StringMarkers, text: str, position: int, stands: Stands, *, final: bool
) -> tuple[String, int] | None:
    """One between markers, or between quotes, where a marker may stand inside of the first quote."""
    quote = text[position]
    after_quote = position + (quote != markers.delimiter[0])
    found = markers.lexer.at(text, after_quote)
    if not final and (after_quote == len(text) or (found is not None and found[1] is None)):
        return None
    if found is not None and found[1] == markers.delimiter:
        keyed = not stands.at_key and stands.shape is not Shape.LIST
        return DelimitedText(markers, stands.depth, keyed=keyed), after_quote + len(markers.delimiter)
    follows = notation.follows(stands.shape, stands.at_key)
    return HandQuotedText(quote, follows, markers, stands.depth), after_quote
