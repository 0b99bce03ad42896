"""An exchange in four lanes: what the client asked, what the model was shown, what it wrote, what the client got."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extproc.recording.document import Document, Kind
from extproc.watch.curl import curl
from extproc.watch.lanes import Lanes, lanes
from extproc.watch.page import report
from extproc.watch.received import received
from extproc.watch.summary import Summary
from tests.gateway import curl as run_curl
from tests.test_reports import REPORTS
from tests.watch_stage import kept_of

DOCUMENTS = {path.stem: Document.read(path.read_bytes()) for path in REPORTS}


def of(name: str) -> Lanes:
    return lanes(DOCUMENTS[name])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_recording_has_its_lanes_at_every_step(name: str) -> None:
    document = DOCUMENTS[name]
    for length in range(len(document.entries) + 1):
        so_far = lanes(replace(document, entries=document.entries[:length]), ended=False)
        json.dumps(so_far.as_json())
    assert so_far.asked == of(name).asked
    summary = Summary("1-1", "2026-01-31T12:00:00.000+00:00")
    for kept in kept_of(document):
        summary.take(kept)
    summary.ended(complete=document.complete)
    json.dumps(summary.as_json())
    assert summary.state != "running"


def test_a_stream_in_prompt_mode() -> None:
    made = of("stream-in-many-pieces")
    assert (made.method, made.path, made.mode, made.format) == ("POST", "/v1/chat/completions", "prompt", "hermes")
    assert made.asked["tools"]
    assert not made.same
    assert "tools" not in made.shown
    assert "get_weather" in made.shown["messages"][0]["content"]
    [written] = made.written
    assert [call.name for call in written.calls] == ["get_weather", "get_weather"]
    assert written.text.startswith("Ich sehe nach. <tool_call>")
    assert written.pieces[-1][0] == len(written.text)
    assert written.finish_reason == "stop"
    assert made.received is not None
    assert [(item.kind, item.name) for item in made.received.items] == [
        ("content", ""),
        ("call", "get_weather"),
        ("call", "get_weather"),
    ]
    assert [item.text for item in made.received.items if item.kind == "call"] == [
        call.arguments for call in written.calls
    ]
    assert made.received.finish_reason == "tool_calls"
    timing = made.timing
    assert timing.asked is not None
    assert timing.asked <= timing.forwarded <= timing.head <= timing.first <= timing.last <= timing.end  # type: ignore[operator]


def test_native_calls_are_the_backends_own() -> None:
    made = of("native-mode-repaired")
    [written] = made.written
    assert [(span.kind, span.text) for span in written.spans] == [
        ("name", "get_weather"),
        ("arguments", written.calls[0].arguments),
    ]
    assert written.calls[0].violation is None


def test_thinking_and_tagged_values() -> None:
    [written] = of("template-mode-after-thinking").written
    assert {span.kind for span in written.spans} == {"marker", "reasoning", "name", "arguments"}
    assert written.calls[0].name == "write_file"
    assert of("template-mode-after-thinking").received.items[0].kind == "reasoning"  # type: ignore[union-attr]


def test_a_second_try_has_a_lane_of_its_own_and_its_reason() -> None:
    made = of("second-try")
    assert made.written[0].violations == ["The request demands a call, and the model made none (missing_tool_call)."]
    assert made.retry is not None
    assert [call.name for call in made.retry.written[0].calls] == ["get_weather"]
    summary = Summary("1-1", "")
    for kept in kept_of(DOCUMENTS["second-try"]):
        summary.take(kept)
    summary.ended(complete=True)
    summary.read(made)
    assert summary.calls == ["get_weather"]
    assert summary.invalid_calls == 1


def test_an_error_of_the_backends() -> None:
    made = of("backend-error")
    assert made.received is not None
    assert made.received.status == 503
    assert [item.kind for item in made.received.items] == ["error"]
    assert made.written == []


def test_an_answer_that_was_left_is_told_as_such_and_its_open_call_is_no_fault() -> None:
    made = of("abandoned-stream")
    assert "Envoy ended the exchange before the answer" in made.notes[0]
    [written] = made.written
    assert written.calls[0].whole is False
    assert written.violations == []


def test_settings_of_another_version_are_told_and_the_rest_is_shown() -> None:
    document = replace(DOCUMENTS["whole-answer"], settings={"models": [], "from": "the future"})
    made = lanes(document)
    assert made.written == []
    assert "can't be read here" in made.notes[0]
    assert made.received is not None


def changed(document: Document, part: str, body: str) -> Document:
    """The recording with another body in its first message of this part."""
    entries = list(document.entries)
    at = next(at for at, entry in enumerate(entries) if part in entry.what and entry.kind is Kind.ENVOY)
    entries[at] = replace(entries[at], what={part: {**entries[at].what[part], "body": body}})
    return replace(document, entries=tuple(entries))


@pytest.mark.parametrize(
    "body", ["", "[]", "nonsense", '{"choices": 7}', '{"choices": [7, {"message": {"content": 3}}]}']
)
def test_whatever_a_backend_sends_is_no_trouble(body: str) -> None:
    lanes(changed(DOCUMENTS["whole-answer"], "response_body", body))
    lanes(changed(DOCUMENTS["whole-answer"], "request_body", body))


def test_a_violation_is_told_in_a_sentence() -> None:
    document = DOCUMENTS["whole-answer"]
    text = '<tool_call>\n{"name": "fetch", "arguments": {"a": 1}}\n</tool_call>'
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
    [written] = lanes(changed(document, "response_body", json.dumps(body))).written
    assert written.violations == ["The model called 'fetch', which is none of the tools it was offered."]
    assert written.calls[0].violation == written.violations[0]


# What the client got, in each dialect


def streamed(*events: dict[str, Any]) -> list[tuple[float, bytes]]:
    return [(float(at), f"data: {json.dumps(event)}\n\n".encode()) for at, event in enumerate(events)]


def test_messages_are_put_together() -> None:
    pieces = streamed(
        {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "see."}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        },
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
    )
    got = received(pieces, stream=True, status=200)
    assert [(item.kind, item.name, item.text) for item in got.items] == [
        ("content", "", "Let me see."),
        ("call", "f", '{"a":1}'),
    ]
    assert got.items[0].pieces == [(7, 2.0), (11, 3.0)]
    assert (got.finish_reason, got.events) == ("tool_use", 7)
    whole = {
        "type": "message",
        "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}],
        "stop_reason": "tool_use",
    }
    got = received([(0.0, json.dumps(whole).encode())], stream=False, status=200)
    assert [(item.kind, item.name, item.text) for item in got.items] == [("call", "f", '{"a":1}')]


def test_responses_are_put_together() -> None:
    pieces = streamed(
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning"}},
        {"type": "response.reasoning_text.delta", "output_index": 0, "delta": "Hm."},
        {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message"}},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "Yes."},
        {
            "type": "response.output_item.added",
            "output_index": 2,
            "item": {"type": "function_call", "name": "f", "call_id": "c"},
        },
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{}"},
        {"type": "response.completed", "response": {"status": "completed", "usage": {"output_tokens": 2}}},
    )
    got = received(pieces, stream=True, status=200)
    assert [(item.kind, item.name, item.text) for item in got.items] == [
        ("reasoning", "", "Hm."),
        ("content", "", "Yes."),
        ("call", "f", "{}"),
    ]
    assert got.finish_reason == "completed"


def test_errors_amid_a_stream_are_part_of_it() -> None:
    pieces = streamed(
        {"choices": [{"index": 0, "delta": {"content": "He"}}]},
        {"error": {"message": "gone", "code": "backend_timeout"}},
    )
    got = received(pieces, stream=True, status=200)
    assert [(item.kind, item.name, item.text) for item in got.items] == [
        ("content", "", "He"),
        ("error", "backend_timeout", "gone"),
    ]


# What can be taken along


def test_the_command_asks_the_same_and_has_no_key(gateway: Any) -> None:
    document = DOCUMENTS["whole-answer"]
    body = json.dumps(
        {"model": "coder", "messages": [{"role": "user", "content": "It's \"Zürich\", isn't it? $HOME `id`"}]}
    )
    command = curl(changed(document, "request_body", body), gateway.url)
    run_curl(command)
    assert (
        json.loads(gateway.backend.requests[-1].body)["messages"][0]["content"]
        == "It's \"Zürich\", isn't it? $HOME `id`"
    )


def test_a_key_becomes_a_variable_of_the_shell() -> None:
    document = DOCUMENTS["whole-answer"]
    first = document.entries[0]
    headers = [
        *first.what["request_headers"]["headers"],
        ["authorization", "(removed)"],
        ["anthropic-version", "2023-06-01"],
    ]
    document = replace(
        document, entries=(replace(first, what={"request_headers": {"headers": headers}}), *document.entries[1:])
    )
    command = curl(document, "http://127.0.0.1:10000")
    assert '-H "authorization: Bearer $API_KEY"' in command
    assert "(removed)" not in command


def test_a_report_ends_its_script_nowhere_but_at_its_end() -> None:
    hostile = "</script><script>alert(1)</script><!-- \u2028"
    made = report({"asked": hostile, "summary": {}}, f"extproc: {hostile}").decode()
    assert made.count("</script>") == 2
    assert "alert(1)" in made
    assert "<script>alert" not in made
    data = made.partition('id="exchange">')[2].partition("</script>")[0]
    assert json.loads(data)["asked"] == hostile
    assert "sha256-" in made
    assert "http://" not in made.replace("http://www.w3.org/2000/svg", ""), "it loads nothing"


PAGE = Path(__file__).parents[1] / "extproc" / "watch" / "page"


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    """As WCAG 2.2 defines it."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_can_be_read_on_its_ground(scheme: str) -> None:
    light, dark = re.findall(r":root \{(.*?)\}", (PAGE / "watch.css").read_text(), re.DOTALL)[:2]
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark))
    grounds = dict.fromkeys(("ink", "soft", "faint"), ("paper", "sheet", "raised"))
    grounds |= {name: ("paper", "sheet", f"{name}-soft") for name in colours if f"{name}-soft" in colours}
    for name, behind in grounds.items():
        for ground in behind:
            assert _contrast(colours[name], colours[ground]) >= 4.5, (name, ground)


def test_nothing_of_what_is_said_is_ever_markup() -> None:
    for script in PAGE.glob("*.js"):
        text = script.read_text()
        for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert danger not in text, (script.name, danger)
    assert "style=" not in (PAGE / "index.html").read_text(), "the policy would refuse it"
