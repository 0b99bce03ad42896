"""What is measured: tables only. A new way to serve is one more row of WAYS."""

from __future__ import annotations

from dataclasses import dataclass

FIRST, TENTH = "first", "tenth"
"""Of a conversation's requests: one of which nothing was seen before, and one that goes on from nine others."""
_TOOLS = ("41k", "229k")
_ALL = ("17k", *_TOOLS)


@dataclass(frozen=True, slots=True)
class Way:
    """One way for a request to go."""

    name: str
    title: str
    gateway: str
    """What has to run for it: a name of `ways.STARTS`."""
    model: str = "native"
    """For gateways that choose by it: whose answers have `tool_calls` (`native`), or calls in the text."""
    settings: str = ""
    """More lines of our gateway's configuration."""
    shapes: tuple[str, ...] = _ALL
    """Of its whole answers' requests."""
    streams: tuple[int, ...] = (1, 16, 64)
    """How many at once."""
    stream_shape: str = "41k"
    memory: bool = True
    """Whether its streams' memory is read: a gateway that serves several ways is fresh but once."""
    calls: bool = False
    """Its answers have to have `tool_calls`, made of text."""
    ours: bool = False


WAYS = (
    Way("direct", "no gateway", "direct"),
    Way("envoy", "Envoy alone", "envoy"),
    Way("echo", "Envoy + grpc.aio that does nothing", "echo", streams=(1, 16, 64, 128)),
    Way("plain", "ours, no tools", "ours", shapes=("17k",), stream_shape="17k", memory=False, ours=True),
    Way("native", "ours, native", "ours", "native", shapes=_TOOLS, memory=False, ours=True),
    Way("template", "ours, template", "ours", "template", shapes=_TOOLS, memory=False, calls=True, ours=True),
    Way(
        "prompt",
        "ours, prompt",
        "ours",
        "prompt",
        shapes=_TOOLS,
        streams=(1, 16, 64, 128),
        calls=True,
        ours=True,
    ),
    Way(
        "workers-2",
        "ours, prompt, 2 workers",
        "ours",
        "prompt",
        "workers: 2\n",
        ("41k",),
        (64, 128),
        calls=True,
        ours=True,
    ),
    Way(
        "grpcio",
        "ours, prompt, grpcio",
        "ours",
        "prompt",
        "transport: grpcio\n",
        ("41k",),
        (64,),
        calls=True,
        ours=True,
    ),
    Way("fastapi", "FastAPI + httpx that does nothing", "fastapi"),
    Way("litellm", "LiteLLM proxy", "litellm"),
    Way("agentic-api", "agentic-api, passing on", "agentic-api"),
)


@dataclass(frozen=True, slots=True)
class Whole:
    """A load of whole answers."""

    shape: str
    request: str
    """FIRST or TENTH."""
    connections: int
    seconds: int
    """wrk takes whole ones."""

    @property
    def key(self) -> str:
        return f"{self.shape} {self.request} {self.connections}"


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    """Each with all ways, by turns."""
    wholes: tuple[Whole, ...]
    streams: tuple[int, ...]
    stream_seconds: float
    """How long streams are measured, once all have begun: whole turns of text and call, of two seconds each."""
    bodies: tuple[tuple[int, int], ...]
    """Tools and turns of the requests that are prepared in this process."""
    runs: int
    """How often each of those is."""


FULL = Plan(
    rounds=5,
    wholes=(
        Whole("17k", FIRST, 1, 1),
        Whole("17k", FIRST, 16, 2),
        Whole("17k", FIRST, 64, 2),
        Whole("41k", FIRST, 1, 1),
        Whole("41k", FIRST, 16, 1),
        Whole("41k", TENTH, 1, 1),
        Whole("41k", TENTH, 16, 2),
        Whole("41k", TENTH, 64, 2),
        Whole("229k", FIRST, 1, 1),
        Whole("229k", TENTH, 1, 1),
        Whole("229k", TENTH, 16, 1),
    ),
    streams=(1, 16, 64, 128),
    stream_seconds=2.0,
    bodies=((0, 10), (25, 10), (50, 10), (50, 20), (50, 40), (50, 80), (100, 10)),
    runs=15,
)
QUICK = Plan(
    rounds=1,
    wholes=(
        Whole("17k", FIRST, 1, 1),
        Whole("17k", FIRST, 16, 1),
        Whole("41k", FIRST, 1, 1),
        Whole("41k", TENTH, 1, 1),
        Whole("41k", TENTH, 16, 1),
    ),
    streams=(16, 64, 128),
    stream_seconds=2.0,
    bodies=((0, 10), (50, 10), (50, 40)),
    runs=3,
)
MEMORY_STREAMS = 40
"""At once, when their memory is read."""
