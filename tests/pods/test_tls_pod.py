"""The pod of the `tls` overlay: the main job over TLS, which waits until certificate and key belong together."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import httpx
import openai
import pytest
import trustme

from scripted_vllm import ScriptedVLLM
from tests.gateway import wait_until
from tests.k8s.rendered import K8S
from tests.pods.clients import MODEL
from tests.pods.pod import Cluster, Pod, cluster
from tests.pods.test_pods import READ_FILE, UPSTREAM_MODEL

pytestmark = pytest.mark.long

CA = trustme.CA()


@pytest.fixture(scope="module")
def pods() -> Iterator[Cluster]:
    with ScriptedVLLM(model=UPSTREAM_MODEL).running() as backend, cluster(backend, K8S / "overlays/tls") as made:
        yield made


def pair(certificate: trustme.LeafCert, key: trustme.LeafCert | None = None) -> dict[str, str]:
    """As cert-manager writes it into its Secret; with the key of another certificate, if one is given."""
    pems = {"tls.crt": certificate.cert_chain_pems[0], "tls.key": (key or certificate).private_key_pem}
    return {name: pem.bytes().decode() for name, pem in pems.items()}


def called(pod: Pod) -> str:
    """The arguments of the call that comes of a request for one."""
    trust = ssl.create_default_context()
    CA.configure_trust(trust)
    with (
        openai.DefaultHttpxClient(verify=trust) as http,
        openai.OpenAI(base_url=f"https://127.0.0.1:{pod.port}/v1", api_key="-", max_retries=0, http_client=http) as ai,
    ):
        chunks = ai.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "Read the file main.py"}],
            tools=[READ_FILE],
            stream=True,
        )
        calls = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or ()]
    return "".join((call.function and call.function.arguments) or "" for call in calls)


def test_a_pod_is_ready_once_certificate_and_key_belong_together_and_answers_over_tls(pods: Cluster) -> None:
    certificate, other = CA.issue_cert("127.0.0.1"), CA.issue_cert("127.0.0.1")
    pod = pods.begin_pod({"extproc-tls": pair(certificate, key=other)})
    wait_until(lambda: any("it refuses" in line and "certificate" in line for line in pod.processor.log), 60)
    assert not pod.ready
    pod.certify(pair(certificate))
    wait_until(lambda: pod.ready, 60)
    assert called(pod) == '{"path": "main.py"}'
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{pod.url}/v1/models")
