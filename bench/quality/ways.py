"""The ways in which the same model is asked the same questions: as models of one gateway, and without it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extproc.prompts import prompt, signatures, template, wording
from tests.real_vllm.server import MODEL

PARSER = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
"""What the makers of the family tell to start vLLM with."""


@dataclass(frozen=True, slots=True)
class Way:
    """`settings` are those of the gateway's model; None asks vLLM itself."""

    name: str
    told: str
    """In the page's table."""
    settings: dict[str, Any] | None = field(default=None)
    flags: tuple[str, ...] = ()
    """Of vLLM."""

    @property
    def wording(self) -> str:
        """A digest of what prompt mode says, where that is said: answers to other words are no answers to these."""
        if self.settings is None or self.settings["tools"] != "prompt":
            return ""
        files = (prompt.__file__, signatures.__file__, template.__file__, wording.__file__)
        return hashlib.sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()[:12]


WAYS = (
    Way(
        "recommended",
        "gateway, `tools: prompt`, `format: xlam`, `example: true`",
        {"tools": "prompt", "format": "xlam", "example": True},
    ),
    Way("xlam", "gateway, `tools: prompt`, `format: xlam`", {"tools": "prompt", "format": "xlam"}),
    Way(
        "hermes-example",
        "gateway, `tools: prompt`, `format: hermes`, `example: true`",
        {"tools": "prompt", "format": "hermes", "example": True},
    ),
    Way("hermes", "gateway, `tools: prompt`, `format: hermes`", {"tools": "prompt", "format": "hermes"}),
    Way("template", "gateway, `tools: template`, `format: hermes`", {"tools": "template", "format": "hermes"}),
    Way(
        "native",
        "gateway, `tools: native`, `repair: true`, `format: hermes`",
        {"tools": "native", "repair": True, "format": "hermes"},
        PARSER,
    ),
    Way("alone", "vLLM alone, `--tool-call-parser hermes`", None, PARSER),
)


def configuration(ways: tuple[Way, ...], port: int, backend: int) -> dict[str, Any]:
    """The gateway's settings, with a model for each of the ways that go through it."""
    models = [
        {"name": way.name, "backend": "vllm", "upstream_model": MODEL, **way.settings}
        for way in ways
        if way.settings is not None
    ]
    return {
        "listen": f"127.0.0.1:{port}",
        "models": models,
        "backends": [{"name": "vllm", "address": f"127.0.0.1:{backend}"}],
    }
