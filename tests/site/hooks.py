"""What mkdocs asks while it builds the site (docs/site/mkdocs.yml): pages outside of docs/, and each page's text."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tests.site.pages import ROOT, pages, reindented, relinked


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that aren't in docs/, and the style, which isn't one of its pages."""
    files.append(File.generated(config, "site.css", abs_src_path=str(ROOT / "docs" / "site" / "site.css")))
    for path, site in pages().items():
        if files.get_file_from_path(site) is None:
            files.append(File.generated(config, site, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: object) -> str:
    """A page's text as mkdocs wants it."""
    [path] = [path for path, site in pages().items() if site == page.file.src_uri]
    return reindented(relinked(markdown, path, config.extra["sources"]))
