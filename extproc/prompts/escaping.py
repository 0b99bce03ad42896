"""Text from outside, escaped so that it spells no marker, and the way back in what the model writes.

A marker is broken by a zero-width space behind its opening character: `<|im_end|>` becomes `<`, U+200B, `|im_end|>`.
It reads the same, but no tokenizer makes a control token of it, no tag of a result closes, and the parser finds no call
where a model repeats it. An opening character that has such a space behind it already gets one more. So the escape is
undone without knowing any marker, by taking one space away behind every opening character that has some; what comes
out is what went in, to the byte. A model that copies from what it was shown then writes what stands in the file.

The text of a JSON value that is only shown needs no spaces: there the opening character itself is spelled `\\u003c`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, TypeAlias

from extproc.prompts.markers import SHAPES, markers_of, opening_characters, thinking_of, unmarked_of, words_of
from extproc.toolcalls.notations.json_call import JsonCall
from extproc.toolcalls.notations.python_call import PythonCall

SPACE = "\u200b"
_SPELLED = r"\\u200[bB]"  # the same as JSON may spell it
_UNFINISHED = "\\u20"  # ... and with what such a spelling may end before its end

_WINDOW = 8192
_LONGEST_SHAPE = 70


@lru_cache(maxsize=256)
def escaper(format_: str, tokens: frozenset[str] = frozenset()) -> Escaper:
    """The escaper for models of this format. Raises UnknownFormatError.

    `tokens` are those of the chat template, where the operator names them.
    """
    return Escaper(format_, tokens)


def _made_again(format_: str, tokens: frozenset[str], offered: AbstractSet[str]) -> Escaper:
    return escaper(format_, tokens).offering(offered)


class Escaper:
    """Escapes what users, tools and earlier turns say to a model."""

    __slots__ = ("_all", "_made_of", "_offered", "_spoken", "_unmarked", "_word", "_words", "openers")

    def __init__(self, format_: str, tokens: frozenset[str] = frozenset()) -> None:
        self._made_of = (format_, tokens)
        tokens = frozenset(filter(None, map(str.strip, tokens)))
        self.openers = "".join(sorted({*opening_characters(), *(token[0] for token in tokens)}))
        """The characters behind which a space may be one of ours: what `Unescaper` has to know."""
        markers = markers_of(format_) | tokens
        self._all = _Markers(markers, self.openers)
        self._spoken = _Markers(markers - thinking_of(format_), self.openers)
        self._words = words_of(format_)
        words = "|".join(sorted(map(re.escape, self._words)))
        self._word = re.compile(rf"((?:{words})[\s,]*[\[{{])(?!{SPACE})")

        self._unmarked = unmarked_of(format_)
        self._offered: AbstractSet[str] = frozenset()

    def offering(self, tools: Iterable[str]) -> Escaper:
        """The same where tools with these names are offered: where calls need no marker, a call of theirs is one."""
        if not self._unmarked:
            return self
        bound = object.__new__(Escaper)  # a copy, by what it has and not by what it is made of
        for name in self.__slots__:
            setattr(bound, name, getattr(self, name))
        bound._offered = frozenset(tools)
        return bound

    def __reduce__(self) -> tuple[Callable[..., Escaper], tuple[str, frozenset[str], AbstractSet[str]]]:
        # What it is made of is small, and is there already in the process that it comes to.
        return _made_again, (*self._made_of, self._offered)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Escaper):
            return NotImplemented
        return (self._made_of, self._offered) == (other._made_of, other._offered)

    def __hash__(self) -> int:
        return hash(self._made_of)

    def text(self, text: str) -> str:
        """What a user or a tool says."""
        return self._without_calls(self._all.replaced(text, _broken))

    def spoken(self, text: str) -> str:
        """What the model itself said: a chat template may look for the thinking in it."""
        return self._without_calls(self._spoken.replaced(text, _broken))

    def parts(self, texts: Sequence[str]) -> list[str]:
        """Texts that a chat template may show side by side: a marker may begin in one and end in another."""
        places = list(self._all.places("".join(texts)))
        escaped, begin = [], 0
        for text in texts:
            end = begin + len(text)
            own = places[bisect_left(places, begin) : bisect_left(places, end)]
            escaped.append(self._without_calls(_replaced(text, [at - begin for at in own], _broken)))
            begin = end
        return escaped

    def json(self, text: str) -> str:
        """The text of a JSON value that is shown as it stands; its meaning stays."""
        text = self._all.replaced(text, _spelled, in_json=True)
        if any(word in text for word in self._words):
            text = self._word.sub(lambda found: found.group()[:-1] + _spelled(found.group()[-1]), text)
        return text

    def value(self, value: Any) -> Any:
        """A JSON value with all of its strings escaped, keys too; the very same object where there is nothing to be."""
        # What isn't found in all of the text isn't in any of it: one search instead of hundreds.
        together = _BETWEEN.join(_strings(value))
        return value if self.text(together) == together else self._value(value)

    def _value(self, value: Any) -> Any:
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(key): self._value(one) for key, one in value.items()}
            case list():
                return [self._value(one) for one in value]
            case _:
                return value

    def decoded(self, text: str) -> str:
        """The text of a JSON value whose strings somebody else will decode before the model sees them."""
        if "\\u" in text or "\\/" in text:
            text = _ESCAPE.sub(_as_itself, text)
        return self.text(text)

    def _without_calls(self, text: str) -> str:
        """The text without what is a call although no marker is in it."""
        if any(word in text for word in self._words):
            text = self._word.sub(rf"\1{SPACE}", text)
        # In the lists of Python's calls the parser takes objects as well.
        if self._offered and self._unmarked & {JsonCall, PythonCall} and self._names_offered(text):
            text = _OBJECT.sub(rf"{{{SPACE}", text)
        if self._offered and PythonCall in self._unmarked:
            text = _PYTHON_CALL.sub(self._broken_list, text)
        return text

    def _names_offered(self, text: str) -> bool:
        """Whether some object in the text may be a call of an offered tool."""
        if "\\u00" in text:
            text = _ESCAPE.sub(_as_itself, text)
        return any(found[found.lastindex or 0] in self._offered for found in _NAMED.finditer(text))

    def _broken_list(self, found: re.Match[str]) -> str:
        return found[1] + SPACE + found[2] if found[3] in self._offered else found.group()


_BETWEEN = "\n\\\n"
"""What no pattern here goes across, so that what one finds in a string is found in several as well."""


def _strings(value: Any) -> list[str]:
    """All that are in a JSON value, keys too."""
    strings: list[str] = []
    left = [value]
    for one in left:  # it grows meanwhile
        kind = type(one)
        if kind is str:
            strings.append(one)
        elif kind is dict:
            strings.extend(one)
            left.extend(one.values())
        elif kind is list:
            left.extend(one)
    return strings


_NAMED = re.compile(
    # Other quotes will do, and none.
    r"""\b(?:name|tool_name|function)["']?\s*:\s*(?:"([^"\\]{1,256})"|'([^'\\]{1,256})'|([\w$.\-]{1,256}))"""
    r"""|"([^"\\]{1,256})"\s*:\s*\{"""
)
_OBJECT = re.compile(r"""\{(?=\s*["'\w{,])""")
_PYTHON_CALL = re.compile(r"(\[[\s\[]*+)(([\w.\-]{1,256}+)[ \t]*\()")


def _broken(opener: str) -> str:
    return opener + SPACE


def _spelled(opener: str) -> str:
    return f"\\u{ord(opener):04x}"


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)


def _as_itself(escape: re.Match[str]) -> str:
    """What an escape stands for, where JSON may have it as it is."""
    if escape[1] is None:
        return "/" if escape[2] == "/" else escape.group()
    character = chr(int(escape[1], 16))
    kept = character < " " or character in '"\\' or "\ud800" <= character <= "\udfff"
    return escape.group() if kept else character


def _replaced(text: str, places: Iterable[int], replacement: Callable[[str], str]) -> str:
    """The text with the characters at these places replaced."""
    pieces, done = [], 0
    for at in places:
        pieces += [text[done:at], replacement(text[at])]
        done = at + 1
    return "".join([*pieces, text[done:]]) if pieces else text


class _Markers:
    """Finds where markers open."""

    __slots__ = ("_in_json", "_longest", "_plain")

    def __init__(self, markers: Collection[str], openers: str) -> None:
        by_opener: dict[str, list[str]] = defaultdict(list)
        for marker in markers:
            by_opener[marker[0]].append(marker[1:])
        by_opener["<"]  # the shapes begin so, whatever else does
        self._longest = max(_LONGEST_SHAPE, *map(len, markers))
        self._plain = _pattern(by_opener, openers, SPACE)
        self._in_json = _pattern(by_opener, openers, rf"{SPACE}|{_SPELLED}")

    def replaced(self, text: str, replacement: Callable[[str], str], *, in_json: bool = False) -> str:
        """The text with the opening character of every marker replaced, and of every space that looks like ours."""
        return _replaced(text, self.places(text, in_json=in_json), replacement)

    def places(self, text: str, *, in_json: bool = False) -> Iterator[int]:
        """Where those characters are.

        In windows: a search lets no other thread run, and in a text of 30 million characters each may open a marker.
        """
        find = (self._in_json if in_json else self._plain).finditer
        for start in range(0, len(text), _WINDOW):
            end = start + _WINDOW
            for opener in find(text, start, end + self._longest):
                if opener.start() >= end:
                    break
                yield opener.start()


def _pattern(by_opener: dict[str, list[str]], openers: str, space: str) -> re.Pattern[str]:
    """Matches the opening character alone, so that markers inside markers are found too."""
    branches = []
    for opener in openers:
        rest = [branch for branch in (_trie(by_opener.get(opener, ())), SHAPES if opener == "<" else "") if branch]
        branches.append(f"{re.escape(opener)}(?={'|'.join([space, *rest])})")
    return re.compile("|".join(branches))


_Trie: TypeAlias = dict[str, "_Trie"]


def _trie(words: Iterable[str]) -> str:
    """A pattern of all of the words, for one pass over the text however many they are."""
    root: _Trie = {}
    for word in words:
        node = root
        for character in word:
            node = node.setdefault(character, {})
        node[""] = {}  # a word ends here
    return _branches(root)


def _branches(node: _Trie) -> str:
    if not node or "" in node:
        return ""  # what is longer begins with this one
    branches = [re.escape(character) + _branches(child) for character, child in sorted(node.items())]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


class Unescaper:
    """Takes the spaces out again, of a text that comes in pieces: nothing of it is held back."""

    __slots__ = ("_behind_opener", "_openers", "_sub")

    def __init__(self, openers: str) -> None:
        self._openers = openers
        self._sub = _ours(openers, SPACE)
        self._behind_opener = False

    def feed(self, piece: str) -> str:
        """The next piece, as it was meant."""
        if not piece:
            return piece
        behind, self._behind_opener = self._behind_opener, piece[-1] in self._openers
        if SPACE not in piece:
            return piece
        if behind and piece[0] == SPACE:
            piece = piece[1:]
        return self._sub(r"\1", piece)


class JsonUnescaper:
    """The same for the text of a JSON value, in which the space may also be spelled `\\u200b`.

    Only the beginning of such a spelling is held back, right behind an opening character.
    """

    __slots__ = ("_behind_opener", "_first", "_held", "_openers", "_sub", "_unfinished")

    def __init__(self, openers: str) -> None:
        self._openers = openers
        self._sub = _ours(openers, f"(?:{SPACE}|{_SPELLED})")
        self._first = re.compile(rf"{SPACE}|{_SPELLED}").match
        self._unfinished = re.compile(rf"(?:\A|[{re.escape(openers)}])(\\(?:u(?:2(?:00?)?)?)?)\Z").search
        self._behind_opener = False
        self._held = ""

    def feed(self, piece: str) -> str:
        """The next piece, as it was meant."""
        text = self._held + piece
        if not text:
            return text
        self._held = ""
        behind = self._behind_opener
        if text[-1] in _UNFINISHED and "\\" in text[-5:]:
            unfinished = self._unfinished(text, max(len(text) - 6, 0))
            if unfinished is not None and (unfinished.start() < unfinished.start(1) or behind):
                self._held = unfinished[1]
                text = text[: -len(self._held)]
                if not text:
                    return text
        self._behind_opener = text[-1] in self._openers
        if SPACE not in text and "\\u200" not in text:
            return text
        if behind and (first := self._first(text)) is not None:
            text = text[first.end() :]
        return self._sub(r"\1", text)

    def close(self) -> str:
        """What is still held: the text has ended."""
        held, self._held = self._held, ""
        self._behind_opener = False
        return held


@lru_cache
def _ours(openers: str, space: str) -> Callable[[str, str], str]:
    return re.compile(f"([{re.escape(openers)}]){space}").sub
