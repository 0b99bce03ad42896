"""TLS at the listener: versions and protocols, certificates that change under way, and clients' certificates."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import trustme

from extproc.names import CHAT_PATH
from scripted_vllm import Reply, ScriptedVLLM, Stall
from tests.gateway import MODEL, Gateway, configured_gateway, put, wait_until
from tests.tls_ends import swap_as_kubernetes_does, trusting, write_certificate

NAME = "127.0.0.1"


@contextmanager
def tls_gateway(
    folder: Path, authority: trustme.CA, *, client_ca: Path | None = None, client: trustme.LeafCert | None = None
) -> Iterator[Gateway]:
    """With its certificate in `folder`/certificate, which is there already."""
    vllm = ScriptedVLLM(model=MODEL)
    with vllm.running():
        configuration = f"""
tls:
  certificate: {folder}/certificate/tls.crt
  key: {folder}/certificate/tls.key
  client_ca: {client_ca or "null"}
models: [{{name: coder, backend: vllm, upstream_model: {MODEL}, tools: prompt}}]
backends: [{{name: vllm, address: "127.0.0.1:{vllm.port}", health_check: false}}]
"""
        trust = trusting(authority, client)
        with configured_gateway(folder, configuration, vllm, live=True, trust=trust) as gateway:
            yield gateway


class Listener:
    """A gateway, its folder, and the authority that vouches for it."""

    def __init__(self, gateway: Gateway, folder: Path, authority: trustme.CA) -> None:
        self.gateway = gateway
        self.folder = folder
        self.authority = authority

    def connect(self, context: ssl.SSLContext) -> ssl.SSLSocket:
        url = urlsplit(self.gateway.url)
        assert url.port is not None
        return context.wrap_socket(socket.create_connection((NAME, url.port), timeout=10), server_hostname=NAME)

    def certificate(self) -> bytes:
        """What a new client is shown."""
        with closing(self.connect(trusting(self.authority))) as connection:
            return connection.getpeercert(binary_form=True) or b""

    def client(self, *, http2: bool) -> httpx.Client:
        return httpx.Client(
            base_url=self.gateway.url, verify=trusting(self.authority), http1=not http2, http2=http2, timeout=30
        )


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    folder, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    (folder / "certificate").mkdir()
    write_certificate(folder / "certificate", authority.issue_cert(NAME))
    with tls_gateway(folder, authority) as gateway:
        yield Listener(gateway, folder, authority)


HELLO = {"model": "coder", "messages": [{"role": "user", "content": "Hello!"}]}


# ---- what is spoken


@pytest.mark.parametrize(("http2", "version"), [(False, "HTTP/1.1"), (True, "HTTP/2")])
def test_both_versions_of_http_are_served(listener: Listener, http2: bool, version: str) -> None:
    with listener.client(http2=http2) as client:
        response = client.post(CHAT_PATH, json=HELLO)
        assert response.http_version == version
        assert response.json()["object"] == "chat.completion"
        with client.stream("POST", CHAT_PATH, json={**HELLO, "stream": True}) as stream:
            assert stream.read().endswith(b"data: [DONE]\n\n")


def test_openais_client_works(listener: Listener) -> None:
    assert [model.id for model in listener.gateway.openai.models.list()] == ["coder"]


@pytest.mark.parametrize(
    ("version", "welcome"),
    [(ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_tls_is_1_2_or_newer(listener: Listener, version: ssl.TLSVersion, welcome: bool) -> None:
    context = trusting(listener.authority)
    context.set_ciphers("ALL:@SECLEVEL=0")  # OpenSSL itself would refuse the old ones
    context.minimum_version = context.maximum_version = version
    if welcome:
        listener.connect(context).close()
    else:
        with pytest.raises(ssl.SSLError):
            listener.connect(context)


def test_plain_http_gets_no_answer(listener: Listener) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(listener.gateway.url.replace("https:", "http:"))


# ---- certificates that change


def replaced(listener: Listener) -> None:
    write_certificate(listener.folder / "certificate", listener.authority.issue_cert(NAME))


def wait_for_another(listener: Listener, old: bytes) -> None:
    wait_until(lambda: listener.certificate() != old)


@contextmanager
def stream_under_way(client: httpx.Client) -> Iterator[Iterator[str]]:
    with client.stream("POST", CHAT_PATH, json={**HELLO, "stream": True}) as response:
        assert response.status_code == 200
        lines = response.iter_lines()
        assert next(lines).startswith("data: ")
        yield lines


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_a_new_certificate_is_shown_and_no_answer_breaks(listener: Listener, http2: bool) -> None:
    text = "word " * 40
    listener.gateway.backend.play(Reply(text, pieces=5, trouble=Stall(after=3, seconds=0.5)))
    with listener.client(http2=http2) as client, stream_under_way(client) as lines:
        old = listener.certificate()
        replaced(listener)
        wait_for_another(listener, old)
        rest = "\n".join(lines)
        assert rest.count('"word "') == 40
        assert rest.rstrip().endswith("data: [DONE]")
        assert client.post(CHAT_PATH, json=HELLO).status_code == 200, "on the connection as it is"


def test_a_broken_one_is_refused_and_the_old_one_stays(listener: Listener) -> None:
    old = listener.certificate()
    certificate = listener.folder / "certificate"
    refused = listener.gateway.stat("sds.certificate.key_rotation_failed")
    put(certificate / "tls.crt", "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    wait_until(lambda: listener.gateway.stat("sds.certificate.key_rotation_failed") > refused)
    assert listener.certificate() == old
    replaced(listener)
    wait_for_another(listener, old)


def test_kubernetes_swaps_both_files_at_once(tmp_path: Path) -> None:
    authority = trustme.CA()

    def contents() -> dict[str, bytes]:
        issued = authority.issue_cert(NAME)
        chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
        return {"tls.crt": chain, "tls.key": issued.private_key_pem.bytes()}

    (tmp_path / "certificate").mkdir()
    swap_as_kubernetes_does(tmp_path / "certificate", contents())
    with tls_gateway(tmp_path, authority) as gateway:
        listener = Listener(gateway, tmp_path, authority)
        for _ in range(2):
            old = listener.certificate()
            swap_as_kubernetes_does(tmp_path / "certificate", contents())
            wait_for_another(listener, old)
        assert gateway.http.get("/v1/models").status_code == 200


# ---- clients' certificates


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Listener, trustme.CA]]:
    """A listener that asks clients for a certificate, and the authority that it wants to see behind them."""
    folder, authority, clients = tmp_path_factory.mktemp("mutual"), trustme.CA(), trustme.CA()
    (folder / "certificate").mkdir()
    write_certificate(folder / "certificate", authority.issue_cert(NAME))
    clients.cert_pem.write_to_path(folder / "clients.pem")
    with tls_gateway(
        folder, authority, client_ca=folder / "clients.pem", client=clients.issue_cert("friend@models.example")
    ) as gateway:
        yield Listener(gateway, folder, authority), clients


def test_a_client_with_a_certificate_is_served(mutual: tuple[Listener, trustme.CA]) -> None:
    listener, _ = mutual
    assert listener.gateway.chat("coder").status_code == 200


@pytest.mark.parametrize(
    "identity",
    [lambda: None, lambda: trustme.CA().issue_cert("friend@models.example")],
    ids=["without one", "with one of nobody we know"],
)
def test_any_other_client_is_not(
    mutual: tuple[Listener, trustme.CA], identity: Callable[[], trustme.LeafCert | None]
) -> None:
    listener, _ = mutual
    before = listener.gateway.stat("http.openai.downstream_rq_total")
    # With TLS 1.3 a client learns of it when it reads.
    with (
        httpx.Client(base_url=listener.gateway.url, verify=trusting(listener.authority, identity())) as stranger,
        pytest.raises((httpx.ReadError, httpx.RemoteProtocolError, httpx.ConnectError)),
    ):
        stranger.post(CHAT_PATH, json=HELLO)
    assert listener.gateway.stat("http.openai.downstream_rq_total") == before


def test_the_authority_behind_clients_may_change(mutual: tuple[Listener, trustme.CA]) -> None:
    listener, _ = mutual
    newcomers = trustme.CA()
    context = trusting(listener.authority, newcomers.issue_cert("friend@models.example"))

    def welcome() -> bool:
        with httpx.Client(base_url=listener.gateway.url, verify=context) as newcomer, ExitStack() as refused:
            refused.push(lambda kind, _error, _trace: kind is not None and issubclass(kind, httpx.TransportError))
            return newcomer.post(CHAT_PATH, json=HELLO).status_code == 200
        return False

    assert not welcome()
    newcomers.cert_pem.write_to_path(listener.folder / "new.pem")
    (listener.folder / "new.pem").replace(listener.folder / "clients.pem")
    wait_until(welcome)
