"""Recording at a running gateway: what is in the files, what never is, and when there are none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from extproc.config import Backend, ConfigError, parse
from extproc.config.recording import Recording
from extproc.exchange.api_keys import hash_line
from extproc.exchange.context import ExchangeContext
from extproc.exchange.machine import Exchange, Inputs
from extproc.observability.telemetry import Telemetry
from extproc.recording import store
from extproc.recording.difference import first_difference
from extproc.recording.document import NOTICE, Document, Kind, RecordingError
from extproc.recording.envoy_json import bytes_from_json
from extproc.recording.kept import MOST_BYTES
from extproc.recording.private import KEPT_BACKEND, REMOVED_BACKEND, addresses_of, without_addresses
from extproc.recording.recorder import AT_ONCE, Recorder
from extproc.recording.replay import Cut, ReplayResult, replay
from extproc.watch.summary import Summary
from extproc.wire import HeaderMap, HeaderValue, HttpBody, HttpHeaders, ProcessingRequest
from scripted_vllm import Cut as HangUp
from scripted_vllm import Fail, Reply, Stall
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway, wait_until
from tests.watch_stage import kept_of

pytestmark = pytest.mark.long

CHAT = "/v1/chat/completions"
CALL = 'Sofort. <tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
CUTS: tuple[Cut, ...] = ("recorded", "whole", 1, 7)


def asking(**fields: Any) -> dict[str, Any]:
    return {"model": "coder", "messages": [{"role": "user", "content": "Wetter in Zürich?"}], "tools": TOOLS, **fields}


class Recorded:
    """A gateway that records into `directory`."""

    def __init__(self, gateway: Gateway, backend: AskedVLLM, directory: Path) -> None:
        self.gateway = gateway
        self.backend = backend
        self.directory = directory

    def files(self) -> list[Path]:
        return sorted(self.directory.glob("*.json"))

    def next_file(self, before: int) -> Path:
        """The one that comes when there are `before`: an exchange is written after its client has its answer."""
        wait_until(lambda: len(self.files()) > before)
        (*_, path) = self.files()
        return path

    def ask(self, reply: Reply | None = None, **fields: Any) -> tuple[httpx.Response, Document]:
        """Ask, and see what was recorded."""
        if reply is not None:
            self.backend.play(reply)
        before = len(self.files())
        answer = self.gateway.http.post(CHAT, json=asking(**fields))
        return answer, Document.read(self.next_file(before).read_bytes())


@contextmanager
def recording_gateway(folder: Path, settings: str = "", *, model: str = "", **options: Any) -> Iterator[Recorded]:
    directory = folder / "recordings"
    backend = AskedVLLM(model=MODEL)
    with backend.running():
        configuration = f"""
models:
  - {{name: coder, backend: qwen, upstream_model: {MODEL}, tools: prompt {model}}}
  - {{name: other, backend: qwen, upstream_model: {MODEL}, tools: prompt}}
  - {{name: absent, backend: absent, tools: prompt}}
backends:
  - {{name: absent, address: "127.0.0.1:1", health_check: false}}
  - {{name: qwen, address: "127.0.0.1:{backend.port}", health_check: false, structured_outputs: false}}
recording: {{directory: {directory}, {settings}}}
"""
        with configured_gateway(folder, configuration, backend, **options) as gateway:
            yield Recorded(gateway, backend, directory)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """Demands are asked for twice, and silence is soon too long."""
    folder = tmp_path_factory.mktemp("recording")
    with recording_gateway(
        folder, "files: 1000}\nlimits: {silence_seconds: 2", model=", retry: true, invalid_calls: error"
    ) as recorded:
        yield recorded


def received(document: Document, part: str) -> list[Any]:
    return [entry.what[part] for entry in document.entries if entry.kind is Kind.ENVOY and part in entry.what]


def streamed(document: Document) -> bytes:
    """What left for the client, piece by piece."""
    replies = [
        entry.what["response_body"]["response"]["body_mutation"]["streamed_response"]
        for entry in document.entries
        if entry.kind is Kind.PROCESSOR and "response_body" in entry.what
    ]
    return b"".join(bytes_from_json(reply.get("body", "")) for reply in replies)


def assert_the_same_in_every_cut(document: Document) -> None:
    then = ReplayResult.recorded(document)
    for cut in CUTS:
        assert first_difference(then, replay(document, cut)) is None, cut


# What is in a file


def test_a_stream_is_recorded_on_all_four_sides(running: Recorded) -> None:
    answer, document = running.ask(Reply(CALL, pieces=3, wire_cut=41), stream=True)
    [asked] = received(document, "request_body")
    assert json.loads(asked["body"]) == asking(stream=True)
    [forwarded] = [entry.what["request_body"] for entry in document.entries if "request_body" in entry.what][1:]
    assert forwarded["response"]["body_mutation"]["body"].encode() == running.backend.requests[-1].body
    raw = b"".join(bytes_from_json(body.get("body", "")) for body in received(document, "response_body"))
    assert raw.startswith(b"data: {")
    assert MODEL in raw.decode(), "the backend's own words"
    assert raw.endswith(b"data: [DONE]\n\n")
    assert streamed(document) == answer.content
    assert b'"tool_calls"' in answer.content
    times = [entry.at for entry in document.entries]
    assert times == sorted(times)
    assert document.finished
    assert document.notes == ()
    assert_the_same_in_every_cut(document)


def test_a_whole_answer_is_recorded(running: Recorded) -> None:
    answer, document = running.ask(Reply(CALL))
    [reply] = [entry.what for entry in document.entries if entry.what.get("response_body", {}).get("response")]
    assert reply["response_body"]["response"]["body_mutation"]["body"].encode() == answer.content
    assert_the_same_in_every_cut(document)


MESSAGES = {"max_tokens": 99, "tools": [{"name": "get_weather", "input_schema": {"type": "object"}}]}
RESPONSES = {"tools": [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}]}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", {**MESSAGES, "messages": [{"role": "user", "content": "Wetter?"}]}),
        ("/v1/responses", {**RESPONSES, "input": "Wetter?"}),
    ],
    ids=["messages", "responses"],
)
def test_the_other_dialects_are_recorded_whose_ids_are_random_too(
    running: Recorded, path: str, body: dict[str, Any], stream: bool
) -> None:
    running.backend.play(Reply(CALL * 2))
    before = len(running.files())
    answer = running.gateway.http.post(path, json={"model": "coder", "stream": stream, **body})
    assert answer.text.count("get_weather") >= 2
    assert_the_same_in_every_cut(Document.read(running.next_file(before).read_bytes()))


@pytest.mark.parametrize("stream", [True, False])
def test_a_second_try_is_recorded_with_its_answer(running: Recorded, stream: bool) -> None:
    running.backend.play(Reply("I would rather not."))
    answer, document = running.ask(Reply(CALL), stream=stream, tool_choice="required")
    assert "get_weather" in answer.text
    [asked] = [entry.what for entry in document.entries if entry.kind is Kind.ASKED]
    assert asked["backend"] == "qwen"
    assert asked["body"].encode() == running.backend.requests[-1].body
    [said] = [entry.what for entry in document.entries if entry.kind is Kind.SAID]
    assert said["status"] == 200
    assert said["body"].startswith("data: {" if stream else '{"id"')
    assert_the_same_in_every_cut(document)


def test_a_second_try_that_nobody_answers_is_recorded_as_such(running: Recorded) -> None:
    running.backend.play(Reply("I would rather not."))
    answer, document = running.ask(Reply(trouble=HangUp(0)), tool_choice="required")
    assert answer.status_code == 502
    [said] = [entry.what for entry in document.entries if entry.kind is Kind.SAID]
    assert said == {"status": 0, "body": ""}
    assert_the_same_in_every_cut(document)


def test_a_silence_is_recorded(running: Recorded) -> None:
    answer, document = running.ask(Reply("One word after the other", trouble=Stall(after=3)), stream=True)
    assert "for 2 seconds" in answer.text
    assert [entry.what for entry in document.entries if entry.kind is Kind.IDLE_TIMEOUT] == [{}]
    assert document.finished
    assert_the_same_in_every_cut(document)


def test_errors_of_both_sides_are_recorded(running: Recorded) -> None:
    answer, document = running.ask(Reply(trouble=Fail(503, retry_after=7)))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
    assert_the_same_in_every_cut(document)
    answer, document = running.ask(messages=[])
    assert answer.status_code == 400
    assert document.entries[-1].what["immediate_response"]["body"].encode() == answer.content
    assert_the_same_in_every_cut(document)
    answer, document = running.ask(model="coder-2")
    assert answer.status_code == 404
    assert_the_same_in_every_cut(document)


def test_an_answer_that_passes_by_is_not_there_and_the_file_says_so(running: Recorded) -> None:
    _, document = running.ask(Reply("Hello!"), tools=None)
    assert received(document, "response_headers")
    assert received(document, "response_body") == []
    assert "The answer went past the processor" in document.notes[0]
    assert_the_same_in_every_cut(document)


def test_a_stream_that_its_client_leaves_is_recorded_as_far_as_it_came(running: Recorded) -> None:
    before = len(running.files())
    running.backend.play(Reply("word " * 1000, pieces=5, pace=0.05))
    with running.gateway.http.stream("POST", CHAT, json=asking(stream=True)) as answer:
        lines = answer.iter_lines()
        while "word" not in next(lines):
            pass
    document = Document.read(running.next_file(before).read_bytes())
    assert not document.finished
    assert "Envoy ended the exchange before the answer" in document.notes[0]
    assert_the_same_in_every_cut(document)


def test_a_client_that_leaves_at_the_last_event_has_a_whole_recording(running: Recorded) -> None:
    before = len(running.files())
    running.backend.play(Reply(CALL, trouble=Stall(after=1_000, seconds=20)))
    with running.gateway.http.stream("POST", CHAT, json=asking(stream=True)) as answer:
        assert "data: [DONE]" in answer.iter_lines()
    document = Document.read(running.next_file(before).read_bytes())
    assert document.finished
    assert document.notes == ()
    summary = Summary("1-1", document.began)
    for kept in kept_of(document):
        summary.take(kept)
    summary.ended(complete=True)
    assert summary.state == "called"
    assert_the_same_in_every_cut(document)


# What is not


def test_secrets_and_addresses_are_left_out_and_the_file_says_what_is_not(tmp_path: Path) -> None:
    keys, key = tmp_path / "keys", tmp_path / "key"
    keys.write_text(hash_line("alice-in-accounting", "sk-client-0123456789"))
    key.write_text("sk-backend-0123456789\n")
    backend, folder = AskedVLLM(model=MODEL), tmp_path / "gateway"
    folder.mkdir()
    configuration = f"""
api_keys: {keys}
models: [{{name: coder, backend: qwen, upstream_model: {MODEL}, tools: prompt}}]
backends: [{{name: qwen, address: "127.0.0.1:{{port}}", api_key: {key}, health_check: false}}]
recording: {{directory: {folder / "recordings"}}}
"""
    with (
        backend.running(),
        configured_gateway(folder, configuration.replace("{port}", str(backend.port)), backend) as gateway,
    ):
        recorded = Recorded(gateway, backend, folder / "recordings")
        secrets = {
            "authorization": "Bearer sk-client-0123456789",
            "x-api-key": "sk-second-0123456789",
            "cookie": "session=0123456789",
            "x-forwarded-for": "192.0.2.7",
            "x-of-some-proxy": "internal-0123456789",
        }
        assert gateway.http.post(f"{CHAT}?key=sk-query-0123456789", json=asking(), headers=secrets).is_success
        path = recorded.next_file(0)
        addresses = ("192.0.2.7", f"127.0.0.1:{backend.port}", gateway.url.removeprefix("http://"))
    content = path.read_text()
    for secret in ("0123456789", "alice-in-accounting", str(key), *addresses):
        assert secret not in content
    for name in secrets:
        assert f'["{name}","(removed)"]' in content, "it is no secret that it was there"
    assert "Wetter in Zürich?" in content
    assert json.loads(content)["notice"] == NOTICE
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert_the_same_in_every_cut(Document.read(path.read_bytes()))


def test_the_address_of_a_backend_that_nobody_reaches_is_left_out_too(tmp_path: Path) -> None:
    with recording_gateway(tmp_path) as recorded:
        answer, document = recorded.ask(model="absent")
    assert answer.status_code == 503
    assert "127.0.0.1" not in answer.text
    assert "127.0.0.1" not in document.written().decode()
    assert "No connection to the backend 'absent'" in document.written().decode()
    assert_the_same_in_every_cut(document)


@pytest.mark.parametrize(
    ("said", "recorded"),
    [
        ("at gpu-7.example.org:8000.", "at backend.invalid:80."),
        ("at 10.1.2.3:8000: refused", "at backend.invalid:80: refused"),
        ("at [fd00::7]:8000", "at backend.invalid:80"),
        ("at vllm:8001", "at backend.invalid:80"),
        ("gpu-7.example.org, 192.0.2.9", "backend.invalid, backend.invalid"),
        ({"base64": "/2dwdS03LmV4YW1wbGUub3Jn"}, {"base64": "/2JhY2tlbmQuaW52YWxpZA=="}),
        ([{"gpu-7.example.org": ["192.0.2.9"]}], [{"gpu-7.example.org": ["backend.invalid"]}]),
        ("vllm says 127.0.0.1", None),
        (r'{"error": "refused:\n10.1.2.3:8000"}', r'{"error": "refused:\nbackend.invalid:80"}'),
        ("10.1.2.3:80001, 10.1.2.3:80, 1192.0.2.9, gpu-7.example.organ", None),
    ],
)
def test_addresses_are_found_in_whatever_is_said(said: Any, recorded: Any) -> None:
    config = parse(
        "models: [{name: coder, backend: qwen, tools: prompt}]\n"
        "backends:\n"
        "  - {name: qwen, address: ['gpu-7.example.org:8000', 'vllm:8001', '192.0.2.9:8000', '127.0.0.1:8000']}\n"
    )
    assert without_addresses(said, addresses_of(config)) == (said if recorded is None else recorded)


def test_every_setting_of_a_backend_is_known_to_be_harmless_or_left_out() -> None:
    assert set(Backend.model_fields) == KEPT_BACKEND | REMOVED_BACKEND
    assert not KEPT_BACKEND & REMOVED_BACKEND


# When there is none


def test_other_requests_are_not_recorded(running: Recorded) -> None:
    before = len(running.files())
    assert running.gateway.http.get("/v1/models").is_success
    assert running.gateway.http.post("/tokenize", json={"model": MODEL, "prompt": "Hello"}).status_code
    running.ask(Reply("Hello!"))
    assert len(running.files()) == before + 1, "they ended before it"


def test_it_stops_at_so_many_files(tmp_path: Path) -> None:
    with recording_gateway(tmp_path, "files: 2") as recorded:
        for _ in range(2):
            recorded.ask(Reply("Hello!"))
        for _ in range(AT_ONCE + 1):
            assert recorded.gateway.chat("coder").is_success
    assert len(recorded.files()) == 2, "the processor has ended, and would have written them"


def test_one_model_can_be_recorded_alone(tmp_path: Path) -> None:
    with recording_gateway(tmp_path, "model: other") as recorded:
        for _ in range(AT_ONCE + 1):  # what isn't written leaves room for others
            assert recorded.gateway.chat("coder").is_success
        assert recorded.gateway.http.post(CHAT, json=asking(messages=[])).status_code == 400
        recorded.ask(Reply("Hello!"), model="other")
    [path] = recorded.files()
    assert [model["name"] for model in Document.read(path.read_bytes()).settings["models"]] == ["other"]


def test_a_model_to_record_has_to_be_one_of_the_models() -> None:
    with pytest.raises(ConfigError, match=r":4: recording\.model: no model is named 'quen'"):
        parse(
            "models: [{name: qwen, backend: b, tools: prompt}]\n"
            "backends: [{name: b, address: 'h:1'}]\n"
            "recording:\n  {model: quen, directory: /tmp/recordings}\n"
        )


def test_it_is_switched_on_and_off_by_a_change_of_the_configuration(tmp_path: Path) -> None:
    with recording_gateway(tmp_path, live=True) as recorded:
        _, document = recorded.ask(Reply("Hello!"))
        assert document.finished
        config = tmp_path / "extproc.yaml"
        on = config.read_text()
        take(recorded.gateway, config, on[: on.index("recording:")])
        assert recorded.gateway.chat("coder").is_success
        take(recorded.gateway, config, on)
        recorded.ask(Reply("Hello!"))
    assert len(recorded.files()) == 2


def take(gateway: Gateway, config: Path, text: str) -> None:
    """Change the configuration, and wait until it is in force."""
    sample = 'extproc_config_reloads_total{result="ok"}'
    before = gateway.metric(sample)
    config.write_text(text)
    wait_until(lambda: gateway.metric(sample) > before)


def test_what_can_not_be_written_disturbs_nobody_and_is_told_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "recordings").write_text("no directory")
    with recording_gateway(tmp_path) as recorded:
        for _ in range(AT_ONCE + 2):
            assert recorded.gateway.chat("coder").is_success
    said = capfd.readouterr().err
    assert said.count("exchanges can't be recorded into") == 1
    assert "Not a directory" in said or "File exists" in said


def test_a_directory_that_can_not_even_be_looked_at_disturbs_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, context, telemetry = began(tmp_path / ("x" * 300))
    for _ in range(2):
        assert type(begin(recorder, context, telemetry, b"{}")).receive is not None
    assert caplog.text.count("exchanges can't be recorded into") == 1


# Bounds, at an exchange of its own


def began(directory: Path, **settings: Any) -> tuple[Recorder, ExchangeContext, Telemetry]:
    config = parse(
        "models: [{name: coder, backend: qwen, tools: prompt}]\nbackends: [{name: qwen, address: 'h:1'}]\n"
        "limits: {max_body_bytes: 100000000}\n"
    )
    return Recorder(Recording(directory=directory, **settings)), ExchangeContext(config), Telemetry(config)


def begin(recorder: Recorder, context: ExchangeContext, telemetry: Telemetry, body: bytes) -> Inputs:
    exchange = recorder.record(Exchange(context, telemetry))
    fields = {":method": "POST", ":path": CHAT, "x-request-id": "../../etc/passwd", "content-length": str(len(body))}
    headers = HeaderMap(headers=[HeaderValue(key=key, raw_value=value.encode()) for key, value in fields.items()])
    exchange.receive(ProcessingRequest(request_headers=HttpHeaders(headers=headers)))
    exchange.receive(ProcessingRequest(request_body=HttpBody(body=body, end_of_stream=True)))
    return exchange


def test_an_exchange_that_is_too_large_is_recorded_as_far_as_there_is_room(tmp_path: Path) -> None:
    begin(*began(tmp_path), json.dumps(asking(user="x" * MOST_BYTES)).encode()).close()
    wait_until(lambda: list(tmp_path.glob("*.json")))
    [path] = tmp_path.glob("*.json")
    document = Document.read(path.read_bytes())
    assert path.stat().st_size < 5000
    assert "too large to be recorded whole" in document.notes[0]
    with pytest.raises(RecordingError, match="there is no request in it"):
        replay(document)
    assert [list(entry.what) for entry in document.entries] == [
        ["request_headers"],
        ["request_headers", "mode_override"],
    ]


def test_a_files_name_is_not_made_by_a_client(tmp_path: Path) -> None:
    begin(*began(tmp_path), json.dumps(asking()).encode()).close()
    wait_until(lambda: list(tmp_path.glob("*.json")))
    [path] = tmp_path.iterdir()
    assert path.name.endswith("Z-etcpasswd.json")


def test_more_exchanges_at_a_time_than_there_is_room_for_are_not_recorded(tmp_path: Path) -> None:
    recorder, context, telemetry = began(tmp_path)
    body = json.dumps(asking()).encode()
    exchanges = [begin(recorder, context, telemetry, body) for _ in range(AT_ONCE + 3)]
    for exchange in exchanges:
        exchange.close()
    wait_until(lambda: len(list(tmp_path.glob("*.json"))) == AT_ONCE)
    begin(recorder, context, telemetry, body).close()
    wait_until(lambda: len(list(tmp_path.glob("*.json"))) == AT_ONCE + 1)


def test_what_is_of_no_interest_leaves_its_room_at_once(tmp_path: Path) -> None:
    recorder, _, telemetry = began(tmp_path, model="other")
    context = ExchangeContext(
        parse(
            "models: [{name: coder, backend: qwen, tools: prompt}, {name: other, backend: qwen, tools: prompt}]\n"
            "backends: [{name: qwen, address: 'h:1'}]\n"
        )
    )
    running = [begin(recorder, context, telemetry, json.dumps(asking()).encode()) for _ in range(AT_ONCE)]
    begin(recorder, context, telemetry, json.dumps(asking(model="other")).encode()).close()
    wait_until(lambda: list(tmp_path.glob("*.json")))
    for exchange in running:
        exchange.close()
    others = range(AT_ONCE - 1)  # the first one's file may be there before it has left its room
    again = [begin(recorder, context, telemetry, json.dumps(asking(model="other")).encode()) for _ in others]
    for exchange in again:
        exchange.close()
    wait_until(lambda: len(list(tmp_path.glob("*.json"))) == AT_ONCE)


def test_that_there_is_no_room_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder, context, telemetry = began(tmp_path)
    exchanges = [recorder.record(Exchange(context, telemetry)) for _ in range(AT_ONCE + 3)]
    assert caplog.text.count("8 exchanges are recorded at a time") == 1
    for exchange in exchanges:
        exchange.close()


def test_of_a_file_that_can_not_be_written_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "recording.json"
    path.mkdir()  # which no file can replace
    with pytest.raises(IsADirectoryError):
        store.write_whole(path, b"{}")
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_processor_left_behind_is_removed(tmp_path: Path) -> None:
    left, writing = tmp_path / "left.part", tmp_path / "writing.part"
    for part in (left, writing):
        part.write_text("half")
    os.utime(left, (0, 0))
    began(tmp_path)
    assert list(tmp_path.iterdir()) == [writing], "another processor may have begun it just now"


def test_a_directory_that_is_full_is_told_of_before_any_request_and_looked_at_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text("{}")
    recorder, context, telemetry = began(tmp_path, files=2)
    assert f"{tmp_path} holds 2 recordings, so no more are made" in caplog.text
    assert type(recorder.record(Exchange(context, telemetry))) is Exchange
    (tmp_path / "one.json").unlink()
    monkeypatch.setattr(store, "RECOUNTED", 0)
    wait_until(lambda: type(recorder.record(Exchange(context, telemetry))) is not Exchange)


def test_no_file_is_written_over_another(tmp_path: Path) -> None:
    _, context, _ = began(tmp_path)
    ended = store.Ended(context.config, datetime.now(UTC), complete=True, kept=())
    there = store.RecordingStore(Recording(directory=tmp_path))
    for _ in range(3):
        there.put(ended).result()
    assert len(list(tmp_path.glob("*Z-unnamed*.json"))) == 3


def test_without_the_setting_an_exchange_is_a_plain_one() -> None:
    _, context, telemetry = began(Path("/nowhere"))
    assert type(Recorder().record(Exchange(context, telemetry))) is Exchange
