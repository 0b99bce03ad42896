"""The `extproc` command, and its exit status. Its arguments, and what the subcommands do, are in `extproc.commands`.

What goes wrong is one line on stderr that says what and where, and what may be typed next, and exit status 1; a command
line that can't be understood is status 2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from extproc.server.garbage import collector_off


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = sys.argv[1:] if words is None else words
    with collector_off():
        try:
            from extproc.commands.parser import understood
        except ModuleNotFoundError as missing:
            if (missing.name or "extproc").partition(".")[0] == "extproc":
                raise
            from extproc.commands.alone import run

            return run(words, missing)
        options = understood(words)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # `extproc formats | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except _told() as error:
        from extproc.commands.next_step import next_step

        for line in f"{error}{next_step(error)}".splitlines():
            print(f"extproc: {line}", file=sys.stderr)
        return 1
    return status


def _told() -> tuple[type[Exception], ...]:
    """Errors whose text is for a person. What raises them is imported by now, or is only to be told from a bug."""
    from extproc.config import ConfigError
    from extproc.probe import ProbeError
    from extproc.recording.document import RecordingError
    from extproc.supervisor import GatewayError
    from extproc.toolcalls import UnknownFormatError

    return ConfigError, GatewayError, UnknownFormatError, ProbeError, RecordingError, OSError
