"""Models of which was measured how they call best, where that isn't how they would be asked without a word.

The measure is `extproc probe --measure`, whose numbers are in docs/quality.md; nothing stands here that has none there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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


_QUANTIZED = (
    r"(-(awq|gptq|gguf|bnb|nf4|[48]-?bit|int[48]|w[48]a(8|16)|fp8|fp16|bf16|f16|i?q[1-8](-[01k])?(-(xxs|xs|[sml]))?))*"
    r"(\.gguf)?"
)
"""What may be behind a name without being another model."""
RECOMMENDATIONS = (
    Recommendation(
        re.compile(rf"qwen-?2\.5-coder-(0\.5b|1\.5b)(-instruct)?{_QUANTIZED}"),
        "prompt",
        {"format": "xlam", "example": True, "retry": True},
    ),
)


def recommendation(upstream_name: str) -> Recommendation | None:
    """For a model that its backend serves by this name, which may be a path; None where nothing was measured.

    A name that says more than the family's is a finetune's, which may call in another way. Ollama has a colon before
    the size.
    """
    name = re.sub(r"[\s_:]+", "-", re.split(r"[/\\]", upstream_name.rstrip("/"))[-1].lower())
    return next((each for each in RECOMMENDATIONS if each.names.fullmatch(name)), None)
