"""The gateway that clients are tried at, with actors as its models: one for each mode and each format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from tests.clients.actor import MODEL, WRITER_OF, Actor, Step
from tests.gateway import Gateway, configured_gateway
from tests.tls_ends import trusting, write_certificate

NATIVE = ("native", "deepseek-v3.2")
"""Models whose vLLM finds the calls; the second has a name that Cline 2 knows and calls natively."""


@dataclass(slots=True)
class Stage:
    """A gateway with its two vLLMs, and which of them plays."""

    gateway: Gateway
    plain: Actor
    parsing: Actor
    actor: Actor
    certificate: Path
    """The authority's, for clients of a gateway that speaks TLS."""

    @property
    def url(self) -> str:
        """What a client is told as its base URL."""
        return f"{self.gateway.url}/v1"

    def perform(self, model: str, task: str, *steps: Step) -> None:
        """Let `model` take these steps when it is given `task`; everything from before is forgotten."""
        for actor in (self.plain, self.parsing):
            actor.perform("", format="hermes")
        self.actor = self.parsing if model in NATIVE else self.plain
        self.actor.perform(task, *steps, format="hermes" if model in NATIVE else model.partition("-")[2])


@contextmanager
def running_stage(folder: Path, *, tls: bool = False) -> Iterator[Stage]:
    """Start everything in `folder`, and stop it at the end."""
    plain, parsing = Actor(), Actor(tool_parser=True)
    authority = trustme.CA()
    certificate = folder / "authority.pem"
    authority.cert_pem.write_to_path(certificate)
    write_certificate(folder, authority.issue_cert("127.0.0.1"))
    trust = trusting(authority) if tls else None
    with plain.running(), parsing.running():
        configuration = _configuration(plain, parsing)
        if tls:
            configuration += f"tls: {{certificate: {folder}/tls.crt, key: {folder}/tls.key}}\n"
        with configured_gateway(folder, configuration, plain, parsing, trust=trust) as gateway:
            yield Stage(gateway, plain, parsing, plain, certificate)


def _configuration(plain: Actor, parsing: Actor) -> str:
    models = [
        f"  - {{name: {mode}-{name}, backend: plain, upstream_model: {MODEL}, tools: {mode}, format: {name}}}"
        for mode in ("prompt", "template")
        for name in WRITER_OF
    ]
    models += [f"  - {{name: {name}, backend: parsing, upstream_model: {MODEL}, tools: native}}" for name in NATIVE]
    backends = [
        f'  - {{name: {name}, address: "127.0.0.1:{actor.port}", health_check: false}}'
        for name, actor in (("plain", plain), ("parsing", parsing))
    ]
    return "\n".join(["models:", *models, "backends:", *backends, ""])
