"""Clients that can't be installed: one that has to be there is a failure, any other is left out, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients import installed, setup
from tests.clients.installed import Client, client

NAMES = ("needed", "nice-to-have")


@pytest.fixture(autouse=True)
def _unobtainable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clients that exist nowhere, and a cache of this test's own."""
    monkeypatch.setenv("EXTPROC_CACHE", str(tmp_path))
    clients = {
        name: Client(name, (f"./{name}-1.0-py3-none-any.whl",), required=name == "needed", python=True)
        for name in NAMES
    }
    for module in (installed, setup):
        monkeypatch.setattr(module, "CLIENTS", clients)


def test_what_fails_is_reported_and_tried_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for names, status, told in ((["nice-to-have"], 0, "left out: nice-to-have"), (["needed"], 1, "required: needed")):
        monkeypatch.setattr("sys.argv", ["setup", *names])
        assert setup.main() == status
        shown = capsys.readouterr()
        assert "0 of 1 clients are ready" in shown.out
        assert told in shown.err
        assert f"{names[0]}-1.0-py3-none-any.whl" in shown.err
    with pytest.raises(pytest.skip.Exception, match=r"nice-to-have: its installation failed: .*any\.whl"):
        client("nice-to-have")
    with pytest.raises(pytest.fail.Exception, match="needed: its installation failed"):
        client("needed")


def test_what_was_never_tried_says_how() -> None:
    with pytest.raises(pytest.skip.Exception, match="make test-clients"):
        client("nice-to-have")


def test_unknown_names_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["setup", "clyne"])
    with pytest.raises(SystemExit):
        setup.main()
    assert "no client is called clyne" in capsys.readouterr().err
