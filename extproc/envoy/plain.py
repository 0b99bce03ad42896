"""Envoy's messages as plain values, under the names that their fields have in Envoy's own documentation."""

from __future__ import annotations

from typing import Any, cast

from betterproto2 import Casing, Message


def plain(message: Message) -> dict[str, Any]:
    """What YAML is made of."""
    # betterproto2's own casings spell consecutive_5xx so that Envoy doesn't know it: take the names as they are.
    return message.to_dict(casing=cast(Casing, str))
