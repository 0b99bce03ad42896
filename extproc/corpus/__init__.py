"""The tool-call corpus, and the judge of parsers: what models write, what it means, and whether a parser says so.

    load, Row, Expected          the rows: package data, one file for each format (docs/corpus.md)
    judge, Report, Given, Delta  a parser is a callable: a model's text in pieces in, OpenAI's deltas out
    judge_url                    the same rows asked of an OpenAI-compatible server, whose model is played

`python -m extproc.corpus --parser MODULE:FUNCTION` does it at a terminal.
"""

from extproc.corpus.differences import Came, same
from extproc.corpus.endpoint import judge_url
from extproc.corpus.judging import Delta, Given, ParserUnderTest, judge
from extproc.corpus.reports import Report, Verdict
from extproc.corpus.rows import KINDS, Expected, Row, load

__all__ = [
    "KINDS",
    "Came",
    "Delta",
    "Expected",
    "Given",
    "ParserUnderTest",
    "Report",
    "Row",
    "Verdict",
    "judge",
    "judge_url",
    "load",
    "same",
]
