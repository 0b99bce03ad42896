"""What all requests of one conversation have in common, and those of others don't.

A replica has the prompt of the earlier turns in its cache, so that the next turn should go there too. Turns are only
ever added at the end: what comes before the first answer stays the same, and tells conversations of one agent apart
by what their users asked. A conversation whose head was rewritten, because it got too long, has lost its cache anyway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from extproc.contract.json_body import encode


class ConversationHash:
    """A hash of everything before the model's first answer, message by message."""

    __slots__ = ("_digest", "_is_whole")

    def __init__(self) -> None:
        self._digest = bytes(8)
        self._is_whole = False

    def add(self, message: dict[str, Any]) -> None:
        """The conversation goes on with this message."""
        self._is_whole = self._is_whole or message["role"] in ("assistant", "tool")
        if not self._is_whole:
            self._digest = hashlib.blake2b(self._digest + encode(message), digest_size=8).digest()

    def __str__(self) -> str:
        """16 hexadecimal digits."""
        return self._digest.hex()


def conversation_hash(messages: Iterable[dict[str, Any]]) -> str:
    """The hash of a whole conversation."""
    conversation = ConversationHash()
    for message in messages:
        conversation.add(message)
    return str(conversation)
