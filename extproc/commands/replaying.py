"""`extproc replay`: what the code does now with an exchange that was recorded."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from extproc.commands.options import Commands, add
from extproc.config import Config, load

if TYPE_CHECKING:
    from extproc.recording.document import Document
    from extproc.recording.replay import Cut, ReplayResult

_TESTS = Path("tests", "recordings", "reports")


def add_commands(commands: Commands) -> None:
    replay = add(
        commands,
        "replay",
        _replay,
        "replay recorded exchanges through the current code, and say whether the result is the same",
        """
        extproc replay recordings/*.json
        extproc replay exchange.json --cut 1          the backend's stream byte by byte
        extproc replay exchange.json --show           the requests and the answers, to read
        extproc replay exchange.json --save-test cline-lost-call
        """,
    )
    replay.add_argument("files", type=Path, nargs="+", metavar="FILE", help="a file written by `extproc record`")
    replay.add_argument(
        "--cut",
        type=_cut,
        default="recorded",
        metavar="whole|recorded|N",
        help="how the backend's stream arrives: in one piece, as it did then, or in pieces of N bytes "
        "(default: %(default)s)",
    )
    replay.add_argument(
        "--config", type=Path, metavar="FILE", help="use this configuration instead of the recorded one"
    )
    replay.add_argument("--show", action="store_true", help="print the requests and what the client gets now")
    replay.add_argument(
        "--save-test",
        metavar="NAME",
        help=f"in a checkout: turn the recording into a test in {_TESTS} that expects the current result",
    )


def _cut(text: str) -> Cut:
    if text == "whole":
        return "whole"
    if text == "recorded":
        return "recorded"
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected whole, recorded or a number of bytes, got {text!r}")


def _replay(options: argparse.Namespace) -> int:
    if options.save_test is not None and len(options.files) > 1:
        options.misused("--save-test takes one FILE")
    from extproc.recording.document import RecordingError
    from extproc.recording.reading import printable

    config = load(options.config) if options.config is not None else None
    same = True
    for path in options.files:
        try:
            same &= _replay_one(path, config, options)
        except RecordingError as error:
            print(printable(f"extproc: {path}: {error}"), file=sys.stderr)  # the others are told of all the same
            same = False
    return 0 if same else 1


def _replay_one(path: Path, config: Config | None, options: argparse.Namespace) -> bool:
    """Tell what comes of it; whether it is the same."""
    from extproc.commands.recordings import read_recording
    from extproc.recording.difference import first_difference, steps_of
    from extproc.recording.reading import printable, shown
    from extproc.recording.replay import ReplayResult, replay

    document = read_recording(path)
    now = replay(document, options.cut, config)
    if options.show:
        print(shown(document, now))
    for note in document.notes:
        print(printable(f"{path}: {note}"))
    if now.trace:
        print(printable(now.trace), end="", file=sys.stderr)
    if options.save_test is not None:
        print(f"{_save(options.save_test, document, now)}: written; it expects the current result")
        return True
    recorded = ReplayResult.recorded(document)
    difference = first_difference(recorded, now)
    verdict = "the same as" if difference is None else "not the same as"
    print(printable(f"{path}: {verdict} recorded with extproc {document.extproc} (cut: {options.cut})"), end="")
    if difference is None and not document.complete:
        print(f", as far as it goes: {steps_of(recorded)} of {steps_of(now)} steps", end="")
    print()
    if difference is not None:
        print(printable(str(difference)))
    return difference is None


def _save(name: str, document: Document, now: ReplayResult) -> Path:
    """Write the test's file. Raises RecordingError when it would test nothing, or has no place."""
    from extproc.recording.document import RecordingError
    from extproc.recording.replay import expecting

    if not re.fullmatch(r"[a-z0-9-]{1,80}", name):
        raise RecordingError(f"a test's name may have only a-z, 0-9 and '-', got {name!r}")
    if not _TESTS.parent.is_dir():
        raise RecordingError(f"there is no {_TESTS.parent} here: --save-test works only in a checkout of the project")
    path = _TESTS / f"{name}.json"
    content = expecting(document, now).written()
    _TESTS.mkdir(exist_ok=True)
    with path.open("xb") as file:  # never over another test
        file.write(content)
    return path
