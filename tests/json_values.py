"""Equality of JSON values, which Python's own is not."""

from __future__ import annotations

import math


def same(one: object, other: object) -> bool:
    """`true` is not 1, but 1 is 1.0; and all that are no number are alike."""
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case float(), float() if math.isnan(one) and math.isnan(other):
            return True
        case dict(), dict():
            return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
        case list(), list():
            return len(one) == len(other) and all(map(same, one, other))
    return one == other
