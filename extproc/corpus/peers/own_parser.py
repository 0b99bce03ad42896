"""The parser of this package behind the same protocol: shows that the way there and back changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from extproc.corpus.adapters import extproc_parser
from extproc.corpus.judging import Delta, Given
from extproc.toolcalls import NAMED


def versions() -> Mapping[str, str]:
    return {}


def formats() -> Mapping[str, str]:
    return {format_.name: format_.name for format_ in NAMED}


def parse(given: Given) -> Iterator[Delta]:
    return extproc_parser(given)
