"""The ways in which the same model is asked the same questions: as models of one gateway, and without it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from extproc.config import parse
from extproc.model_checks import cases
from extproc.model_checks.cases import Case
from extproc.prompts.wording import CALL_ONLY_IF_IT_HELPS
from extproc.surfaces import prepare
from extproc.turn.retry import Fault
from tests.real_vllm.model_checks import PARSER
from tests.real_vllm.server import MODEL


@dataclass(frozen=True, slots=True)
class Way:
    """`settings` are those of the gateway's model; None asks vLLM itself, without tools if `offers` is false."""

    name: str
    told: str
    """In the page's table."""
    settings: dict[str, Any] | None = field(default=None)
    flags: tuple[str, ...] = ()
    """Of vLLM."""
    offers: bool = True
    """Asked without its tools, a question can be answered in nothing but words: it is asked so if no call is due."""

    def questions(self, cases: Sequence[Case]) -> list[Case]:
        """Those of these that can be asked so, as they are asked."""
        return list(cases) if self.offers else [replace(case, tools=()) for case in cases if not case.call]

    @property
    def wording(self) -> str:
        """A digest of what the model is told, where the gateway tells it: answers to other words are none to these."""
        return self._wording(cases.load())

    @property
    def agents_wording(self) -> str:
        """The same where an agent asks: after its long system prompt the exchanges of `example` aren't shown."""
        return self._wording([replace(case, messages=(_AGENTS, *case.messages)) for case in cases.load()])

    def _wording(self, asked: Sequence[Case]) -> str:
        if self.settings is None or not (self.settings["tools"] == "prompt" or self.settings.get("retry")):
            return ""
        config = parse(json.dumps(configuration((self,), 1, 1)))
        told = hashlib.sha256()
        for case in asked:
            prepared = prepare(json.dumps(case.request(self.name, stream=False, max_tokens=1)).encode(), config)
            told.update(prepared.body or b"")
            if prepared.again is not None:
                told.update(prepared.again.body(Fault("")))
                if (least := self.settings.get("min_confidence")) is not None:
                    told.update(prepared.again.body(Fault(str(least), CALL_ONLY_IF_IT_HELPS)))
        return told.hexdigest()[:12]


_AGENTS = {"role": "system", "content": "You are a careful agent. " * 200}

WAYS = (
    Way(
        "recommended",
        "gateway, `tools: prompt`, `format: xlam`, `example: true`, `retry: true`",
        {"tools": "prompt", "format": "xlam", "example": True, "retry": True},
    ),
    Way(
        "begun",
        "gateway, `tools: prompt`, `format: xlam`, `example: true`, `forced: begun`",
        {"tools": "prompt", "format": "xlam", "example": True, "forced": "begun"},
    ),
    Way(
        "retry",
        "gateway, `tools: prompt`, `format: xlam`, `example: true`, `forced: begun`, `retry: true`",
        {"tools": "prompt", "format": "xlam", "example": True, "forced": "begun", "retry": True},
    ),
    Way(
        "confident",
        "gateway, `tools: prompt`, `format: xlam`, `example: true`, `forced: begun`, `retry: true`, "
        "`min_confidence: 0.92`",
        {
            "tools": "prompt",
            "format": "xlam",
            "example": True,
            "forced": "begun",
            "retry": True,
            "min_confidence": 0.92,
        },
    ),
    Way("xlam", "gateway, `tools: prompt`, `format: xlam`", {"tools": "prompt", "format": "xlam"}),
    Way(
        "xlam-retry",
        "gateway, `tools: prompt`, `format: xlam`, `retry: true`",
        {"tools": "prompt", "format": "xlam", "retry": True},
    ),
    Way(
        "hermes-example",
        "gateway, `tools: prompt`, `format: hermes`, `example: true`",
        {"tools": "prompt", "format": "hermes", "example": True},
    ),
    Way("hermes", "gateway, `tools: prompt`, `format: hermes`", {"tools": "prompt", "format": "hermes"}),
    Way(
        "hermes-retry",
        "gateway, `tools: prompt`, `format: hermes`, `retry: true`",
        {"tools": "prompt", "format": "hermes", "retry": True},
    ),
    Way("template", "gateway, `tools: template`, `format: hermes`", {"tools": "template", "format": "hermes"}),
    Way(
        "template-confident",
        "gateway, `tools: template`, `format: hermes`, `retry: true`, `min_confidence: 0.95`",
        {"tools": "template", "format": "hermes", "retry": True, "min_confidence": 0.95},
    ),
    Way(
        "native",
        "gateway, `tools: native`, `repair: true`, `format: hermes`",
        {"tools": "native", "repair": True, "format": "hermes"},
        PARSER,
    ),
    Way("alone", "vLLM alone, `--tool-call-parser hermes`", None, PARSER),
    Way("alone-xlam", "vLLM alone, `--tool-call-parser xlam`", None, (*PARSER[:-1], "xlam")),
    Way("no-tools", "vLLM alone, asked without the tools", offers=False),
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
