"""The error of this package, ready to be shown to a person."""

from __future__ import annotations


class GatewayError(Exception):
    """The gateway can't start, or can't go on; the text says why and what to do."""
