"""One gateway with its page, and one browser, for all tests; each gets a context of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.setup import chromium
from tests.test_runs import SAMPLE
from tests.watch_stage import Stage, stage

expect.set_options(timeout=20_000)

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("watch")
    (folder / "characters").mkdir()
    (folder / "characters" / "narrator.py").write_text(f'{SAMPLE.read_text()}\nMODEL = "coder"\n')
    with stage(folder, "characters: characters") as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    program = chromium()
    assert program is not None, "`make test-browser` gets one"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(program))
        yield browser
        browser.close()


class Opened:
    """A page, and what went wrong in it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.troubles: list[str] = []
        page.set_default_timeout(20_000)
        page.on("console", lambda said: self.troubles.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("request", self._asks)
        self.asked: list[str] = []

    def _asks(self, request: Any) -> None:
        self.asked.append(request.url)

    def picture(self, name: str) -> None:
        """For docs/watch.md, when pictures are made."""
        if os.environ.get("PICTURES"):
            PICTURES.mkdir(exist_ok=True)
            path = str(PICTURES / f"watch-{name}.png")
            self.page.screenshot(path=path, animations="disabled", caret="hide")
            if program := shutil.which("pngquant"):  # a third of the bytes, and no eye sees it
                subprocess.run([program, "--force", "--skip-if-larger", "--output", path, path], check=False)


@pytest.fixture
def open_page(browser: Any) -> Iterator[Any]:
    contexts = []

    def opened(url: str, width: int = 1280, height: int = 800, **options: Any) -> Opened:
        context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True, **options)
        contexts.append(context)
        made = Opened(context.new_page())
        made.page.goto(url)
        return made

    yield opened
    for context in contexts:
        context.close()
