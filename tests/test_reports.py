"""Every recorded exchange in tests/recordings/reports: the client still gets what it expects, however the stream comes.

`extproc replay FILE --save-test NAME` adds one; there is nothing to be written here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from extproc.recording.difference import to_client
from extproc.recording.document import Document
from extproc.recording.replay import Cut, Outcome, replay

REPORTS = sorted((Path(__file__).parent / "recordings" / "reports").glob("*.json"))


@pytest.mark.parametrize("cut", ["recorded", "whole", 1, 16], ids=str)
@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_the_client_gets_what_the_recording_expects(path: Path, cut: Cut) -> None:
    document = Document.read(path.read_bytes())
    now = replay(document, cut)
    assert now.trace == ""
    assert to_client(now) == to_client(Outcome.recorded(document))
