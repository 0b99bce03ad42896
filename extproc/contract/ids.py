"""Identifiers in OpenAI's form."""

from __future__ import annotations

import random
import string

_ALPHANUMERIC = string.ascii_letters + string.digits
_random = random.SystemRandom()


def new_tool_call_id() -> str:
    """`call_` and 24 random alphanumerics: 143 bits, so two never meet."""
    return "call_" + "".join(_random.choices(_ALPHANUMERIC, k=24))
