"""Every recorded exchange in tests/recordings/reports: the client still gets what it expects, however the stream comes.

`extproc replay FILE --save-test NAME` adds one; there is nothing to be written here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from extproc.recording.difference import to_client
from extproc.recording.document import Document, Kind
from extproc.recording.replay import Cut, ReplayResult, replay

REPORTS = sorted((Path(__file__).parent / "recordings" / "reports").glob("*.json"))
SHAPES = {
    "stream-in-many-pieces": lambda document: _count(document, Kind.ENVOY, "response_body") > 50,
    "whole-answer": lambda document: _count(document, Kind.ENVOY, "response_body") == 1,
    "second-try": lambda document: any(entry.kind is Kind.SAID for entry in document.entries),
    "backend-error": lambda document: '[":status","503"]' in document.written().decode(),
    "abandoned-stream": lambda document: not document.finished,
}
"""What there has to be among them, whatever else there is."""


def _count(document: Document, kind: Kind, part: str) -> int:
    return sum(entry.kind is kind and part in entry.what for entry in document.entries)


@pytest.mark.parametrize("name", SHAPES)
def test_there_is_one_of_each_shape(name: str) -> None:
    [path] = [path for path in REPORTS if path.stem == name]
    assert SHAPES[name](Document.read(path.read_bytes()))


@pytest.mark.parametrize("cut", ["recorded", "whole", 1, 16], ids=str)
@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_the_client_gets_what_the_recording_expects(path: Path, cut: Cut) -> None:
    document = Document.read(path.read_bytes())
    now = replay(document, cut)
    assert now.trace == ""
    assert to_client(now) == to_client(ReplayResult.recorded(document))
