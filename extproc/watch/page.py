"""The page's files, and a file that is the page with one exchange in it: for a bug report, to be opened anywhere."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

STYLE = "watch.css"
SCRIPTS = ("dom.js", "spans.js", "lanes.js", "detail.js", "list.js", "main.js")
"""In this order, each with what the next ones need."""
_OF_REPORT = ("dom.js", "spans.js", "lanes.js", "detail.js", "report.js")
TYPES = {"css": "text/css", "js": "text/javascript", "html": "text/html"}
FILES = ("index.html", STYLE, *SCRIPTS)
"""What is served; `report.js` is in reports alone."""


@cache
def content(name: str) -> bytes:
    """One of FILES."""
    return files("extproc.watch").joinpath("page", name).read_bytes()


def report(exchange: dict[str, Any], title: str) -> bytes:
    """A whole document: styles, scripts and the exchange are in it, and it may load and send nothing."""
    script = b"\n".join(content(name) for name in _OF_REPORT)
    style = content(STYLE)
    policy = (
        f"default-src 'none'; script-src 'sha256-{_digest(script)}'; style-src 'sha256-{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    # In a script nothing is escaped, and no browser may take what was said for the script's end.
    data = orjson.dumps(exchange).replace(b"<", b"\\u003c").replace(b"\xe2\x80\xa8", b"\\u2028")
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escaped(title)}</title>\n<style>"
    )
    return b"".join(
        (
            head.encode(),
            style,
            b'</style>\n</head>\n<body class="report">\n<main id="detail" class="detail"></main>\n',
            b'<script type="application/json" id="exchange">',
            data,
            b"</script>\n<script>",
            script,
            b"</script>\n</body>\n</html>\n",
        )
    )


def _digest(text: bytes) -> str:
    return base64.b64encode(hashlib.sha256(text).digest()).decode()


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
