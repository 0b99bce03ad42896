"""`python -m extproc.model_checks`: `extproc conformance model` under another name."""

from __future__ import annotations

import sys

from extproc.model_checks.command import main

if __name__ == "__main__":
    sys.exit(main())
