"""A gateway as it is every day, with some of everything: dashboards are asked about it, and drawn of it."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from extproc.exchange.api_keys import hash_line
from scripted_vllm import Cut, ErrorEvent, Fail, Reply, ScriptedVLLM, Stall
from scripted_vllm.checks import ChatRequest
from tests.alerts.prometheus import Target, watching
from tests.alerts.scene import GROUPS, metrics_listener
from tests.alerts.traffic import Clients, asking
from tests.collector import Collector
from tests.collector import Span as TracedSpan
from tests.dashboards import DASHBOARDS
from tests.dashboards.answers import Answers, Dot, Span, ask
from tests.gateway import MODEL, Gateway, configured_gateway, free_port, wait_until
from tests.test_runs import SAMPLE

KEYS = {"search/alice": "k-0123456789abcdef-search", "shop/bob": "k-0123456789abcdef-shop"}
LONG = 25
"""Seconds that it is looked at."""
SLOW = 0.4
"""Seconds that the thinker takes for its first token."""
WORDS = "Here is what I have found about it, in a few words. " * 2


def _called(*calls: str, **arguments: Any) -> str:
    return "\n".join(
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>" for name in calls
    )


_LATE = Stall(after=None, seconds=SLOW)
REPLIES = {
    "look it up": Reply(_called("look"), pace=0.01),
    "think, and look it up": Reply("<tool_call>\n<function=look>\n</function>\n</tool_call>", trouble=_LATE),
    "think for long": Reply(WORDS, pieces=8, trouble=Stall(after=None, seconds=3)),
    "think aloud": Reply("I would rather not."),
    "call what isn't there": Reply(_called("fly")),
    "write no JSON": Reply('<tool_call>\n{"name": "look", "arguments": {the door}}\n</tool_call>'),
    "look, perhaps": Reply(_called("look"), logprobs=[{"token": "t", "logprob": -0.5, "bytes": [116]}] * 60),
    "write loosely": Reply("<tool_call>\n{'name': 'look', 'arguments': {}}\n</tool_call>"),
    "write a lot": Reply(WORDS * 4, pieces=40, pace=0.1, finish_reason="length"),
    "be full": Reply(trouble=Fail(503)),
    "break off": Reply(WORDS, pieces=4, trouble=Cut(after=5)),
    "fail amid it": Reply(WORDS, pieces=4, trouble=ErrorEvent(after=5)),
    "tell the weather": Reply(_called("box__weather", city="Paris")),
    "add up": Reply(_called("box__add", a=1, b=2)),
    "try what fails": Reply(_called("box__fail")),
    "go on with the story": Reply(_called("log_story_event", event="the dragon returns")),
    "do both": Reply(_called("log_story_event", "look", event="the dragon returns")),
}
DEFAULT = Reply(WORDS, pieces=8, pace=0.01)


def speak(request: ChatRequest) -> Reply:
    """What the last message asks for, which the gateway may have added to; to the result of a tool, some words."""
    asked = str(request.messages[-1]["content"])
    return next((reply for text, reply in REPLIES.items() if asked.startswith(text)), DEFAULT)


@dataclass(frozen=True)
class Seen:
    """What came of it."""

    answers: Mapping[str, Answers]
    """To the queries of each dashboard, by its uid."""
    seconds: float
    """How long it was looked at."""
    spans: Sequence[TracedSpan]
    """Of its traces."""
    lines: Sequence[Mapping[str, Any]]
    """Of its access log."""


def play(folder: Path) -> Seen:
    """Clients ask for some time, a Prometheus looks, and is asked what dashboards ask."""
    everyday = _Everyday(folder)
    envoy = free_port()
    with (
        everyday.vllm.running(),
        everyday.collector.running(),
        configured_gateway(
            folder, everyday.settings(), everyday.vllm, live=True, arguments=metrics_listener(envoy, folder)
        ) as gateway,
        watching(folder, GROUPS, _targets(gateway, envoy)) as prometheus,
    ):
        box = 'extproc_tool_server_up{server="box"} 1.0'
        wait_until(lambda: box in httpx.get(gateway.runner_metrics).text)
        begin = time.time()
        with asking(None, *everyday.clients(gateway.url)):
            time.sleep(LONG)
            span = Span(begin, time.time())
            answers = {each.uid: ask(prometheus, each, span, "everyday") for each in DASHBOARDS}
        led = {dot.labels["trace_id"] for dot in dots(answers) if "trace_id" in dot.labels}
        wait_until(lambda: everyday.collector.has(led))  # spans leave some seconds after their end
        return Seen(answers, span.end - span.begin, everyday.collector.spans, gateway.whole_access_log())


def dots(answers: Mapping[str, Answers]) -> Iterator[Dot]:
    """All exemplars."""
    for of_one in answers.values():
        for found in of_one.values():
            for answer in found:
                yield from answer.dots


def _targets(gateway: Gateway, envoy: int) -> list[Target]:
    pages = [gateway.metrics, gateway.runner_metrics, f"http://127.0.0.1:{envoy}/metrics"]
    addresses = [page.removeprefix("http://").removesuffix("/metrics") for page in pages]
    return [Target(address, "everyday", "everyday-1") for address in addresses]


class _Everyday:
    """Its files, and who asks it."""

    def __init__(self, folder: Path) -> None:
        self.vllm = ScriptedVLLM(model=MODEL, speak=speak)
        self.collector = Collector()
        self._folder = folder

    def settings(self) -> str:
        """Its configuration; both servers have to be there."""
        characters = self._folder / "characters"
        characters.mkdir()
        (characters / "narrator.py").write_text(f'{SAMPLE.read_text()}\nMODEL = "coder"\n')
        (self._folder / "keys").write_text("\n".join(hash_line(name, key) for name, key in KEYS.items()) + "\n")
        address = f"127.0.0.1:{self.vllm.port}"
        return f"""
models:
  - {{name: coder, upstream_model: {MODEL}, backend: large, tools: prompt}}
  - {{name: thinker, upstream_model: {MODEL}, backend: small, tools: template, format: qwen3_coder, retry: true}}
  - {{name: guesser, upstream_model: {MODEL}, backend: small, tools: prompt, retry: true, min_confidence: 0.8}}
  - {{name: climber, upstream_model: {MODEL}, backend: small, tools: auto, steering: {{first: template, calls: 10}}}}
  - {{name: writer, upstream_model: {MODEL}, backend: small, tools: native}}
  - {{name: assistant, upstream_model: {MODEL}, backend: large, tools: prompt, tool_servers: [box]}}
  - {{name: painter, upstream_model: {MODEL}, backend: full, tools: native}}
  - {{name: singer, upstream_model: {MODEL}, backend: away, tools: native}}
backends:
  - {{name: large, address: "{address}", structured_outputs: true}}
  - {{name: small, address: "{address}"}}
  - {{name: full, address: "{address}", max_requests: 1}}
  - {{name: away, address: "127.0.0.1:1", health_check: false}}
aliases:
  choir: {{split: [{{model: singer}}], fallback: [writer]}}
characters: {characters}
tool_servers:
  - name: box
    command: ["{sys.executable}", -m, tests.mcp_server]
    environment: {{PYTHONPATH: "{Path(__file__).parents[2]}"}}
    allowed_tools: [weather, add, fail]
tracing: {{collector: "127.0.0.1:{self.collector.port}", sampling: 0}}
api_keys: {self._folder}/keys
teams: [{{name: search}}, {{name: shop}}]
"""

    def clients(self, url: str) -> list[Clients]:
        """Two teams' of them."""
        search, shop = (f"Bearer {key}" for key in KEYS.values())

        def ask(model: str, per_second: float, texts: Sequence[str], key: str = search, **more: Any) -> Clients:
            return Clients(url, model, per_second, texts, key=key, traced=4, **more)

        return [
            ask("coder", 3, _some("look it up", ["write a lot", "be full", "break off", "fail amid it"], of=20)),
            ask("coder", 1, _some("look it up", ["call what isn't there", "write no JSON"], of=20), key=shop),
            ask("coder", 0.4, ["look it up"], fields={"tool_choice": "required"}),
            ask("coder", 0.3, ["look it up"], fields={"prediction": {"type": "content", "content": "x"}}),
            ask("coder", 0.3, ["say it"], history=_BROKEN_HISTORY),
            ask("coder", 0.2, ["write a lot"], leave=True),
            ask("coder", 0.5, ["write loosely"]),
            ask("guesser", 1, _some("look it up", ["look, perhaps"], of=4)),
            ask("climber", 2, ["write no JSON"], key=shop),
            ask("nobody", 0.2, ["hello"]),
            ask(
                "thinker",
                1.5,
                _some("think, and look it up", ["call what isn't there", "think for long"], of=12),
                key=shop,
            ),
            ask("thinker", 0.1, ["think aloud"], key=shop, fields={"tool_choice": "required"}),
            ask("writer", 1, ["say it", "write a lot"], tools=False),
            ask("painter", 2, ["write a lot"], tools=False),
            ask("singer", 0.2, ["say it"], tools=False),
            ask("choir", 0.5, ["say it"], tools=False),
            ask("assistant", 0.6, _TOOLS_OF_THE_BOX, key=shop, tools=False),
            ask("character/narrator", 0.4, ["go on with the story"], tools=False),
            ask("character/narrator", 0.2, ["do both"]),
        ]


_TOOLS_OF_THE_BOX = ("tell the weather", "add up", "tell the weather", "try what fails")


def _some(usual: str, others: Sequence[str], *, of: int) -> list[str]:
    """So many texts, in which each of the others comes once, far from the next."""
    texts = [usual] * of
    for place, text in zip(itertools.count(of // len(others) - 1, of // len(others)), others, strict=False):
        texts[place] = text
    return texts


_BROKEN_HISTORY: Sequence[Mapping[str, Any]] = [
    {"role": "user", "content": "look"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "one", "type": "function", "function": {"name": "look", "arguments": "{'at': 1,}"}}],
    },
    {"role": "tool", "tool_call_id": "one", "content": "nothing"},
]
