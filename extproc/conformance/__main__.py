"""`python -m extproc.conformance` is `extproc conformance`."""

from __future__ import annotations

import sys

from extproc.conformance.command import main

if __name__ == "__main__":
    sys.exit(main())
