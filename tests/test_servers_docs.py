"""What docs/servers.md prints for each server is what `extproc check` takes, and says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from extproc.cli import main
from extproc.config import parse
from extproc.contract.servers import SERVERS

PAGE = (Path(__file__).parents[1] / "docs/servers.md").read_text(encoding="utf-8")
SECTIONS = {
    title: block
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    for title in [section.partition("\n")[0]]
    for block in re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
}
each_section = pytest.mark.parametrize("text", SECTIONS.values(), ids=SECTIONS)


def test_every_server_has_its_entries_by_its_own_name() -> None:
    printed = {parse(text).backends[0].server for text in SECTIONS.values()}
    assert printed == SERVERS.keys()
    assert len(SECTIONS) >= 8
    for server in SERVERS:
        assert f"| `{server}` |" in PAGE


@pytest.mark.long
@each_section
def test_the_entries_are_what_check_takes(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "extproc.yaml").write_text(text, encoding="utf-8")
    assert main(["check", str(tmp_path / "extproc.yaml")]) == 0, capsys.readouterr().err


def row(label: str) -> list[str]:
    """The cells of the table `In short`, a server each."""
    (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.strip("|").split("|")[1:]]


def test_the_table_says_what_the_code_does() -> None:
    servers = list(SERVERS.values())
    assert [cell == "all" for cell in row("modes of tools")] == [server.unread is not None for server in servers]
    forced = [cell.partition(",")[0].strip("`") for cell in row("calls forced by the gateway")]
    assert forced == [server.forced_by or "no: in words" for server in servers]
    assert [cell == "yes" for cell in row("counts tokens (`count_tokens`)")] == [server.counts for server in servers]
    assert row("is asked for its health at") == [f"`{server.health}`" for server in servers]
    several = [server.takes is None or "n" in server.takes for server in servers]
    assert [cell != "no" for cell in row("`n` above 1")] == several
