"""The web pages that may use the gateway from within a browser, by their origins."""

from __future__ import annotations

import re

ANY_ORIGIN = "*"
"""Every page there is."""

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?")


def check_origin(origin: str) -> str:
    """The same. Raises ValueError for what no browser sends as one."""
    # Compared letter by letter with what browsers send, which is in lower case and has no path.
    if origin != ANY_ORIGIN and not _ORIGIN.fullmatch(origin):
        raise ValueError(
            "expected an origin as browsers send it, such as https://chat.example.org or http://localhost:3000, "
            f"without a slash at its end, or {ANY_ORIGIN!r} for any, got {origin!r}"
        )
    return origin
