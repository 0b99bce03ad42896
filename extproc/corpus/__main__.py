"""`python -m extproc.corpus`: `extproc conformance tools` under another name."""

from __future__ import annotations

import sys

from extproc.corpus.command import main

if __name__ == "__main__":
    sys.exit(main())
