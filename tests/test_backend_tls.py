"""TLS from the gateway to its backends, and the keys that backends ask for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import trustme

from extproc.envoy.secrets import SYSTEM_CA
from extproc.names import CHAT_PATH
from scripted_vllm import Received, ScriptedVLLM
from tests.gateway import MODEL, Gateway, configured_gateway, put, wait_until
from tests.tls_ends import TlsEnd, tls_in_front_of


class Secured(NamedTuple):
    """A gateway, the one vLLM behind all its backends, where TLS ends for each of them, and its files."""

    gateway: Gateway
    vllm: ScriptedVLLM
    ends: dict[str, TlsEnd]
    folder: Path

    def chat(self, model: str, **headers: str) -> httpx.Response:
        return self.gateway.chat(model, **headers)

    @property
    def request(self) -> Received:
        """The only one that came through."""
        [request] = [request for request in self.vllm.requests if request.route not in ("/health", "/v1/models")]
        return request


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority, stranger = trustme.CA(), trustme.CA()
    (folder / "ca.pem").write_bytes(authority.cert_pem.bytes())
    (folder / "key").write_text("sk-backend-1\n")
    vllm = ScriptedVLLM(model=MODEL)
    certificates = {
        "named": authority.issue_cert("localhost"),
        "numbered": authority.issue_cert("127.0.0.1"),
        "renamed": authority.issue_cert("*.models.example"),
        "mistaken": authority.issue_cert("elsewhere.example"),
        "stranger": stranger.issue_cert("localhost"),
    }
    with ExitStack() as stack:
        stack.enter_context(vllm.running())
        ends = {name: stack.enter_context(tls_in_front_of(vllm, each)) for name, each in certificates.items()}
        port, ca = {name: end.port for name, end in ends.items()}, folder / "ca.pem"
        backends = f"""
backends:
  - {{name: named, address: "localhost:{port["named"]}", tls: {{ca: {ca}}}, api_key: {folder}/key}}
  - {{name: numbered, address: "127.0.0.1:{port["numbered"]}", tls: {{ca: {ca}}}}}
  - {{name: renamed, address: "127.0.0.1:{port["renamed"]}", tls: {{ca: {ca}, sni: qwen.models.example}}}}
  - {{name: mistaken, address: "localhost:{port["mistaken"]}", tls: {{ca: {ca}}}, health_check: false}}
  - {{name: stranger, address: "localhost:{port["stranger"]}", tls: {{ca: {ca}}}, health_check: false}}
  - {{name: public, address: "localhost:{port["named"]}", tls: {{}}, health_check: false}}
  - {{name: plain, address: "127.0.0.1:{vllm.port}", tls: {{ca: {ca}}}, health_check: false}}
  - {{name: keyless, address: "127.0.0.1:{vllm.port}", api_key: {folder}/key-to-come}}
"""
        names = [line.split(",")[0].removeprefix("  - {name: ") for line in backends.splitlines()[2:]]
        models = [f"  - {{name: {name}, backend: {name}, upstream_model: {MODEL}, tools: prompt}}" for name in names]
        configuration = "\n".join(["models:", *models, backends])
        gateway = stack.enter_context(configured_gateway(folder, configuration, vllm, live=True))
        yield Secured(gateway, vllm, ends, folder)


@pytest.fixture
def secured(everything: Secured) -> Secured:
    everything.vllm.forget()
    return everything


# ---- certificates


@pytest.mark.parametrize(
    ("backend", "name"), [("named", "localhost"), ("numbered", None), ("renamed", "qwen.models.example")]
)
def test_a_certificate_with_the_backends_name_is_accepted(secured: Secured, backend: str, name: str | None) -> None:
    assert secured.chat(backend).status_code == 200
    assert set(secured.ends[backend].names) == {name}


def test_the_backends_name_is_the_host_that_is_asked_for(secured: Secured) -> None:
    assert secured.chat("renamed").status_code == 200
    assert secured.request.header("host") == "qwen.models.example"


@pytest.mark.parametrize(
    ("backend", "why"),
    [
        ("mistaken", "elsewhere.example"),  # another's name
        ("stranger", "certificate_verification_error"),  # vouched for by nobody that we trust
        pytest.param(
            *("public", "certificate_verification_error"),  # or that everybody trusts
            marks=pytest.mark.skipif(not SYSTEM_CA.exists(), reason="the system keeps its certificates elsewhere"),
        ),
        ("plain", "WRONG_VERSION_NUMBER"),  # no TLS
    ],
)
def test_what_cant_prove_who_it_is_gets_no_request(secured: Secured, backend: str, why: str) -> None:
    response = secured.chat(backend)
    assert response.status_code == 503
    error = response.json()["error"]
    assert error["code"] == "backend_unreachable"
    assert f"'{backend}'" in error["message"]
    assert "by TLS" in error["message"]
    assert why not in error["message"]
    assert why in secured.gateway.access_log(response.headers["x-request-id"])["upstream_failure"]
    assert [request for request in secured.vllm.requests if request.route == CHAT_PATH] == []


def test_health_is_asked_for_by_tls_too(secured: Secured) -> None:
    assert secured.gateway.stat("cluster.renamed.membership_healthy") == 1


# ---- keys


def test_a_backend_gets_its_own_key_and_not_the_clients(secured: Secured) -> None:
    assert secured.chat("named", authorization="Bearer sk-client").status_code == 200
    assert [value for name, value in secured.request.headers if name == "authorization"] == ["Bearer sk-backend-1"]


def test_every_route_to_it_has_the_key(secured: Secured) -> None:
    assert secured.gateway.http.post("/v1/completions", json={"model": "named", "prompt": "x"}).status_code == 200
    assert secured.request.header("authorization") == "Bearer sk-backend-1"


def test_the_others_dont_get_it(secured: Secured) -> None:
    assert secured.chat("numbered", authorization="Bearer sk-client").status_code == 200
    assert secured.request.header("authorization") is None


def test_a_key_that_changes_is_used_from_then_on(secured: Secured) -> None:
    def key() -> str | None:
        secured.vllm.forget()
        assert secured.chat("named").status_code == 200
        return secured.request.header("authorization")

    put(secured.folder / "key", b"sk-backend-2\n")
    wait_until(lambda: key() == "Bearer sk-backend-2")
    put(secured.folder / "key", b"sk-backend-1\n")
    wait_until(lambda: key() == "Bearer sk-backend-1")


def test_without_its_key_a_backend_gets_nothing_until_the_key_is_there(secured: Secured) -> None:
    response = secured.chat("keyless", authorization="Bearer sk-client")
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "backend_key_missing"
    assert "'keyless'" in response.json()["error"]["message"]
    assert [request for request in secured.vllm.requests if request.route == CHAT_PATH] == []
    put(secured.folder / "key-to-come", b"sk-late")
    wait_until(lambda: secured.chat("keyless").status_code == 200)
    assert secured.request.header("authorization") == "Bearer sk-late"
