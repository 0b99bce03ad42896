"""`extproc conformance` and `conformance tools` where the processor's libraries aren't installed.

The parser of the whole command line imports what the processor is made of. Without that these two still run, each with
its own parser; whatever else is asked for is refused by name.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def run(words: Sequence[str], missing: ModuleNotFoundError) -> int:
    """Run what `words` say, as far as that is possible; `missing` is why the rest isn't. Returns the exit status."""
    match list(words):
        case ["conformance", "tools", *arguments]:
            from extproc.corpus.command import main as tools

            return tools(arguments, "extproc conformance tools")
        case ["conformance", *arguments] if arguments[:1] != ["model"]:
            from extproc.conformance.command import main as suite

            return suite(arguments, "extproc conformance")
    print(
        f"extproc: the processor isn't installed whole ({missing.name} is missing); "
        "only `extproc conformance` and `extproc conformance tools` run without it",
        file=sys.stderr,
    )
    return 1
