"""Whether the letters that were planted in a text come out of it, each once: as text, in a call's name or arguments.

They may vanish only in a few places, for which `_Place` has names. A place is where the parser read the letter; it is
looked up only when one is missing.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from dataclasses import replace
from itertools import count

from extproc.toolcalls import Parser
from extproc.toolcalls.notations.nested_elements import NestedElements
from extproc.toolcalls.notations.python_call import PythonCall
from extproc.toolcalls.table import Body, Gap, Header, Key, Name, Reader, Value, Verdict
from tests.fuzz.inputs import Input
from tests.fuzz.reading import Outcome, Said, read
from tests.fuzz.watching import in_comment, in_string, part_of_object, reader_of, rules_of, state_of

_FIRST, _LAST = "가", "힣"
_find = re.compile(f"[{_FIRST}-{_LAST}]").findall

# Of a call that was cut off, what is markup: `machine.py` has the same limits.
_LONGEST_HEAD, _MOST_WORDS = 200, 4

_KEY_SIGN = re.compile(r"[^\n:=]*\s*[\"']?\s*[:=]").match
_COMMENT = re.compile(r"(?://|#)[^\n]*\Z|/\*(?:(?!\*/).)*\Z", re.DOTALL).search
_BEHIND_OBJECT = re.compile(r"(?:\}[^{}]*|[<`].*)\Z", re.DOTALL).search
_NO_TOOL = re.compile(r"directly.answer").search
_LANGUAGE = re.compile(r"```[^\n`]*\Z").search


class _Place(enum.Enum):
    """Where a letter may vanish."""

    HEADER = "a message's header"
    NAME = "what stands around a tool's name: an attribute, an id"
    KEY = "what stands around a key, or a key whose value never came"
    JUNK = "what a gap takes for junk, though it may hold words"
    MEMBER = "a JSON call's member that is neither its name nor its arguments"
    STRING = "what stands in a string of JSON behind the object that it holds"
    NO_TOOL = "the arguments of Command R's tool that is none"
    LANGUAGE = "a code block's language, around a value"
    TAG = "an element's attributes"
    COMMENT = "a comment between calls or arguments"
    HEAD = "the head of a call that was cut off"
    CUT_OFF = "what a reader had begun when the output ended"
    BROKEN = "a key, or so, that a reader had begun when the call broke off"


def wrong(input_: Input, outcome: Outcome) -> str | None:
    """Why letters are missing, or come too often; None when all is right."""
    planted = _find(input_.text)
    if not planted:
        return None
    came = _letters(outcome)
    if planted == came:
        return None
    planted.sort()
    came.sort()
    return None if planted == came else _why(input_)


def _letters(outcome: Outcome) -> list[str]:
    return _find("\n".join(item.text if isinstance(item, Said) else item.name + item.arguments for item in outcome))


def _why(input_: Input) -> str | None:
    """Each letter gets a name of its own; then it can be told where the missing ones stood."""
    names = count(ord(_FIRST))
    text = re.sub(f"[{_FIRST}-{_LAST}]", lambda _: chr(next(names)), input_.text)
    input_ = replace(input_, text=text)
    came = Counter(_letters(read(input_, [text])))
    parser = input_.parser()
    wrongs = set()
    lost_by: dict[int, tuple[Reader, str, int, int]] = {}
    for at, character in enumerate(text):
        before = reader_of(parser)  # the letter may end its call
        parser.feed(character)
        if not _FIRST <= character <= _LAST or came[character] == 1:
            continue
        if came[character] > 1:
            wrongs.add("twice: " + state_of(parser))
        elif _may_vanish(parser, text[:at]) or _is_head(text[at:]):
            continue
        elif reader := reader_of(parser) if isinstance(rules_of(parser), Body) else before:
            _, state, first, _ = lost_by.get(id(reader), (reader, state_of(parser), at, at))
            lost_by[id(reader)] = reader, state, first, at
        else:
            wrongs.add("lost: " + state_of(parser))
    for reader, state, first, last in lost_by.values():
        cut_off = reader is reader_of(parser) and not reader.done
        is_key = _KEY_SIGN(text, last + 1) is not None or _is_head(text[first : last + 1])
        if not cut_off and not (reader.done and not reader.whole and is_key):
            wrongs.add("lost: " + state)
    return ", ".join(sorted(wrongs)) or None


def _may_vanish(parser: Parser, before: str) -> _Place | None:
    """The place in which the parser has just read a letter, if it may vanish there."""
    reader = reader_of(parser)
    match rules_of(parser):
        case Header(hidden=True):
            return _Place.HEADER
        case Name():
            return _Place.NAME
        case Key():
            return _Place.KEY
        case Gap(junk=junk) if junk.fullmatch(_FIRST):
            return _Place.JUNK
        case Body() if part_of_object(reader) in ("IN_KEY", "IN_OTHER", "IN_NAME"):
            return _Place.MEMBER
        case Value() if _LANGUAGE(before):
            return _Place.LANGUAGE
        case Body() if _NO_TOOL(before):
            return _Place.NO_TOOL
        case Body() if in_string(reader) and _BEHIND_OBJECT(before):
            return _Place.STRING
        case NestedElements() if before.rfind("<") > before.rfind(">"):
            return _Place.TAG
        case Body() if in_comment(reader) or _COMMENT(before):
            return _Place.COMMENT
        case PythonCall() if reader is not None and reader.verdict is Verdict.UNDECIDED:
            return _Place.NAME
    return None


def _is_head(rest: str) -> bool:
    """Whether the letter stands in what may be the head of a call, with which the output ends."""
    return len(rest) <= _LONGEST_HEAD and len(rest.split()) <= _MOST_WORDS
