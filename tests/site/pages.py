"""The site's pages: which files of the repository they are, where they stand, what becomes of their links and lists.

Pages are written as forges read them, in GitHub's Markdown, with links from file to file. The site has another layout
and another reader of Markdown, Python-Markdown: here is what leads from the one to the other, as functions of text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]

COUNTED = ("h1", "h2", "h3", "h4", "li", "ol", "pre", "tr", "ul")

_RENAMED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
}
_ELSEWHERE = (
    "bench/README.md",
    "deploy/helm/*/README.md",
    "deploy/k8s/README.md",
    "deploy/k8s/*/README.md",
    "deploy/k8s/overlays/*/README.md",
)

_CODE = re.compile(r"(?<![`\\])(`+)(?!`)((?:(?!\n\s*\n).)+?)(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)")
_MARKER = re.compile(r" *(?:[-*+]|\d+[.)]) +")


@cache
def pages() -> dict[str, str]:
    """The path in the site's sources of each page, by its path in the repository."""
    docs = {path.relative_to(ROOT).as_posix(): path.name for path in (ROOT / "docs").glob("*.md")}
    elsewhere = (path.relative_to(ROOT).as_posix() for pattern in _ELSEWHERE for path in ROOT.glob(pattern))
    return docs | _RENAMED | {path: path for path in elsewhere}


@dataclass(frozen=True, slots=True)
class Link:
    """An inline link or an image of a page."""

    start: int
    end: int
    image: bool
    text: str
    target: str

    def leads_to(self, page: str) -> tuple[str, str] | None:
        """The path in the repository, seen from a page's, and the anchor there; None where it leads elsewhere."""
        if re.match(r"[a-z]+:", self.target):
            return None
        path, _, anchor = self.target.partition("#")
        return posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page, anchor


def links(text: str) -> Iterator[Link]:
    """Those that stand outside of code, in their order."""
    # Code keeps its place and its length, and loses what could be taken for a link.
    lines = text.splitlines(keepends=True)
    for token in _parsed(text):
        if token.type == "fence" and token.map is not None:
            lines[slice(*token.map)] = [_hidden(line) for line in lines[slice(*token.map)]]
    bare = _CODE.sub(lambda code: _hidden(code[0]), "".join(lines))
    for found in _LINK.finditer(bare):
        start, end = found.span("text")
        yield Link(*found.span(), bool(found["image"]), text[start:end], found["target"])


@cache
def anchors(text: str) -> set[str]:
    """What links may name: each heading as forges spell it, and each `<a id>`."""
    names: dict[str, int] = {}
    tokens = _parsed(text)
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            said = "".join(child.content for child in inline.children or [] if child.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", said.lower()).replace(" ", "-")
            names[slug] = names.get(slug, -1) + 1
    repeated = {f"{slug}-{number}" for slug, most in names.items() for number in range(1, most + 1)}
    return names.keys() | repeated | set(re.findall(r'<a id="([^"]+)">', text))


def relinked(text: str, page: str, sources: str) -> str:
    """A page whose links lead to pages of the site, or to a file's text below `sources`, or name that file's path."""
    there, done, made = pages(), 0, []
    for link in links(text):
        made += [text[done : link.start], _relinked(link, page, there, sources) or text[link.start : link.end]]
        done = link.end
    return "".join(made) + text[done:]


def _relinked(link: Link, page: str, there: dict[str, str], sources: str) -> str | None:
    led = link.leads_to(page)
    if led is None or not link.target.partition("#")[0]:
        return None
    path, anchor = led
    path = path if path in there or f"{path}/README.md" not in there else f"{path}/README.md"
    site = there.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
    if site is None and not sources:
        return link.text if path in link.text.replace("`", "") else f"{link.text} (`{path}`)"
    if site is None:
        target = f"{sources.rstrip('/')}/{path}"
    else:
        target = posixpath.relpath(site, posixpath.dirname(there[page]) or ".")
    return f"{'!' * link.image}[{link.text}]({target}{'#' * bool(anchor)}{anchor})"


def reindented(text: str) -> str:
    """A page whose lists are as Python-Markdown wants them: apart from what is before, four blanks for each level."""
    lines = text.splitlines()
    stripped, depths = [0] * len(lines), [0] * len(lines)
    apart: set[int] = set()
    prose: set[int] = set()
    for token in _parsed(text):
        if token.map is None:
            continue
        first, last = token.map
        if token.type == "list_item_open":
            marker = _MARKER.match(lines[first][stripped[first] :])
            width = marker.end() if marker else 0
            for number in range(first + 1, last):
                stripped[number] += width
                depths[number] += 1
            if any(not line.strip() for line in lines[first:last]):
                apart.add(last)
        elif token.type in ("bullet_list_open", "ordered_list_open", "table_open") and token.level == 0:
            apart.add(first)
        elif token.type == "paragraph_open":
            prose.update(range(first + 1, last))
    made = []
    for number, line in enumerate(lines):
        if number in apart and number and lines[number - 1].strip():
            made.append("")
        if not depths[number] or not line.strip():
            made.append(line)
        else:
            kept = line[stripped[number] :] if not line[: stripped[number]].strip() else line.lstrip()
            if number in prose:  # a number that a line begins with begins no list
                kept = re.sub(r"^(\d+)\. ", r"\1\. ", kept)
            made.append("    " * depths[number] + kept)
    return "\n".join(made) + "\n"


def elements(text: str) -> dict[str, int]:
    """How many of each a page has, as forges read it: headings, lists, their items, rows of tables, blocks of code."""
    counts = dict.fromkeys(COUNTED, 0)
    for token in _parsed(text):
        tag = "pre" if token.type in ("fence", "code_block") else token.tag
        if token.nesting >= 0 and tag in counts:
            counts[tag] += 1
    return counts


@cache
def _parsed(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(text)


def _hidden(code: str) -> str:
    return re.sub(r"[^\n]", "x", code)
