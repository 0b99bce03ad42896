"""`extproc probe` where things are in its way: keys, TLS, addresses, and servers that are ill or no vLLM."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest
import trustme

from extproc.probe import Origin, ProbeError
from scripted_vllm import ScriptedVLLM
from scripted_vllm.replies import Reply
from scripted_vllm.troubles import (
    Cut,
    ErrorBody,
    ErrorEvent,
    Fail,
    Garbage,
    Gzip,
    Nonsense,
    Refuse,
    Stall,
    Trouble,
)
from tests.played_vllm import (
    FORCED,
    NAME,
    NOT_FOUND,
    ODD_CHOICE,
    TAGGED,
    Played,
    ask,
    asked,
    card,
    config_of,
    models,
    refusal,
    serving,
)

# Keys and TLS


def test_the_key_is_sent_and_its_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-local-1\n")
    with serving() as server:
        report = ask(server.url, api_key_file=file)
    assert {headers.get("authorization") for _, headers in server.asked} == {"Bearer sk-local-1"}
    assert config_of(report).backends[0].api_key == file
    assert "sk-local-1" not in report.yaml() + report.summary()


def test_a_key_that_is_needed_or_wrong_is_said(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("wrong")
    with serving(models=(401, {"error": "Unauthorized"})) as server:
        with pytest.raises(ProbeError, match=r"it asks for an API key.* --api-key-file \(status 401: Unauthorized\)"):
            ask(server.url)
        with pytest.raises(ProbeError, match="it refuses this API key"):
            ask(server.url, api_key_file=file)
        for content in ("", "two words", "a\nb", "schlüssel"):
            file.write_text(content)
            with pytest.raises(ProbeError, match="expected one API key"):
                ask(server.url, api_key_file=file)


def test_a_backend_with_tls_has_to_be_trusted(tmp_path: Path) -> None:
    authority, context, ca = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tmp_path / "ca.pem"
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(ca))
    with serving(context) as server:
        with pytest.raises(ProbeError, match="its certificate isn't trusted"):
            ask(server.url)
        with pytest.raises(FileNotFoundError):
            ask(server.url, ca=tmp_path / "missing.pem")
        [backend] = config_of(ask(server.url, ca=ca)).backends
    assert backend.tls is not None
    assert backend.tls.ca == ca
    assert backend.address == (server.url.removeprefix("https://"),)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("vllm.internal:8000/v1/", "http://vllm.internal:8000"),
        ("http://vllm", "http://vllm:80"),
        ("https://vllm", "https://vllm:443"),
        ("https://[::1]:8443/v1", "https://[::1]:8443"),
    ],
)
def test_urls_as_people_type_them(url: str, origin: str) -> None:
    assert str(Origin.parse(url)) == origin


@pytest.mark.parametrize(
    "url", ["", "ftp://vllm", "http://", "http://vllm:0", "http://vllm:x", "http://vllm/api", "http://k@vllm:80", "//["]
)
def test_what_is_no_backend_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Origin.parse(url)


# Servers that are none, or ill


def is_one_line(error: ProbeError) -> bool:
    return str(error).isprintable() and len(str(error)) < 400


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        ({"models": NOT_FOUND}, r"this is no vLLM: it lists no models at /v1/models \(status 404: Not Found\)"),
        ({"models": (200, b"<html>hello</html>")}, r"this is no vLLM: .*\(status 200 without JSON\)"),
        ({"models": (200, {"data": "gpt-4"})}, "this is no vLLM"),
        ({"models": (200, b"[" * 100_000)}, "this is no vLLM"),
        ({"models": (301, b"")}, "this is no vLLM"),
        ({"models": models()}, "it serves no models"),
        ({"models": models(7, {}, {"id": 5}, {"id": ""}, {"id": "x" * 257})}, "it serves no models"),
        ({"chat": NOT_FOUND}, rf"the model {NAME} doesn't chat \(status 404: Not Found\)"),
        ({"chat": refusal("no chat template")}, "doesn't chat .*no chat template"),
        ({"chat": (200, {"choices": []})}, "doesn't chat"),
        ({"chat": (200, {"choices": [{"message": "hi"}]})}, "doesn't chat"),
    ],
)
def test_what_is_no_vllm_is_said_in_one_line(answers: dict[str, Played], complaint: str) -> None:
    with serving(**answers) as server, pytest.raises(ProbeError, match=complaint) as raised:
        ask(server.url)
    assert is_one_line(raised.value)


def test_a_server_that_does_not_say_what_it_is_is_asked_all_the_same() -> None:
    report = asked(version=NOT_FOUND)
    assert "a vLLM that doesn't tell its version" in report.summary()
    report = asked(version=(200, ["odd"]), models=models(card(NAME, owned_by="somebody")))
    assert "a server that doesn't say it is vLLM" in report.yaml()


def test_models_that_do_not_chat_are_left_out_when_others_do() -> None:
    listed = models(card("embedder"), card(NAME))
    with serving(models=listed) as server:
        answers = dict(server.answers)

        class FirstRefused(dict[str, Played]):
            def __getitem__(self, name: str) -> Played:
                if name == "chat" and [asked for asked, _ in server.asked].count("chat") == 1:
                    return refusal("The model does not support Chat Completions API")
                return answers[name]

        server.answers = FirstRefused()
        report = ask(server.url)
    assert [model.name for model in config_of(report).models] == [NAME]
    assert "# Left out: " in report.yaml()
    assert "The model does not support Chat Completions API" in report.yaml().replace("\n# ", " ")


def test_nothing_there_is_said_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(ProbeError, match=f"^http://127.0.0.1:{port}: connection refused$"):
        ask(f"http://127.0.0.1:{port}")
    with pytest.raises(ProbeError, match="name can't be resolved"):
        ask("http://no-such-host.invalid:8000")


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (b"", "closes the connection without an answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "isn't sound HTTP"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "closes the connection in the middle"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000, "isn't sound HTTP"),
    ],
)
def test_what_is_no_http_is_said_in_one_line(said: bytes, complaint: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            with pytest.raises(ProbeError, match=complaint):
                ask(f"http://127.0.0.1:{listener.getsockname()[1]}")
        finally:
            thread.join()


def test_a_server_that_speaks_no_tls_is_told_from_one_that_is_not_trusted() -> None:
    with serving() as server, pytest.raises(ProbeError, match=r"doesn't speak TLS.* http:// rather than https://"):
        ask(server.url.replace("http:", "https:"))


def test_silence_ends() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(ProbeError, match=r"no answer within 0\.2 seconds"),
    ):
        ask(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.2)


TROUBLES: list[Trouble] = [
    Refuse(),
    Fail(500),
    Fail(503, body=ErrorBody.PLAIN),
    Fail(429, body=ErrorBody.HTML),
    Cut(),
    Garbage(Nonsense.NOT_JSON),
    Garbage(Nonsense.BROKEN_JSON),
    Garbage(Nonsense.WRONG_TYPE),
    Gzip(),
    ErrorEvent(),
    Stall(after=None),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: str(trouble).lower())
def test_trouble_with_one_answer_leaves_a_configuration_or_one_line(trouble: Trouble) -> None:
    well = [Reply("ready"), Reply("As"), Reply(TAGGED), Reply(FORCED), Reply(ODD_CHOICE)]
    patience = 1.5 if isinstance(trouble, Stall) else 30.0
    vllm = ScriptedVLLM(NAME)
    with vllm.running():
        for ill in range(len(well)):
            vllm.forget()
            vllm.play(*well[:ill], Reply("ready", trouble=trouble), *well[ill + 1 :])
            if ill == 0:
                with pytest.raises(ProbeError) as raised:
                    ask(vllm.url, timeout=patience)
                assert is_one_line(raised.value)
            else:
                [model] = config_of(ask(vllm.url, timeout=patience)).models
                assert model.tools == ("prompt" if ill in (1, 2) else "template")
