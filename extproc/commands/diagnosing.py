"""`extproc diagnose`: why recorded exchanges went as they did."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from extproc.commands.options import Commands, add

if TYPE_CHECKING:
    from extproc.diagnosis import Finding


def add_commands(commands: Commands) -> None:
    diagnose = add(
        commands,
        "diagnose",
        _diagnose,
        "say why a model made no call, or an answer went wrong, in recorded exchanges",
        """
        extproc diagnose recordings/*.json
        extproc diagnose exchange.json --json --without-quotes
        """,
    )
    diagnose.add_argument("files", type=Path, nargs="+", metavar="FILE", help="a file written by `extproc record`")
    diagnose.add_argument("--json", action="store_true", help="print a JSON object for each file, one per line")
    diagnose.add_argument(
        "--without-quotes",
        action="store_true",
        help="leave out what the model or the client said, so that others may read it",
    )


def _diagnose(options: argparse.Namespace) -> int:
    from extproc.commands.recordings import read_recording
    from extproc.diagnosis import CAUSES, Severity, told
    from extproc.diagnosis.diagnosing import diagnose
    from extproc.recording.document import RecordingError
    from extproc.recording.reading import printable

    wrong = False
    for path in options.files:
        try:
            found = diagnose(read_recording(path))
        except RecordingError as error:
            print(printable(f"extproc: {path}: {error}"), file=sys.stderr)
            wrong = True
            continue
        wrong |= any(CAUSES[finding.cause].severity is not Severity.NOTE for finding in found)
        quotes = not options.without_quotes
        if options.json:
            print(json.dumps({"file": str(path), "findings": [told(finding, quotes=quotes) for finding in found]}))
        else:
            print(printable(_written(path, found, quotes=quotes)))
    return int(wrong)


def _written(path: Path, found: list[Finding], *, quotes: bool) -> str:
    from extproc.diagnosis import told

    lines = [f"{path}: nothing is found" if not found else f"{path}:"]
    for finding in found:
        fields = told(finding, quotes=quotes)
        lines.append(f"  {fields['severity']}: {fields['what']} ({finding.cause})")
        lines.append(f"    seen by:  {fields['shown_by']}")
        if "quoted" in fields:
            lines.append(f"    quoted:   {fields['quoted']}")
        lines.append(f"    change:   {fields['change']}")
        lines.append(f"    more:     {fields['page']}")
    return "\n".join(lines)
