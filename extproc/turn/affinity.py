"""What all requests of one conversation have in common, and those of others don't.

A replica has the prompt of the earlier turns in its cache, so that the next turn should go there too. Turns are only
ever added at the end: what comes before the first answer stays the same, and tells conversations of one agent apart
by what their users asked. A conversation whose head was rewritten, because it got too long, has lost its cache anyway.
"""

from __future__ import annotations

import hashlib
from itertools import takewhile
from typing import Any

from extproc.contract.json_body import encode


def conversation_hash(messages: list[dict[str, Any]]) -> str:
    """16 hexadecimal digits for everything before the model's first answer."""
    head = takewhile(lambda message: message["role"] not in ("assistant", "tool"), messages)
    digest = hashlib.blake2b(digest_size=8)
    for message in head:
        digest.update(encode(message))
        digest.update(b"\0")
    return digest.hexdigest()
