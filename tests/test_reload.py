"""What changes on disk while the gateway runs: taken at once, by new requests alone, and only when it can be used."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
import yaml

from extproc.control import watched as watched_files
from extproc.control.watched import Watched
from extproc.envoy.key_check import FILE as KEYS
from extproc.exchange.api_keys import hash_line
from scripted_vllm import Reply, ScriptedVLLM
from tests.gateway import free_port, put
from tests.reloadable import CHAT, PATIENCE, REFUSED, TOOLS, Gateway, Load, Stream, eventually, request, running

pytestmark = pytest.mark.long

KEY = "a-key-that-nobody-guesses"


@pytest.fixture(scope="module")
def backend() -> Iterator[ScriptedVLLM]:
    with ScriptedVLLM(model="qwen").running() as backend:
        yield backend


@pytest.fixture(scope="module")
def shared_gateway(tmp_path_factory: pytest.TempPathFactory, backend: ScriptedVLLM) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("reload"), backend)
    gateway.write(gateway.settings("coder"))
    with running(gateway):
        yield gateway


@pytest.fixture
def gateway(shared_gateway: Gateway) -> Gateway:
    """The same for all tests, with the same configuration at the beginning of each."""
    shared_gateway.backend.forget()
    shared_gateway.reload(shared_gateway.settings("coder"))
    return shared_gateway


# ---- what is taken


def test_a_model_and_its_backend_are_served_from_the_first_request_on(gateway: Gateway) -> None:
    assert gateway.ask("other").status_code == 404
    gateway.reload(gateway.settings("coder", "other"))
    before = gateway.metric('extproc_requests_total{model="other"}')
    assert gateway.ask("other").status_code == 200
    assert gateway.metric('extproc_requests_total{model="other"}') == before + 1


def test_a_removed_model_is_not_found_while_its_running_stream_ends_well(gateway: Gateway) -> None:
    gateway.reload(gateway.settings("coder", "other"))
    stream = Stream(gateway, "other", words=60)
    gateway.reload(gateway.settings("coder"))
    refused = gateway.ask("other")
    assert not stream.ended
    assert refused.status_code == 404
    assert refused.json()["error"]["code"] == "model_not_found"
    assert stream.text() == "word " * 60
    # And then Envoy forgets the backend.
    eventually(lambda: gateway.stat("cluster_manager.active_clusters") == "2")


def test_retries_can_be_switched_on_and_go_on_when_the_listeners_change(gateway: Gateway) -> None:
    def demanded() -> str:
        gateway.backend.play(Reply("No."), Reply('<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'))
        return gateway.http.post(CHAT, json=request("coder", tools=TOOLS, tool_choice="required")).text

    settings = gateway.settings("coder", sockets=str(gateway.processor.parent))
    settings["models"][0]["retry"] = True
    settings["backends"][0]["structured_outputs"] = False
    gateway.reload(settings)
    assert '"look"' in demanded()
    for limit in (2_000_000, 3_000_000):
        gateway.reload({**settings, "limits": {"max_body_bytes": limit}})
        assert '"look"' in demanded()
    gateway.reload({**settings, "listen": f"127.0.0.1:{free_port()}"})
    gateway.reload(settings)
    assert '"look"' in demanded()


def test_a_backend_that_moves_leaves_its_running_stream_alone(gateway: Gateway) -> None:
    stream = Stream(gateway, "coder", words=60)
    with ScriptedVLLM(model="qwen").running() as elsewhere:
        settings = gateway.settings("coder")
        settings["backends"][0]["address"] = f"127.0.0.1:{elsewhere.port}"
        gateway.reload(settings)
        elsewhere.play(Reply("from elsewhere"))
        answer = gateway.ask("coder").json()
        assert answer["choices"][0]["message"]["content"] == "from elsewhere"
        assert not stream.ended
        assert stream.text() == "word " * 60


def test_a_smaller_limit_holds_for_new_requests_on_old_connections_too(gateway: Gateway) -> None:
    long = request("coder", "x" * 5000)
    assert gateway.http.post(CHAT, json=long).status_code == 200
    gateway.reload(gateway.settings("coder", limits={"max_body_bytes": 2048}))
    refused = gateway.http.post(CHAT, json=long)
    assert refused.status_code == 413
    assert refused.json()["error"]["code"] == "request_too_large"
    gateway.reload(gateway.settings("coder"))
    assert gateway.http.post(CHAT, json=long).status_code == 200


def accepts(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as attempt:
        return attempt.connect_ex((host, int(port))) == 0


def test_envoy_moves_to_another_address(gateway: Gateway) -> None:
    stream = Stream(gateway, "coder")
    elsewhere = f"127.0.0.1:{free_port()}"
    gateway.reload(gateway.settings("coder", listen=elsewhere))
    assert httpx.get(f"http://{elsewhere}/v1/models").status_code == 200
    eventually(lambda: not accepts(gateway.listen))  # each of Envoy's workers leaves the old one in its own time
    assert stream.text() == "word " * 40


def test_tls_and_a_backends_key_are_taken(gateway: Gateway, tmp_path: Path) -> None:
    authority, files = trustme.CA(), {name: tmp_path / name for name in ("certificate", "key", "backend-key")}
    issued = authority.issue_cert("127.0.0.1")
    files["certificate"].write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    files["key"].write_bytes(issued.private_key_pem.bytes())
    files["backend-key"].write_text("the-backends-own\n")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    tls = {name: str(files[name]) for name in ("certificate", "key")}
    settings = gateway.settings("coder", tls=tls)
    settings["backends"][0]["api_key"] = str(files["backend-key"])
    gateway.reload(settings)
    headers = {"authorization": "Bearer the-clients-own"}

    def key_that_came() -> str | None:
        return [sent for sent in gateway.backend.requests if sent.route == CHAT][-1].header("authorization")

    with httpx.Client(base_url=f"https://{gateway.listen}", verify=trusting, headers=headers) as client:
        assert client.post(CHAT, json=request("coder")).status_code == 200
    assert key_that_came() == "Bearer the-backends-own"
    gateway.reload(gateway.settings("coder"))
    gateway.http.post(CHAT, json=request("coder"), headers=headers)
    assert key_that_came() is None
    eventually(lambda: not any("coder" in path.name for path in gateway.files.iterdir()))


def test_a_swap_of_links_as_kubernetes_does_it_is_seen(tmp_path: Path, backend: ScriptedVLLM) -> None:
    """The file is a link through `..data`, which is a link to a directory; what changes is that link alone."""
    gateway, volume = Gateway(tmp_path, backend), tmp_path / "volume"
    gateway.file = volume / "extproc.yaml"

    def publish(version: str, settings: dict[str, Any]) -> None:
        (volume / version).mkdir(parents=True)
        (volume / version / "extproc.yaml").write_text(yaml.safe_dump(settings))
        (volume / "..data_tmp").symlink_to(version)
        (volume / "..data_tmp").rename(volume / "..data")

    publish("..1", gateway.settings("coder"))
    gateway.file.symlink_to("..data/extproc.yaml")
    with running(gateway):
        assert gateway.ask("other").status_code == 404
        publish("..2", gateway.settings("coder", "other"))
        eventually(lambda: gateway.metric('extproc_config_reloads_total{result="ok"}') == 1)
        assert gateway.ask("other").status_code == 200


# ---- what Envoy can't use at the start


def pair(folder: Path, authority: trustme.CA, *, matching: bool = True) -> dict[str, str]:
    """A certificate and its key, or that of another one, put into the folder by renaming."""
    folder.mkdir(exist_ok=True)
    issued, other = authority.issue_cert("127.0.0.1"), authority.issue_cert("127.0.0.1")
    made = {
        "key": (issued if matching else other).private_key_pem.bytes(),
        "certificate": b"".join(part.bytes() for part in issued.cert_chain_pems),
    }
    for name, text in made.items():
        new = folder / f".{name}"
        new.write_bytes(text)
        new.rename(folder / name)
    return {name: str(folder / name) for name in made}


@pytest.mark.parametrize("at_first", ["of two", "of none"])
def test_a_pair_that_envoy_can_not_use_shows_until_there_is_a_good_one(
    tmp_path: Path, backend: ScriptedVLLM, at_first: str
) -> None:
    """Envoy runs with it, is ready, and resets every handshake: no rollout may go on with such a pod."""
    gateway, authority, folder = Gateway(tmp_path, backend), trustme.CA(), tmp_path / "tls"
    if at_first == "of two":
        pair(folder, authority, matching=False)
    gateway.write(gateway.settings("coder", tls={name: str(folder / name) for name in ("certificate", "key")}))
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with running(gateway), httpx.Client(base_url=f"https://{gateway.listen}", verify=trusting) as client:
        eventually(lambda: gateway.logged("it refuses secret-certificate.yaml; its own log tells why") != [])
        assert gateway.health("")
        assert not gateway.health("extproc.envoy")
        with pytest.raises(httpx.TransportError):
            client.get("/v1/models")
        pair(folder, authority)
        eventually(lambda: gateway.health("extproc.envoy"))
        assert client.get("/v1/models").status_code == 200
        assert len(gateway.logged("it refuses secret-certificate.yaml")) == 1
        pair(folder, authority, matching=False)
        assert gateway.health("extproc.envoy"), "it tells of the start alone"


def test_an_address_that_envoy_can_not_have_shows_until_it_is_free(tmp_path: Path, backend: ScriptedVLLM) -> None:
    gateway = Gateway(tmp_path, backend)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
        gateway.write(gateway.settings("coder", listen=address))
        with running(gateway):
            eventually(lambda: gateway.logged("it refuses listener.yaml") != [])
            assert not gateway.health("extproc.envoy")
            taken.close()
            eventually(lambda: gateway.health("extproc.envoy"))
            assert httpx.get(f"http://{address}/v1/models").status_code == 200


def test_another_configuration_mends_what_envoy_refused_at_the_start(tmp_path: Path, backend: ScriptedVLLM) -> None:
    gateway = Gateway(tmp_path, backend)
    tls = {name: str(tmp_path / "nowhere" / name) for name in ("certificate", "key")}
    gateway.write(gateway.settings("coder", tls=tls))
    with running(gateway):
        eventually(lambda: gateway.logged("it refuses secret-certificate.yaml") != [])
        assert not gateway.health("extproc.envoy")
        gateway.reload(gateway.settings("coder"))
        eventually(lambda: gateway.health("extproc.envoy"))
        assert gateway.ask("coder").status_code == 200


# ---- what is refused


REST = "models:\n- {name: m, backend: b, tools: prompt}\nbackends:\n- {name: b, address: h:1}\n"
BROKEN = [
    ("models: [", ":1: not valid YAML"),
    (REST.replace("prompt", "magic"), ":2: models[0].tools: expected"),
    ("", ":1: expected a mapping"),
    (
        f"api_keys: /nowhere/keys\n{REST}",
        "api_keys (its path isn't shown, because it may be a key): can't be read: No such file or directory",
    ),
]


def test_what_can_not_be_used_changes_nothing_and_shows_until_it_is_mended(gateway: Gateway) -> None:
    good = gateway.file.read_text()
    for text, complaint in BROKEN:
        gateway.refuse(text)
        assert gateway.metric("extproc_config_valid") == 0
        assert not gateway.health("extproc.config")
        assert gateway.health("")
        assert gateway.ask("coder").status_code == 200
        (told,) = gateway.logged(complaint)
        assert told["level"] == "error"
        assert told["message"].startswith("the changed configuration is refused, the previous one stays in force: ")
    gateway.file.unlink()
    eventually(lambda: gateway.logged(f"{gateway.file}: can't be read") != [])
    gateway.write(good)
    eventually(lambda: gateway.metric("extproc_config_valid") == 1)
    assert gateway.health("extproc.config")
    assert gateway.ask("coder").status_code == 200


def test_what_envoy_refuses_is_refused(gateway: Gateway) -> None:
    """Only Envoy can tell that an address isn't to be had."""
    gateway.write(gateway.settings("coder", "other", listen="203.0.113.1:10000"))
    eventually(lambda: gateway.metric("extproc_config_valid") == 0)
    assert gateway.logged("Envoy refuses listener.yaml")
    assert gateway.ask("coder").status_code == 200
    assert gateway.ask("other").status_code == 404
    gateway.reload(gateway.settings("coder", "other"))
    assert gateway.metric("extproc_config_valid") == 1
    assert gateway.ask("other").status_code == 200


# ---- what is refused for a reason that passes


def accepted_at_last(gateway: Gateway, refusals: float) -> None:
    """The file that lies there is taken without being touched; so many reasons against it were told, each once."""
    eventually(lambda: gateway.metric("extproc_config_valid") == 1)
    assert gateway.health("extproc.config")
    assert gateway.metric(REFUSED) == refusals


def test_keys_that_come_after_the_configuration_that_names_them(gateway: Gateway) -> None:
    keys = gateway.file.with_name("keys-to-come")
    before = gateway.metric(REFUSED)
    gateway.refuse(gateway.settings("coder", api_keys=str(keys)))
    assert gateway.ask("coder").status_code == 200
    put(keys, "alice: half a ha")
    eventually(lambda: gateway.metric(REFUSED) == before + 2)
    assert not gateway.health("extproc.config")
    put(keys, hash_line("alice", KEY))
    accepted_at_last(gateway, before + 2)
    assert gateway.ask("coder").status_code == 401
    assert gateway.ask("coder", authorization=f"Bearer {KEY}").status_code == 200
    assert len(gateway.logged(f"{keys}: can't be read")) == 1
    assert len(gateway.logged(f"{keys}:1: expected 'name: hash'")) == 1


def test_certificates_whose_directory_comes_after_the_configuration_that_names_them(gateway: Gateway) -> None:
    authority, folder = trustme.CA(), gateway.file.with_name("certificates")
    issued, staged = authority.issue_cert("127.0.0.1"), gateway.file.with_name("staged")
    staged.mkdir()
    (staged / "tls.crt").write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    (staged / "tls.key").write_bytes(issued.private_key_pem.bytes())
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    before = gateway.metric(REFUSED)
    tls = {"certificate": str(folder / "tls.crt"), "key": str(folder / "tls.key")}
    gateway.refuse(gateway.settings("coder", tls=tls))
    eventually(lambda: answers(gateway))  # not in the moment of a try: only a listener shows that it lacks one
    staged.rename(folder)
    accepted_at_last(gateway, before + 1)
    with httpx.Client(base_url=f"https://{gateway.listen}", verify=trusting) as client:
        assert client.post(CHAT, json=request("coder")).status_code == 200


def answers(gateway: Gateway) -> bool:
    try:
        return gateway.ask("coder").status_code == 200
    except httpx.TransportError:
        return False


def test_an_address_that_becomes_free_is_taken_and_every_try_before_is_told_as_one(gateway: Gateway) -> None:
    before = gateway.metric(REFUSED)

    def tries() -> int:
        return int(gateway.stat("listener_manager.lds.update_rejected"))

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address, of_others = "{}:{}".format(*taken.getsockname()), tries()
        gateway.refuse(gateway.settings("coder", "other", listen=address))
        eventually(lambda: tries() >= of_others + 3)  # one try is two at most: the old file is put back
        assert gateway.ask("coder").status_code == 200
        assert gateway.ask("other").status_code == 404
    accepted_at_last(gateway, before + 1)
    assert httpx.post(f"http://{address}{CHAT}", json=request("other")).status_code == 200


def test_a_file_that_can_not_be_written_is_tried_again(gateway: Gateway) -> None:
    before, in_the_way = gateway.metric(REFUSED), gateway.files / ".listener.yaml.new"
    long = request("coder", "x" * 5000)
    in_the_way.mkdir()
    gateway.refuse(gateway.settings("coder", limits={"max_body_bytes": 2048}))
    assert gateway.logged("Is a directory")
    # The routes were taken before the listener failed: they are taken back.
    eventually(lambda: gateway.http.post(CHAT, json=long).status_code == 200)
    in_the_way.rmdir()
    accepted_at_last(gateway, before + 1)
    assert gateway.http.post(CHAT, json=long).status_code == 413


def test_a_file_that_is_being_written_is_seen_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([b"the old one", b"", b"the n", b"the new one", b"the new one"])
    monkeypatch.setattr(watched_files, "_look", lambda _: next(looks))
    watched = Watched(tmp_path / "slowly")
    assert asyncio.run(watched.changed())
    assert watched.content == b"the new one"


def test_a_file_that_never_rests_does_not_keep_the_others_from_being_looked_at(tmp_path: Path) -> None:
    file, begun, stopped = tmp_path / "restless", threading.Event(), threading.Event()
    file.write_text("at first")
    watched = Watched(file)

    def write() -> None:
        number = 0
        while not stopped.is_set():
            number += 1
            new = file.with_suffix(".new")
            new.write_text(f"{number}")
            new.rename(file)
            begun.set()

    async def main() -> tuple[bool, bytes]:
        first = await asyncio.wait_for(watched.changed(), PATIENCE)
        content = watched.content
        stopped.set()
        await asyncio.to_thread(writer.join)
        await watched.changed()
        return first, content

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(PATIENCE)
        first, content = asyncio.run(main())
    finally:
        stopped.set()
    assert first
    assert content.isdigit()
    assert watched.content == file.read_bytes()


# ---- an Envoy that can't follow


def test_what_a_fixed_envoy_would_have_to_know_of_is_refused_as_a_whole(tmp_path: Path, backend: ScriptedVLLM) -> None:
    gateway = Gateway(tmp_path, backend)
    keys = tmp_path / "keys"
    put(keys, hash_line("alice", KEY))
    good = gateway.settings("coder", "other")
    gateway.write(good)

    def moved(**backend: Any) -> list[dict[str, Any]]:
        return [good["backends"][0] | backend, good["backends"][1]]

    renamed = [{**good["models"][0], "name": "new"}]
    with running(gateway, follows=False):
        for changes in (
            {"limits": {"max_body_bytes": 2048}},
            {"listen": f"127.0.0.1:{free_port()}"},
            {"api_keys": str(keys)},
            {"backends": moved(address="127.0.0.1:1")},
            {"backends": moved(name="third"), "models": [{**renamed[0], "backend": "third"}]},
        ):
            gateway.refuse({**good, "models": renamed, **changes})
            told = gateway.logged(f"{', '.join(changes.keys() - {'models'})}; make its bootstrap anew")[-1]
            assert told["level"] == "error"
            assert "restart Envoy and the processor with it" in told["message"]
            assert not gateway.health("extproc.config")
            assert gateway.http.post(CHAT, json=request("coder", "x" * 5000)).status_code == 200
            assert gateway.ask("new").status_code == 404

        # What only the processor goes by is taken all the same.
        models = [{**renamed[0], "backend": "other", "defaults": {"temperature": 0.25}}]
        gateway.reload({**good, "models": models, "backends": moved(structured_outputs=False, parameters=["extra"])})
        assert gateway.metric("extproc_config_valid") == 1
        assert gateway.health("extproc.config")
        assert gateway.ask("coder").status_code == 404
        assert gateway.ask("new").status_code == 200
        assert [sent for sent in backend.requests if sent.route == CHAT][-1].json["temperature"] == 0.25


# ---- API keys


def test_keys_are_asked_for_as_soon_as_there_is_a_file_and_a_new_file_of_them_is_taken(gateway: Gateway) -> None:
    keys = gateway.file.with_name("keys")
    put(keys, hash_line("alice", KEY))
    assert gateway.ask("coder").status_code == 200
    gateway.reload(gateway.settings("coder", api_keys=str(keys)))
    alice, bob = {"authorization": f"Bearer {KEY}"}, {"x-api-key": f"{KEY}-of-bob"}
    refused = gateway.ask("coder")
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "invalid_api_key"
    assert [gateway.ask("coder", **headers).status_code for headers in (alice, bob)] == [200, 401]
    assert gateway.http.get("/v1/models").status_code == 401
    assert gateway.http.get("/v1/models", headers=alice).status_code == 200

    put(keys, hash_line("bob", f"{KEY}-of-bob"))
    eventually(lambda: gateway.logged("the new API keys are in force") != [])
    eventually(lambda: gateway.ask("coder", **bob).status_code == 200)  # Envoy, which checks too, is a moment later
    assert gateway.ask("coder", **alice).status_code == 401

    put(keys, f"carol: {KEY}")  # the key itself, where its hash belongs
    eventually(lambda: gateway.metric("extproc_api_keys_missing") == 1)
    assert gateway.metric("extproc_api_keys_valid") == 0
    assert gateway.metric("extproc_api_keys_closed") == 0
    assert not gateway.health("extproc.config")
    assert gateway.ask("coder", **bob).status_code == 200
    assert len(gateway.logged(f"{keys}:1: expected 'name: hash'")) == 1
    assert len(gateway.logged("the last ones stay valid for 300 seconds, then every request is refused")) == 1
    assert KEY not in gateway.log.read_text()
    assert KEY not in gateway.envoy_log.read_text()

    gateway.reload(gateway.settings("coder"))
    assert gateway.metric("extproc_api_keys_missing") == 0
    assert gateway.health("extproc.config")
    assert gateway.ask("coder").status_code == 200


def test_a_key_is_taken_back_whatever_else_is_wrong(gateway: Gateway) -> None:
    keys = gateway.file.with_name("keys-with-faults")
    alice, bob = {"authorization": f"Bearer {KEY}"}, {"x-api-key": f"{KEY}-of-bob"}
    put(keys, f"{hash_line('alice', KEY)}\n{hash_line('bob', KEY + '-of-bob')}\n")
    gateway.reload(gateway.settings("coder", api_keys=str(keys)))
    assert [gateway.ask("coder", **headers).status_code for headers in (alice, bob)] == [200, 200]

    gateway.refuse("models: [")
    put(keys, f"# alice left\nalice: {KEY}-taken-back\n{hash_line('bob', KEY + '-of-bob')}\n")
    eventually(lambda: gateway.metric("extproc_api_keys_unreadable_lines") == 1)
    assert [gateway.ask("coder", **headers).status_code for headers in (alice, bob)] == [401, 200]
    assert gateway.metric("extproc_api_keys_valid") == 0
    (told,) = gateway.logged(f"{keys}:2: expected 'name: hash'")
    assert told["level"] == "warning"
    assert f"{KEY}-taken-back" not in gateway.log.read_text()

    put(keys, hash_line("bob", f"{KEY}-of-bob"))
    eventually(lambda: gateway.metric("extproc_api_keys_valid") == 1)
    assert gateway.metric("extproc_api_keys_unreadable_lines") == 0


def _one_more(gateway: Gateway, line: str, before: int) -> bool:
    return len(gateway.logged(line)) > before


def test_keys_that_envoy_can_not_be_told_of_are_told_of_once(gateway: Gateway) -> None:
    keys, in_the_way = gateway.file.with_name("more-keys"), gateway.files / f".{KEYS}.new"
    put(keys, hash_line("alice", KEY))
    gateway.reload(gateway.settings("coder", api_keys=str(keys)))
    told, taken = "Envoy keeps the previous API keys", "Envoy has the API keys that are in force"
    in_the_way.mkdir()
    for names in (["bob"], ["alice", "bob"]):  # and between the two it is tried again
        before = len(gateway.logged("the new API keys are in force"))
        lines = [hash_line(name, f"{KEY}-of-{name}") for name in names]
        put(keys, "\n".join(lines))
        eventually(partial(_one_more, gateway, "the new API keys are in force", before))
    assert len(gateway.logged(told)) == 1
    in_the_way.rmdir()
    eventually(lambda: len(gateway.logged(taken)) == 1)
    eventually(lambda: gateway.ask("coder", **{"x-api-key": f"{KEY}-of-bob"}).status_code == 200)


def test_another_file_of_keys_waits_until_envoy_can_be_told_of_them(gateway: Gateway) -> None:
    files, in_the_way = [gateway.file.with_name(f"keys-{number}") for number in (1, 2)], gateway.files / f".{KEYS}.new"
    for file, name in zip(files, ("alice", "bob"), strict=True):
        put(file, hash_line(name, f"{KEY}-of-{name}"))
    asked = [{"x-api-key": f"{KEY}-of-{name}"} for name in ("alice", "bob")]
    gateway.reload(gateway.settings("coder", api_keys=str(files[0])))
    eventually(lambda: [gateway.ask("coder", **one).status_code for one in asked] == [200, 401])
    before = gateway.metric(REFUSED)
    in_the_way.mkdir()
    gateway.refuse(gateway.settings("coder", api_keys=str(files[1])))
    assert [gateway.ask("coder", **one).status_code for one in asked] == [200, 401]
    in_the_way.rmdir()
    accepted_at_last(gateway, before + 1)
    eventually(lambda: [gateway.ask("coder", **one).status_code for one in asked] == [401, 200])


def test_keys_are_looked_at_while_envoy_takes_its_time_with_a_configuration(gateway: Gateway) -> None:
    """Envoy waits for the first health check of a backend that doesn't answer."""
    keys = gateway.file.with_name("keys-meanwhile")
    put(keys, f"{hash_line('alice', KEY)}\n")
    gateway.reload(gateway.settings("coder", api_keys=str(keys)))
    with socket.create_server(("127.0.0.1", 0)) as mute:  # connections are made, and nothing comes
        settings = gateway.settings("coder", api_keys=str(keys))
        digest = gateway.write(
            {
                **settings,
                "models": [*settings["models"], {"name": "mute", "backend": "mute", "tools": "prompt"}],
                "backends": [*settings["backends"], {"name": "mute", "address": "{}:{}".format(*mute.getsockname())}],
            }
        )
        eventually(lambda: int(gateway.stat("cluster_manager.warming_clusters") or 0) == 1)
        put(keys, hash_line("bob", f"{KEY}-of-bob"))
        eventually(lambda: gateway.ask("coder", authorization=f"Bearer {KEY}").status_code == 401)
        eventually(lambda: gateway.metric(f'extproc_config_info{{hash="{digest}"}}') == 1)
    told = gateway.log.read_text()
    assert told.rindex("the new API keys are in force") < told.index(f"the new configuration is in force: {digest}")
    assert gateway.ask("coder", authorization=f"Bearer {KEY}").status_code == 401, "the old keys don't come back"


@pytest.mark.parametrize("end", ["emptied", "removed", "a FIFO"])
def test_without_any_key_nobody_comes_in_when_the_grace_period_is_over(
    tmp_path: Path, backend: ScriptedVLLM, end: str
) -> None:
    gateway, keys = Gateway(tmp_path, backend), tmp_path / "keys"
    alice = {"authorization": f"Bearer {KEY}"}
    put(keys, hash_line("alice", KEY))
    gateway.write(gateway.settings("coder", api_keys=str(keys)))
    with running(gateway, "--keys-grace", "0.3"):
        assert gateway.ask("coder", **alice).status_code == 200
        if end == "emptied":
            put(keys, "")
        else:
            keys.unlink()
        if end == "a FIFO":
            os.mkfifo(keys)
        eventually(lambda: gateway.metric("extproc_api_keys_closed") == 1)
        assert gateway.ask("coder", **alice).status_code == 401
        assert gateway.metric("extproc_api_keys_missing") == 1
        assert len(gateway.logged("every request is refused now")) == 1
        keys.unlink(missing_ok=True)
        put(keys, hash_line("alice", KEY))
        eventually(lambda: gateway.metric("extproc_api_keys_valid") == 1)
        assert gateway.metric("extproc_api_keys_closed") == gateway.metric("extproc_api_keys_missing") == 0
        eventually(lambda: gateway.ask("coder", **alice).status_code == 200)


# ---- all at once


def test_fifty_reloads_under_fifty_streams_break_none_and_refuse_no_request(tmp_path: Path) -> None:
    reloads, clients = 50, 50
    # Its own model says the same, word for word, to each of them.
    with ScriptedVLLM(model="qwen", pace=0.5).running() as backend:
        gateway = Gateway(tmp_path, backend)
        gateway.write(gateway.settings("coder"))
        with running(gateway), ThreadPoolExecutor(clients) as pool:
            load = Load(f"http://{gateway.listen}")
            streams = [pool.submit(load.client) for _ in range(clients)]
            try:
                for _ in range(clients):
                    assert load.begun.acquire(timeout=PATIENCE)
                for number in range(reloads):
                    new, limit = f"model-{number}", (20 + number // 10) << 20  # which takes a new listener
                    gateway.reload(gateway.settings("coder", new, limits={"max_body_bytes": limit}))
                    assert gateway.ask(new).status_code == 200
                    if number:
                        assert gateway.ask(f"model-{number - 1}").status_code == 404
            finally:
                load.stopped.set()
            assert [stream.result(PATIENCE) for stream in streams] == [[]] * clients
        assert gateway.logged("error") == []
