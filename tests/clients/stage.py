"""The gateway that clients are tried at, with actors as its models: one for each mode and each format."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import trustme

from tests.clients.actor import ASIDE, MODEL, WRITER_OF, Actor, Said, Step
from tests.clients.answers import recorded_answers
from tests.gateway import Gateway, configured_gateway, wait_until
from tests.tls_ends import trusting, write_certificate

NATIVE = ("native", "deepseek-v3.2")
"""Models whose vLLM finds the calls; the second has a name that Cline 2 knows and calls natively."""
_BOX = f"""
tool_servers:
  - name: box
    command: ["{sys.executable}", -m, tests.mcp_server]
    environment: {{PYTHONPATH: "{Path(__file__).parents[2]}"}}
    allowed_tools: [weather]
"""
_BOX_IS_UP = 'extproc_tool_server_up{server="box"} 1.0'


@dataclass(slots=True)
class Stage:
    """A gateway with its two vLLMs, and which of them plays."""

    gateway: Gateway
    plain: Actor
    parsing: Actor
    actor: Actor
    certificate: Path
    """The authority's, for clients of a gateway that speaks TLS."""
    recordings: Path
    """Has a file for each exchange since the performance began."""

    @property
    def url(self) -> str:
        """What a client is told as its base URL."""
        return f"{self.gateway.url}/v1"

    def perform(self, model: str, task: str, *steps: Step) -> None:
        """Let `model` take these steps when it is given `task`; everything from before is forgotten."""
        for actor in (self.plain, self.parsing):
            actor.perform("", format="hermes")
        for recording in self.recordings.glob("*.json"):
            recording.unlink()
        self.actor = self.parsing if model in NATIVE else self.plain
        self.actor.perform(task, *steps, format="hermes" if model in NATIVE else model.partition("-")[2])

    def check_answers(self) -> None:
        """What left the gateway is what the model said, no more and no less, with a right reason and a right end.

        That is so of whatever the gateway rewrites; the rest is the backend's own, byte for byte.
        """
        # They are written after the clients have their answers.
        wait_until(lambda: sum(1 for _ in self.recordings.glob("*.json")) >= len(self.actor.requests))
        answers = recorded_answers(self.recordings)
        for answer in answers:
            assert (answer.reason, answer.closed) == ("tool_calls" if answer.said.calls else "stop", True), answer
        said = self.actor.said
        if not answers and (self.actor is self.parsing or not any(turn.calls for turn in said)):
            return  # in native mode, and without tools, the backend's answers go past the processor as they are
        assert [answer.said for answer in answers if answer.said != Said(ASIDE)] == said


@contextmanager
def running_stage(folder: Path, *, tls: bool = False, served: bool = False) -> Iterator[Stage]:
    """Start everything in `folder`, and stop it at the end. `served`: models have the tools of an MCP server, `box`."""
    plain, parsing = Actor(), Actor(tool_parser=True)
    authority = trustme.CA()
    certificate = folder / "authority.pem"
    authority.cert_pem.write_to_path(certificate)
    write_certificate(folder, authority.issue_cert("127.0.0.1"))
    trust = trusting(authority) if tls else None
    with plain.running(), parsing.running():
        recordings = folder / "recordings"
        configuration = _configuration(plain, parsing, ", tool_servers: [box]" if served else "")
        if served:
            configuration += _BOX
        configuration += f"recording: {{directory: {recordings}, files: 10000}}\n"
        if tls:
            configuration += f"tls: {{certificate: {folder}/tls.crt, key: {folder}/tls.key}}\n"
        with configured_gateway(folder, configuration, plain, parsing, trust=trust) as gateway:
            if served:
                wait_until(lambda: _BOX_IS_UP in httpx.get(gateway.runner_metrics).text)
            yield Stage(gateway, plain, parsing, plain, certificate, recordings)


def _configuration(plain: Actor, parsing: Actor, more: str) -> str:
    """`more` is what all models have besides."""
    models = [
        f"  - {{name: {mode}-{name}, backend: plain, upstream_model: {MODEL}, tools: {mode}, format: {name}{more}}}"
        for mode in ("prompt", "template")
        for name in WRITER_OF
    ]
    models += [
        f"  - {{name: {name}, backend: parsing, upstream_model: {MODEL}, tools: native{more}}}" for name in NATIVE
    ]
    backends = [
        f'  - {{name: {name}, address: "127.0.0.1:{actor.port}", health_check: false}}'
        for name, actor in (("plain", plain), ("parsing", parsing))
    ]
    return "\n".join(["models:", *models, "backends:", *backends, ""])
