"""`extproc replay`: what it says of a recording, and what it makes of one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from extproc.recording.document import Document, Kind
from extproc.recording.envoy_json import as_json, bytes_as_json, bytes_from_json, from_json
from extproc.recording.replay import expecting, replay
from extproc.wire import ProcessingRequest, ProcessingResponse
from tests.test_cli import run
from tests.test_reports import REPORTS

PROMPT, TEMPLATE, NATIVE = (
    next(path for path in REPORTS if path.stem.startswith(f"{mode}-mode")) for mode in ("prompt", "template", "native")
)
[ABANDONED] = [path for path in REPORTS if path.stem == "abandoned-stream"]


def changed(path: Path, folder: Path, change: Callable[[Any], object]) -> Path:
    """A recording in which something else stands."""
    fields = json.loads(path.read_bytes())
    change(fields)
    copy = folder / "recording.json"
    copy.write_text(json.dumps(fields))
    return copy


def made_today(path: Path, folder: Path) -> Path:
    """The recording with the prompts of this very code, whose words may change without a fault."""
    document = Document.read(path.read_bytes())
    copy = folder / path.name
    copy.write_bytes(expecting(document, replay(document)).written())
    return copy


def replies(fields: Any) -> list[Any]:
    return [entry["processor"] for entry in fields["entries"] if "processor" in entry]


# The verdict


@pytest.mark.parametrize("cut", ["whole", "recorded", "1", "10000"])
def test_a_recording_of_the_same_code_is_the_same_in_every_cut(cut: str) -> None:
    done = run("replay", PROMPT, "--cut", cut)
    assert done.stdout == f"{PROMPT}: the same as recorded with extproc 0.1.0 (cut: {cut})\n"
    assert (done.stderr, done.status) == ("", 0)


def test_the_first_line_that_differs_is_shown(tmp_path: Path) -> None:
    def other_city(fields: Any) -> None:
        for reply in replies(fields):
            body = reply.get("response_body", {}).get("response", {}).get("body_mutation", {}).get("streamed_response")
            if body and "Ich" in body["body"]:
                body["body"] = body["body"].replace("Ich", "Du")

    done = run("replay", changed(PROMPT, tmp_path, other_city))
    verdict, place, recorded, now = done.stdout.splitlines()
    assert verdict.endswith("recording.json: not the same as recorded with extproc 0.1.0 (cut: recorded)")
    assert place.startswith("step 4, stream, stream, line ")
    assert recorded.startswith("  recorded  ")
    assert '"Du' in recorded
    assert now.startswith("  now       ")
    assert '"Ich' in now
    assert done.status == 1


def test_several_recordings_are_the_same_if_each_is(tmp_path: Path) -> None:
    recordings = [made_today(path, tmp_path) for path in REPORTS]
    done = run("replay", *recordings)
    assert done.stdout.count("the same as recorded") == len(recordings)
    assert done.status == 0
    other = changed(made_today(PROMPT, tmp_path), tmp_path, lambda fields: fields["entries"].pop())
    done = run("replay", other, *recordings)
    assert done.stdout.count(": the same as recorded") == len(recordings)
    assert done.status == 1
    assert run("replay", *REPORTS, "--save-test", "several").status == 2


def test_ids_that_are_made_at_random_are_no_difference_but_a_swap_of_them_is(tmp_path: Path) -> None:
    text = PROMPT.read_text()
    first, second = sorted({word for word in text.split('\\"') if word.startswith("call_")}, key=text.index)[:2]
    path = tmp_path / "recording.json"
    path.write_text(text.replace(first, "call_" + "x" * 24))
    assert run("replay", path).status == 0
    path.write_text(text.replace(first, second))
    assert run("replay", path).status == 1


def test_another_configuration_can_be_tried(tmp_path: Path) -> None:
    config = tmp_path / "extproc.yaml"
    config.write_text(
        "models: [{name: prompted, backend: qwen, upstream_model: other, tools: prompt}]\n"
        "backends: [{name: qwen, address: '127.0.0.1:1'}]\n"
    )
    done = run("replay", PROMPT, "--config", config)
    assert "step 2, request_body" in done.stdout
    assert '"model":"other"' in done.stdout
    assert done.status == 1
    config.write_text(config.read_text().replace("name: prompted", "name: nobody"))
    done = run("replay", PROMPT, "--config", config)
    assert "immediate_response" in done.stdout, "it is refused, so that Envoy sends nothing more"
    assert done.status == 1


def test_an_exchange_that_breaks_off_does_so_again_and_shows_where(tmp_path: Path) -> None:
    def answered_twice(fields: Any) -> None:
        entries = fields["entries"]
        [at] = [at for at, entry in enumerate(entries) if "response_headers" in entry.get("envoy", {})]
        entries[at + 2 :] = [entries[at], {"at": 99, "broke_off": {"exception": "ProtocolError"}}]

    path = changed(NATIVE, tmp_path, answered_twice)
    done = run("replay", path)
    assert "the same as recorded" in done.stdout
    assert "ProtocolError: got response_headers while waiting for response stream" in done.stderr
    assert "nothing a test could expect" in run("replay", path, "--save-test", "broken").stderr


def test_a_recording_that_is_only_a_beginning_is_compared_as_far_as_it_goes(tmp_path: Path) -> None:
    def beginning(fields: Any) -> None:
        fields["complete"] = False
        del fields["entries"][len(fields["entries"]) // 2 :]

    done = run("replay", changed(TEMPLATE, tmp_path, beginning))
    assert "too large to be recorded whole" in done.stdout
    assert done.stdout.endswith("(cut: recorded), as far as it goes: 3 of 3 steps\n")
    assert done.status == 0


def test_an_abandoned_exchange_is_compared_with_all_that_was_recorded(tmp_path: Path) -> None:
    assert run("replay", ABANDONED).status == 0

    def more(fields: Any) -> None:
        *_, piece = (reply["response_body"] for reply in replies(fields) if "response_body" in reply)
        piece["response"]["body_mutation"]["streamed_response"]["body"] = 'data: {"and": "more"}\n\n'

    done = run("replay", changed(ABANDONED, tmp_path, more))
    assert "not the same as recorded" in done.stdout
    assert done.status == 1

    def swallowed(fields: Any) -> None:
        """What is recorded now is nothing but what the code would have to send besides."""
        fields["entries"] = [entry for entry in fields["entries"] if "response_body" not in entry.get("envoy", {})]

    done = run("replay", changed(ABANDONED, tmp_path, swallowed))
    assert "not the same as recorded" in done.stdout
    assert "  now       (nothing)" in done.stdout
    assert done.status == 1


def test_the_requests_and_answers_are_shown_in_their_order() -> None:
    said = run("replay", NATIVE, "--show").stdout
    titles = [line for line in said.splitlines() if line.startswith("--- ")]
    assert titles[0] == "--- the client asked: POST /v1/chat/completions"
    assert titles[1] == "--- the backend qwen is asked"
    assert titles[2].startswith("--- it answered: 200 text/event-stream")
    assert titles[3] == "--- the client gets"
    assert len(titles) == 4
    assert said.count("data: [DONE]") == 2


def test_nothing_that_is_shown_commands_the_terminal(tmp_path: Path) -> None:
    def hostile(fields: Any) -> None:
        for entry in fields["entries"]:
            if "request_body" in entry.get("envoy", {}):
                asked = json.loads(entry["envoy"]["request_body"]["body"])
                asked["messages"].append({"role": "user", "content": "\ud800 \x1b[2J \x9b1m \x00\ttab"})
                entry["envoy"]["request_body"]["body"] = json.dumps(asked)
        fields["extproc"] = "\x1b]0;title\x07"

    done = run("replay", changed(PROMPT, tmp_path, hostile), "--show")
    assert done.stderr == ""
    assert r"\ud800 \u001b[2J \x9b1m \u0000\ttab" in done.stdout
    assert r"recorded with extproc \x1b]0;title\x07" in done.stdout
    assert not [character for character in done.stdout if ord(character) < 32 and character != "\n"]


def test_json_that_is_too_deep_is_shown_as_it_is(tmp_path: Path) -> None:
    def deep(fields: Any) -> None:
        for entry in fields["entries"]:
            if "request_body" in entry.get("envoy", {}):
                entry["envoy"]["request_body"]["body"] = "[" * 5000

    done = run("replay", changed(PROMPT, tmp_path, deep), "--show")
    assert "[" * 5000 in done.stdout
    assert done.stderr == ""


# What can't be replayed


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("hello", "not a recording: "),
        ("{}", "not a recording: it has no 'extproc_recording'"),
        ('{"extproc_recording": 2}', "a recording of version 2; this extproc reads version 1"),
        ('{"extproc_recording": 1}', "not a recording as this extproc knows them: KeyError('extproc')"),
    ],
)
def test_what_is_no_recording_is_told_in_one_line(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "recording.json"
    path.write_text(content)
    done = run("replay", path)
    assert done.stderr.startswith(f"extproc: {path}: {complaint}")
    assert (done.stderr.count("\n"), done.stdout, done.status) == (1, "", 1)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            lambda fields: fields["entries"][0].update(envoy={"request_header": {}}),
            "a message of Envoy's in it can't be",
        ),
        (lambda fields: fields["entries"][0]["envoy"].update(request_body={"body": 1}), "a message of Envoy's in it"),
        (lambda fields: fields["entries"].append({"at": 1, "said": {}}), "a backend's answer in it can't be read"),
        (lambda fields: replies(fields)[0].update(request_headers=1), "a reply of the processor's in it can't be read"),
        (lambda fields: replies(fields)[1].update(dynamic_metadata=[]), "a reply of the processor's in it can't"),
        (lambda fields: fields["entries"].append({"at": 1, "asked": {"body": ""}}), "of the processor's own in it"),
        (lambda fields: fields["entries"].append({"at": 1, "broke_off": {}}), "an exception in it can't be read"),
        (lambda fields: fields.update(complete="no"), "not a recording as this extproc knows them"),
        (lambda fields: fields.update(entries=[]), "there is no request in it, and so nothing to be played"),
        (lambda fields: fields["entries"].pop(2), "there is no request in it, and so nothing to be played"),
        (lambda fields: fields["entries"].append({"at": 1}), "not a recording as this extproc knows them"),
        (lambda fields: fields["settings"].update(models=[]), "its settings can't be used here"),
    ],
)
def test_a_damaged_recording_is_told_as_such(tmp_path: Path, change: Callable[[Any], object], complaint: str) -> None:
    done = run("replay", changed(PROMPT, tmp_path, change), NATIVE)
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert (done.stdout.count("the same as recorded"), done.status) == (1, 1), "the others are told of all the same"


def test_a_cut_is_a_word_or_a_number() -> None:
    assert run("replay", PROMPT, "--cut", "0").status == 2
    assert run("replay", PROMPT, "--cut", "often").status == 2


# A test made of it


def test_a_test_expects_what_comes_of_the_exchange_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a fault was fixed: what was recorded is wrong, and what comes now is right."""

    def other_city(fields: Any) -> None:
        for reply in replies(fields):
            if "response_body" in reply:
                reply["response_body"] = {"response": {}}

    path = changed(PROMPT, tmp_path, other_city)
    assert run("replay", path).status == 1
    monkeypatch.chdir(tmp_path)
    assert "--save-test works only in a checkout of the project" in run("replay", path, "--save-test", "fixed").stderr
    Path("tests/recordings").mkdir(parents=True)
    assert run("replay", path, "--save-test", "fixed").status == 0
    made = Path("tests/recordings/reports/fixed.json")
    assert run("replay", made).status == 0
    then, now = Document.read(PROMPT.read_bytes()), Document.read(made.read_bytes())
    assert [entry.kind for entry in now.entries] == [entry.kind for entry in then.entries]
    assert now.settings == then.settings
    assert "File exists" in run("replay", path, "--save-test", "fixed").stderr
    assert "a test's name may have only" in run("replay", path, "--save-test", "../fixed").stderr


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda fields: fields.update(complete=False), "it is only the beginning of an exchange"),
        (
            lambda fields: fields.update(entries=[each for each in fields["entries"] if "response" not in str(each)]),
            "the client gets no answer that would be seen",
        ),
    ],
)
def test_a_test_is_made_of_nothing_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], object], complaint: str
) -> None:
    path = changed(PROMPT, tmp_path, change)
    Path(tmp_path, "tests", "recordings").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    done = run("replay", path, "--save-test", "nothing")
    assert complaint in done.stderr
    assert done.status == 1
    assert not list(Path("tests/recordings").rglob("*.json"))


# The messages in it


def test_envoys_messages_come_back_as_they_were() -> None:
    for path in REPORTS:
        for entry in Document.read(path.read_bytes()).entries:
            if entry.kind not in (Kind.ENVOY, Kind.PROCESSOR):
                continue
            kind = ProcessingRequest if entry.kind is Kind.ENVOY else ProcessingResponse
            assert as_json(from_json(entry.what, kind)) == entry.what


@pytest.mark.parametrize("data", [b"", b"text", "Zürich".encode(), "Zürich".encode()[:2], b"\xff\x00"])
def test_bytes_are_text_where_they_are_one(data: bytes) -> None:
    written = bytes_as_json(data)
    assert bytes_from_json(json.loads(json.dumps(written))) == data
    assert isinstance(written, str) == (data.decode("utf-8", "ignore").encode() == data)
