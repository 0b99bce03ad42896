"""HTTP/1.1 as bytes: heads of any kind, and the status of what comes back."""

from __future__ import annotations

CHAT = "/v1/chat/completions"


def head(
    path: str = CHAT,
    *,
    method: str = "POST",
    length: int | None = None,
    key: str | None = None,
    **fields: str,
) -> bytes:
    """A whole head; of `fields`, underscores become dashes."""
    lines = [f"{method} {path} HTTP/1.1", "host: gateway"]
    if length is not None:
        lines += ["content-type: application/json", f"content-length: {length}"]
    if key is not None:
        lines.append(f"authorization: Bearer {key}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def status(received: bytes) -> str:
    """The status of an answer that begins so; `closed` if none does."""
    words = received[:32].split(b" ", 2)
    return words[1].decode(errors="replace") if len(words) > 1 and words[0].startswith(b"HTTP/") else "closed"
