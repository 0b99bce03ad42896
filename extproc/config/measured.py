"""Models of which was measured how they call best, where that isn't how they would be asked without a word.

The measure is `extproc probe --measure`, whose numbers are in docs/quality.md; nothing stands here that has none there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What `tools: auto` makes of a family, for who sets none of it."""

    names: re.Pattern[str]
    """Of the family's models."""
    first: Literal["prompt"]
    """The step at which it begins."""
    settings: Mapping[str, Any]
    """Of the model, at that step and all above."""


RECOMMENDATIONS = (
    Recommendation(re.compile(r"qwen-?2\.5-coder-(0\.5|1\.5)b"), "prompt", {"format": "xlam", "example": True}),
)


def recommendation(names: Iterable[str]) -> Recommendation | None:
    """For a model by these names, paths too; None where nothing was measured."""
    spelled = [re.sub(r"[\s_]+", "-", name.lower()) for name in names]
    return next((each for each in RECOMMENDATIONS if any(map(each.names.search, spelled))), None)
