"""The pages of docs/: each has its place in the site, and every link of theirs points at something."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt

from tests.site.check import fetched_elsewhere
from tests.site.pages import ROOT, anchors, elements, links, pages, reindented, relinked

PAGES = sorted(pages())
SOURCES = "https://forge.example/extproc/blob/main"

each_page = pytest.mark.parametrize("page", PAGES)


def named(nav: list[Any] | dict[str, Any] | str) -> Iterator[str]:
    """The pages of a part of the nav."""
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from named(part)


@cache
def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def test_every_page_stands_once_in_the_nav() -> None:
    configuration = (ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8")
    nav = yaml.safe_load(configuration.partition("\nnav:\n")[2])
    assert sorted(named(nav)) == sorted(pages().values())
    assert [kind for part in nav for kind in part] == ["Start", "Tutorial", "How-to", "Reference", "Explanation"]


@each_page
def test_every_link_points_at_something(page: str) -> None:
    dead = []
    for link in links(text(page)):
        led = link.leads_to(page)
        if led is None:
            continue
        path, anchor = led
        there = (ROOT / path).exists() and not Path(path).is_absolute() and not path.startswith("..")
        if not there or (anchor and path.endswith(".md") and anchor not in anchors(text(path))):
            dead.append(link.target)
    assert dead == []


@each_page
def test_no_link_is_overlooked(page: str) -> None:
    inline = [
        child for token in MarkdownIt("commonmark").enable("table").parse(text(page)) for child in token.children or []
    ]
    targets = [child.attrs["href"] for child in inline if child.type == "link_open" and child.markup != "autolink"]
    targets += [child.attrs["src"] for child in inline if child.type == "image"]
    assert sorted(link.target for link in links(text(page))) == sorted(map(str, targets))


@each_page
def test_for_the_site_a_page_loses_nothing(page: str) -> None:
    assert elements(reindented(relinked(text(page), page, ""))) == elements(text(page))


def test_what_a_link_is() -> None:
    found = list(links("A [page](a.md#b), `[no](c.md)`, ![picture](d.png), [`code`](e)\n\n```\n[no](f.md)\n```\n"))
    assert [(link.text, link.target, link.image) for link in found] == [
        ("page", "a.md#b", False),
        ("picture", "d.png", True),
        ("`code`", "e", False),
    ]


def test_anchors_are_spelled_as_forges_spell_them() -> None:
    page = '# A & `b_c`: it\'s\n\n## Twice\n\n## Twice\n\n```\n# none\n```\n\n<a id="own"></a>\n'
    assert anchors(page) == {"a--b_c-its", "twice", "twice-1", "own"}


@pytest.mark.parametrize(
    ("page", "written", "built"),
    [
        ("README.md", "[a](docs/clients.md#cline)", "[a](clients.md#cline)"),
        ("docs/clients.md", "[a](messages.md)", "[a](messages.md)"),
        ("docs/clients.md", "[a](#cline)", "[a](#cline)"),
        ("docs/clients.md", "[a](../README.md#try-it)", "[a](index.md#try-it)"),
        ("docs/hosts.md", "[a](../deploy/k8s/overlays/istio/README.md)", "[a](deploy/k8s/overlays/istio/README.md)"),
        ("deploy/k8s/overlays/istio/README.md", "[a](../../../../docs/hosts.md)", "[a](../../../../hosts.md)"),
        ("deploy/k8s/README.md", "[a](overlays/tls)", "[a](overlays/tls/README.md)"),
        ("docs/watch.md", "![a](pictures/answers.svg)", "![a](pictures/answers.svg)"),
        ("README.md", "[a](https://example.com/b)", "[a](https://example.com/b)"),
        ("README.md", "[the licence](LICENSE)", f"[the licence]({SOURCES}/LICENSE)"),
    ],
)
def test_links_lead_to_pages_of_the_site_or_to_files(page: str, written: str, built: str) -> None:
    assert relinked(f"See {written}.\n", page, SOURCES) == f"See {built}.\n"


def test_without_a_place_for_files_their_paths_are_named() -> None:
    assert relinked("[Its text](LICENSE), [`LICENSE`](LICENSE)", "README.md", "") == "Its text (`LICENSE`), `LICENSE`"


def test_lists_are_indented_as_the_site_wants_them() -> None:
    written = "It:\n- a\n  200. b\n  - c\n\n1. d\n\n   ```\n   e\n   ```\n2. f\n"
    built = "It:\n\n- a\n    200\\. b\n    - c\n\n1. d\n\n    ```\n    e\n    ```\n\n2. f\n"
    assert reindented(written) == built


@pytest.mark.parametrize(
    ("built", "fetched"),
    [
        ('<script src="https://cdn.example/a.js"></script>', ["https://cdn.example/a.js"]),
        ('<link rel="stylesheet" href="//cdn.example/a.css">', ["//cdn.example/a.css"]),
        ('<img src="http://cdn.example/a.png">', ["http://cdn.example/a.png"]),
        ('<img src="pictures/a.png"><script src="/a.js"></script><a href="https://example.com">', []),
    ],
)
def test_what_another_host_is_asked_for_is_noticed(built: str, fetched: list[str]) -> None:
    assert fetched_elsewhere(built) == fetched


def test_what_a_style_sheet_asks_for_is_noticed() -> None:
    assert fetched_elsewhere("@import 'https://a.example/b.css'; a {background: url(//c)}", is_style=True) != []
    assert fetched_elsewhere("a {background: url(data:image/png;base64,AAAA)}", is_style=True) == []
