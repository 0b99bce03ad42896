"""Holds the built site to what was written: `python -m tests.site.check build/site`, part of `make site`.

Every page has the headings, lists, tables and blocks of code that a forge shows of it, and none asks another host for
anything: no script, style, picture or font. Links and anchors have been checked by mkdocs.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

from tests.site.pages import COUNTED, ROOT, elements, pages

_ASSETS = {"audio": "src", "embed": "src", "iframe": "src", "img": "src", "link": "href", "object": "data"}
_ASSETS |= {"script": "src", "source": "src", "video": "src"}
_ELSEWHERE = re.compile(r"(?:https?:)?//")
_FETCHED = re.compile(r"@import\s+[\"'](?:https?:)?//|url\(\s*[\"']?(?:https?:)?//")


class Built(HTMLParser):
    """A built page: the elements of its text, and what it has a browser fetch."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.counts = dict.fromkeys(COUNTED, 0)
        self.assets: list[str] = []
        self._in_text = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        asset = dict(attrs).get(_ASSETS.get(tag, ""))
        if asset is not None:
            self.assets.append(asset)
        self._in_text |= tag == "article"
        if self._in_text and tag in self.counts:
            self.counts[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        self._in_text &= tag != "article"


def fetched_elsewhere(text: str, *, is_style: bool = False) -> list[str]:
    """What a page, or a style sheet, has a browser ask another host for."""
    if is_style:
        return _FETCHED.findall(text)
    return [asset for asset in Built(text).assets if _ELSEWHERE.match(asset)]


def faults(site: Path) -> list[str]:
    """What is wrong with it, a line each."""
    found = []
    for page, source in pages().items():
        path = re.sub(r"README\.md$", "index.md", source)
        built = Built((site / path).with_suffix(".html").read_text(encoding="utf-8")).counts
        written = elements((ROOT / page).read_text(encoding="utf-8"))
        if built != written:
            differing = {tag: (written[tag], built[tag]) for tag in COUNTED if written[tag] != built[tag]}
            found.append(f"{page}: written and built differ: {differing}")
    for file in (*site.rglob("*.html"), *site.rglob("*.css")):
        elsewhere = fetched_elsewhere(file.read_text(encoding="utf-8"), is_style=file.suffix == ".css")
        found += [f"{file.relative_to(site)}: asks another host for {what}" for what in elsewhere]
    return found


if __name__ == "__main__":
    if wrong := faults(Path(sys.argv[1])):
        sys.exit("\n".join(wrong))
