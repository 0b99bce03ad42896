"""The blocks of code of all pages: those of the site, and whatever else is Markdown in the repository."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from markdown_it import MarkdownIt

from tests.site.pages import ROOT, pages

HEREDOC = re.compile(r"<<'?(\w+)'?\n.*?^\1$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, the line of its fence (from 1), its language ('' where none is named), its text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[list[str]]:
        """The single commands of shell, in words: without comments, pipes, redirections and variables."""
        text = COMMENT.sub("", HEREDOC.sub("", self.text)).replace("\\\n", " ")
        lexer = shlex.shlex(text.replace("\n", " ;\n"), posix=True, punctuation_chars="|<>;&")
        lexer.whitespace_split = True
        found: list[list[str]] = [[]]
        skipped = False
        for word in lexer:
            if set(word) <= set("|;&"):
                found.append([])
            elif set(word) <= set("<>"):
                skipped = True  # the file's name comes next
            elif not skipped and (found[-1] or not re.match(r"\w+=", word)):
                found[-1].append(word)
            else:
                skipped = False
        return [words for words in found if words and words[0] != "export"]


@cache
def blocks() -> tuple[Block, ...]:
    """All of them, by page and line."""
    return tuple(block for page in sorted(pages()) for block in _blocks(page))


def block(page: str, starts: str) -> str:
    """The text of the block of a page that starts so."""
    [found] = [each for each in blocks() if each.page == page and each.text.startswith(starts)]
    return found.text


def _blocks(page: str) -> Iterator[Block]:
    for token in MarkdownIt("commonmark").parse((ROOT / page).read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block") and token.map is not None:
            yield Block(page, token.map[0] + 1, token.info.strip(), token.content)
