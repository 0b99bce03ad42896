"""An exchange's request as a command, for who wants to send it once more. No key is in it."""

from __future__ import annotations

import shlex

from extproc.recording.document import Document, Kind
from extproc.recording.envoy_json import bytes_from_json
from extproc.recording.private import REMOVED

_SENT_ALONG = ("anthropic-version", "anthropic-beta", "accept")
_KEYS = {"authorization": "authorization: Bearer $API_KEY", "x-api-key": "x-api-key: $API_KEY"}


def curl(document: Document, gateway: str) -> str:
    """The command; `gateway` is a URL without a path. A client's key is `$API_KEY` in it, for the shell."""
    path, headers, body = "/", [], b""
    for entry in document.entries:
        if entry.kind is not Kind.ENVOY:
            continue
        if "request_headers" in entry.what:
            for name, value in entry.what["request_headers"].get("headers", ()):
                if name == ":path":
                    path = str(value).partition("?")[0]
                elif name in _KEYS:
                    headers.append(f'-H "{_KEYS[name]}"')
                elif name in _SENT_ALONG and str(value).encode() != REMOVED:
                    headers.append(f"-H {shlex.quote(f'{name}: {value}')}")
        elif "request_body" in entry.what:
            body = bytes_from_json(entry.what["request_body"].get("body", ""))
    words = [
        f"curl -sSN {shlex.quote(gateway + path)}",
        "-H 'content-type: application/json'",
        *headers,
        f"--data-raw {shlex.quote(body.decode('utf-8', 'replace'))}",
    ]
    return " \\\n  ".join(words)
