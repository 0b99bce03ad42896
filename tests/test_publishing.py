"""Envoy's files where Envoy can't be asked what it has taken of them: written in order, and given a moment."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest
import yaml

from extproc.config import Config, parse
from extproc.envoy_admin import EnvoyAdmin
from extproc.publishing import UNSEEN, EnvoyFiles


def config(*backends: str) -> Config:
    return parse(
        yaml.safe_dump(
            {
                "models": [{"name": "m", "backend": backends[0], "tools": "prompt"}],
                "backends": [{"name": name, "address": "127.0.0.1:8000"} for name in backends],
            }
        )
    )


def clusters(directory: Path) -> list[str]:
    return [cluster["name"] for cluster in yaml.safe_load((directory / "clusters.yaml").read_text())["resources"]]


def test_the_backends_that_are_left_stay_until_nobody_uses_them(tmp_path: Path) -> None:
    directory = tmp_path / "run" / "envoy"

    async def main() -> None:
        files = EnvoyFiles(directory, None)
        await files.begin(config("one"))
        assert {path.name for path in directory.iterdir()} == {"clusters.yaml", "routes.yaml", "listener.yaml"}
        assert clusters(directory) == ["one"]
        before = time.monotonic()
        await files.offer(config("two"), config("one").backends)
        assert clusters(directory) == ["two", "one"]
        assert time.monotonic() - before >= UNSEEN, "Envoy had no time to learn of it"
        await files.settle(config("two"), ())
        assert clusters(directory) == ["two"]

    asyncio.run(main())


def test_what_stays_the_same_is_not_written_again(tmp_path: Path) -> None:
    def written() -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in tmp_path.iterdir()}

    async def main() -> None:
        files = EnvoyFiles(tmp_path, None)
        await files.begin(config("one"))
        before = written()
        await files.offer(config("one", "two"), ())
        assert [name for name, inode in written().items() if inode != before[name]] == ["clusters.yaml"]

    asyncio.run(main())


def test_an_envoy_that_does_not_run_yet_is_no_reason_to_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        files = EnvoyFiles(tmp_path, EnvoyAdmin(str(tmp_path / "admin.sock")))
        await files.begin(config("one"))
        await files.offer(config("one", "two"), ())

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert clusters(tmp_path) == ["one", "two"]
    assert "Envoy's admin interface doesn't answer: " in caplog.text


def test_a_directory_that_can_not_be_written_leaves_all_as_it_was(tmp_path: Path) -> None:
    async def main() -> None:
        files = EnvoyFiles(tmp_path, None)
        await files.begin(config("one"))
        (tmp_path / ".clusters.yaml.new").mkdir()  # where the new one would be written
        with pytest.raises(OSError, match="directory"):
            await files.offer(config("one", "two"), ())

    asyncio.run(main())
    assert clusters(tmp_path) == ["one"]
