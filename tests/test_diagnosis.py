"""Planted faults, each found by its cause; and healthy answers, in which nothing is found."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from extproc.corpus import load
from extproc.corpus.rows import Row
from extproc.diagnosis import CAUSES, Finding
from extproc.diagnosis.diagnosing import diagnose
from extproc.names import REPLY_HEADER
from extproc.recording.document import Document, Entry, Kind
from extproc.recording.envoy_json import as_json
from extproc.recording.replay import replay
from extproc.wire import ProcessingRequest
from tests.test_cli import run
from tests.test_exchange import CHAT, request_body, request_headers, response_body, response_headers

ROOT = Path(__file__).parents[1]
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json"}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
ASKED: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "tools": [WEATHER],
    "stream": True,
}


def recorded(
    body: Mapping[str, Any] | bytes = ASKED,
    *messages: ProcessingRequest,
    model: str = "tools: prompt",
    backend: str = "",
    silent: bool = False,
    path: str = "/v1/chat/completions",
) -> Document:
    """What would be recorded of this exchange: the messages are Envoy's, the rest is done by the gateway's own code."""
    fields = dict(part.split(": ") for part in f"name: m, backend: b, {model}".split(", "))
    of_backend = dict(part.split(": ") for part in backend.split(", ") if part)
    bounds = {name: json.loads(value) for name, value in of_backend.items()}
    settings = {
        "models": [
            {name: json.loads(value) if value in ("true", "false") else value for name, value in fields.items()}
        ],
        "backends": [{"name": "b", "address": "backend.invalid:80", **bounds}],
    }
    sent = body if isinstance(body, bytes) else orjson.dumps(body)
    asked = ProcessingRequest(request_body=request_body({}).request_body)
    asked.request_body.body = sent
    entries = [
        Entry(float(at), Kind.ENVOY, as_json(message))
        for at, message in enumerate([request_headers({**CHAT, ":path": path}), asked, *messages])
    ]
    if silent:
        entries.append(Entry(99.0, Kind.IDLE_TIMEOUT, {}))
    document = Document("0.1.0", f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", True, settings, tuple(entries))
    return Document(document.extproc, document.began, True, settings, replay(document).entries)


def chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + orjson.dumps({**head, "choices": [choice]}) + b"\n\n"


def usage(prompt: int = 400, completion: int = 20) -> bytes:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + orjson.dumps({**head, "choices": [], "usage": counts}) + b"\n\n"


def stream(
    text: str, reason: str | None = "stop", counted: bytes = usage(), *deltas: Mapping[str, Any]
) -> list[ProcessingRequest]:
    """What a backend streams that writes this."""
    chunks = [chunk({"role": "assistant", "content": ""}), *(chunk(delta) for delta in deltas)]
    chunks += [chunk({"content": piece}) for piece in re.findall(rf"(?s).{{1,{max(7, len(text) // 50)}}}", text)]
    if reason is not None:
        chunks += [chunk({}, reason), counted, b"data: [DONE]\n\n"]
    last = [] if reason is None else [response_body(b"", end_of_stream=True)]
    return [response_headers(EVENTS), *(response_body(piece, end_of_stream=False) for piece in chunks), *last]


def failed(status: int, message: str) -> list[ProcessingRequest]:
    body = orjson.dumps({"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}})
    return [response_headers(JSON, status=status), response_body(body, end_of_stream=True)]


def kept_back(status: int, code: str) -> list[ProcessingRequest]:
    """By Envoy, behind the processor."""
    error = {"message": "A limit of the gateway is reached.", "type": "tokens", "param": None, "code": code}
    head = response_headers({**JSON, REPLY_HEADER: code}, status=status)
    return [head, response_body(orjson.dumps({"error": error}), end_of_stream=True)]


def with_history(*calls: str) -> dict[str, Any]:
    messages = list(ASKED["messages"])
    for number, arguments in enumerate(calls):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "18 degrees"},
        ]
    return {**ASKED, "messages": messages}


TEMPLATE = "tools: template"
BAD_SCHEMA = {**WEATHER, "function": {**WEATHER["function"], "parameters": {"type": "objekt"}}}
PLANTED: dict[str, Document] = {
    # The request goes to no backend.
    "unknown_model": recorded({**ASKED, "model": "gpt-4"}),
    "invalid_schema": recorded({**ASKED, "tools": [BAD_SCHEMA]}),
    "invalid_request": recorded({**ASKED, "messages": "hello"}),
    # The backend has none for it.
    "no_tool_parser": recorded(
        ASKED,
        *failed(400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        model="tools: native",
    ),
    "context_overflow": recorded(
        ASKED, *failed(400, "This model's maximum context length is 4096 tokens. However, ...")
    ),
    "backend_key_refused": recorded(ASKED, *failed(401, "Unauthorized")),
    "unknown_upstream_model": recorded(ASKED, *failed(404, "The model `m` does not exist.")),
    "backend_full": recorded(ASKED, *failed(429, "busy")),
    "limit_reached": recorded(ASKED, *kept_back(429, "rate_limit_exceeded")),
    "rate_limits_unavailable": recorded(ASKED, *kept_back(503, "rate_limits_unavailable")),
    "backend_away": recorded(ASKED, *failed(503, "upstream connect error")),
    "backend_error": recorded(ASKED, *failed(500, "CUDA error")),
    "backend_silent": recorded(ASKED, *stream("I wi", None), silent=True),
    "cut_stream": recorded(ASKED, *stream("I will look it u", None)),
    "left_early": recorded(ASKED, response_headers(EVENTS)),
    # It ends at its limit.
    "length_in_call": recorded(ASKED, *stream(CALL[:60], "length")),
    "length_in_thinking": recorded(
        ASKED, *stream("<think>The user wants to know", "length"), model=f"{TEMPLATE}, format: qwen3_coder"
    ),
    "length": recorded(ASKED, *stream("Once upon a time", "length")),
    # It isn't what was wanted.
    "missing_call": recorded(
        {**ASKED, "tool_choice": "required"}, *stream("I would rather not."), backend="structured_outputs: false"
    ),
    "tools_not_shown": recorded(
        {**ASKED, "tools": [WEATHER] * 1}, *stream("It is sunny.", "stop", usage(prompt=12)), model=TEMPLATE
    ),
    "unknown_tool": recorded(ASKED, *stream(CALL.replace("get_weather", "get_whether"))),
    "malformed_arguments": recorded(
        ASKED, *stream('<tool_call>\n{"name": "get_weather", "arguments": {"city" "Paris" oops}}\n</tool_call>')
    ),
    "invalid_arguments": recorded(ASKED, *stream(CALL.replace('"Paris"', '"Paris", "days": "two"'))),
    "unclosed_thinking": recorded(
        ASKED,
        *stream("I should say that it is sunny.", "stop"),
        model=f"{TEMPLATE}, thinking: open, format: qwen3_coder",
    ),
    "other_format": recorded(
        ASKED,
        *stream(
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"
        ),
        model=f"{TEMPLATE}, format: mistral",
    ),
    "stripped_markers": recorded(
        ASKED, *stream('functions.get_weather:0{"city": "Paris"}'), model=f"{TEMPLATE}, format: kimi_k2"
    ),
    "made_up_tool": recorded(ASKED, *stream('[{"name": "sqrt", "arguments": {"number": 144}}]')),
    "call_in_code": recorded(
        ASKED,
        *stream("```python\nresult = await get_weather(city)\nprint(result)\n```"),
        model=f"{TEMPLATE}, format: hermes",
    ),
    "call_as_prose": recorded(ASKED, *stream("I will call get_weather with the city of Paris.")),
    "many_tools": recorded(
        {
            **ASKED,
            "tools": [{**WEATHER, "function": {**WEATHER["function"], "name": f"tool_{n}"}} for n in range(50)],
        },
        *stream("It is sunny."),
    ),
    "answered_in_words": recorded(ASKED, *stream("It is sunny.")),
    "empty_answer": recorded(ASKED, *stream("", "stop", usage(completion=1))),
    # The request itself.
    "repeated_call": recorded(with_history(*['{"city": "Paris"}'] * 3), *stream(CALL)),
    "no_tools_sent": recorded({**ASKED, "tools": []}, response_headers(EVENTS)),
    "tool_choice_none": recorded({**ASKED, "tool_choice": "none"}, *stream("It is sunny.")),
    "repaired_history": recorded(with_history("{'city': 'Paris'}"), *stream(CALL)),
    "dropped_parameters": recorded({**ASKED, "store": True, "zoo": 1}, *stream(CALL)),
}
ELSEWHERE = {"host_ignores_overrides", "request_too_large", "too_many_requests", "client_key_refused", "broke_off"}
"""Causes that depend on more than an exchange's own messages: held below."""


def causes(document: Document) -> list[str]:
    return [finding.cause for finding in diagnose(document)]


@pytest.mark.parametrize("cause", PLANTED)
def test_a_planted_fault_is_the_first_that_is_found(cause: str) -> None:
    found = diagnose(PLANTED[cause])
    assert found, "nothing is found"
    assert found[0].cause == cause, found
    assert found[0].shown_by


def test_every_cause_is_planted() -> None:
    assert PLANTED.keys() | ELSEWHERE == CAUSES.keys()


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("host_ignores_overrides", "host_ignores_overrides"),
        ("request_too_large", "request_too_large"),
        ("rate_limit_exceeded", "too_many_requests"),
        ("invalid_api_key", "client_key_refused"),
    ],
)
def test_what_the_gateway_refused_for_other_reasons_is_found_by_its_code(code: str, cause: str) -> None:
    document = recorded()
    reply = {"immediate_response": {"status": {"code": "BadRequest"}}, "dynamic_metadata": {"extproc": {"error": code}}}
    entries = [entry for entry in document.entries if entry.kind is Kind.ENVOY]
    [found, *_] = diagnose(_with(document, [*entries, Entry(9.0, Kind.PROCESSOR, reply)]))
    assert (found.cause, found.shown_by) == (cause, f"`{code}`")


def test_an_exchange_that_broke_off_is_a_bug_of_ours() -> None:
    document = recorded(ASKED, *stream("I wi", None))
    entries = [*document.entries, Entry(99.0, Kind.BROKE_OFF, {"exception": "KeyError"})]
    [found, *_] = diagnose(_with(document, entries))
    assert (found.cause, found.shown_by) == ("broke_off", "an exception of the type `KeyError`")


def _with(document: Document, entries: Sequence[Entry]) -> Document:
    return Document(document.extproc, document.began, True, document.settings, tuple(entries))


# What is said of it


def of(cause: str) -> Finding:
    return diagnose(PLANTED[cause])[0]


def test_the_format_that_a_model_writes_is_named() -> None:
    assert "`qwen3_coder`" in of("other_format").shown_by
    assert of("other_format").change == "Set `format: qwen3_coder` for this model; it is `mistral` now."


def test_the_tool_that_was_meant_is_named() -> None:
    assert "`get_weather`" in of("unknown_tool").shown_by


def test_where_structured_outputs_dont_bind_that_is_said() -> None:
    document = recorded({**ASKED, "tool_choice": "required"}, *stream("I would rather not."))
    [found, *_] = diagnose(document)
    assert found.cause == "missing_call"
    assert "whether it binds" in found.change


def test_what_was_said_is_quoted_apart_and_nowhere_else() -> None:
    secret = "sEcReT"
    for document in (
        recorded(ASKED, *stream(f"I will call get_weather for {secret}.")),
        recorded(ASKED, *stream(CALL.replace("get_weather", secret))),
        recorded(ASKED, *stream(CALL.replace('"Paris"', f'{{"{secret}": 1}}'))),
        recorded(
            ASKED, *stream(f'functions.get_weather:0{{"city": "{secret}"}}'), model=f"{TEMPLATE}, format: kimi_k2"
        ),
        recorded({**ASKED, "model": secret}),
        recorded(with_history(*[f'{{"city": "{secret}"}}'] * 3), *stream(CALL)),
    ):
        found = diagnose(document)
        assert found
        for finding in found:
            assert secret not in f"{finding.cause} {finding.shown_by} {finding.change}", finding


def test_native_calls_that_the_servers_parser_left_in_the_text_are_found() -> None:
    document = recorded(ASKED, *stream(CALL), model="tools: native, format: qwen3_coder")
    [found, *_] = diagnose(document)
    assert found.cause == "other_format"
    assert "repair: true" in found.change


@pytest.mark.parametrize("dialect", ["messages", "responses"])
def test_the_other_dialects_are_read_too(dialect: str) -> None:
    function = WEATHER["function"]
    if dialect == "messages":
        tools = [{"name": "get_weather", "input_schema": function["parameters"]}]
        body = {"model": "m", "max_tokens": 100, "messages": ASKED["messages"], "tools": tools, "stream": True}
        path = "/v1/messages"
    else:
        tools = [{"type": "function", "name": "get_weather", "parameters": function["parameters"]}]
        body = {"model": "m", "input": "What is the weather in Paris?", "tools": tools, "stream": True}
        path = "/v1/responses"
    told = recorded(body, *stream("I will call get_weather with the city of Paris."), path=path)
    assert causes(told) == ["call_as_prose"]
    assert causes(recorded(body, *stream(CALL), path=path)) == []


# Where all is well


def healthy(row: Row) -> Document:
    fields = {**ASKED, "tools": list(row.tools)}
    thinking = ", thinking: open" if row.prompt_opens_thinking else ""
    return recorded(fields, *stream(row.text), model=f"{TEMPLATE}, format: {row.format}{thinking}")


def test_nothing_is_found_in_an_answer_with_a_call() -> None:
    assert causes(recorded(ASKED, *stream(CALL))) == []


@pytest.mark.parametrize("text", ["According to get_weather, it has 18 degrees.", "It has 18 degrees."])
def test_nothing_is_found_in_what_is_said_of_a_result(text: str) -> None:
    assert causes(recorded(with_history('{"city": "Paris"}'), *stream(text))) == []


def test_nothing_is_found_in_well_formed_calls_of_any_format() -> None:
    rows = [row for row in load() if row.kind == "well_formed" and row.expected.calls and row.tools]
    assert len(rows) > 500
    found = {row.id: [finding.cause for finding in diagnose(healthy(row))] for row in rows[::25] if _fits(row)}
    assert {id_: causes for id_, causes in found.items() if causes} == {}


def _fits(row: Row) -> bool:
    """Whether its calls fit the schemas of its tools: some rows have values of other types on purpose."""
    from extproc.contract.arguments import ArgumentChecker
    from extproc.contract.json_array import tools_by_name

    checker = ArgumentChecker(tools_by_name([dict(tool) for tool in row.tools]))
    return not any(checker.violation(call.name, json.dumps(call.arguments)) for call in row.expected.calls)


def test_of_a_long_text_only_so_much_is_read() -> None:
    text = "I would use get_weather, and then look at the map. " * 4_000
    assert causes(recorded(ASKED, *stream(text))) == ["call_as_prose"]
    late = text + CALL.replace("<tool_call>", "[TOOL_CALLS]")
    assert causes(recorded(ASKED, *stream(late), model=f"{TEMPLATE}, format: qwen3_coder")) == ["call_as_prose"]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("I did some research on Paris.", "answered_in_words"),
        ("My researcher looked it up.", "answered_in_words"),
        ("I will search for Paris.", "call_as_prose"),
        ("`search`: Paris", "call_as_prose"),
        ("我会用search查一下巴黎的天气。", "call_as_prose"),
    ],
)
def test_a_tool_is_spoken_of_by_its_whole_name(text: str, cause: str) -> None:
    search = {**WEATHER, "function": {**WEATHER["function"], "name": "search"}}
    assert causes(recorded({**ASKED, "tools": [search]}, *stream(text))) == [cause]


def test_what_has_no_request_has_no_cause() -> None:
    document = recorded()
    assert diagnose(_with(document, document.entries[:1])) == []


# The page


def test_each_cause_goes_on_at_a_section_of_the_page() -> None:
    page = (ROOT / "docs" / "no-tool-calls.md").read_text()
    sections = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"(?m)^## (.+)$", page)
    }
    assert {cause.section for cause in CAUSES.values()} <= sections
    assert {f"`{name}`" for name in CAUSES} <= set(re.findall(r"`[a-z_]+`", page))


# The command


def test_the_command_says_what_is_wrong_and_what_to_change(tmp_path: Path) -> None:
    path = tmp_path / "exchange.json"
    path.write_bytes(PLANTED["other_format"].written())
    done = run("diagnose", path)
    assert done.stdout.splitlines()[:2] == [
        f"{path}:",
        "  warning: The model wrote calls in another format than the one that is looked for. (other_format)",
    ]
    assert "    change:   Set `format: qwen3_coder` for this model; it is `mistral` now." in done.stdout
    assert "<function=get_weather>" in done.stdout
    assert (done.stderr, done.status) == ("", 1)


def test_the_command_can_leave_out_what_was_said(tmp_path: Path) -> None:
    path = tmp_path / "exchange.json"
    path.write_bytes(PLANTED["other_format"].written())
    [line] = run("diagnose", path, "--json", "--without-quotes").stdout.splitlines()
    [finding] = json.loads(line)["findings"]
    assert (finding["cause"], finding["severity"]) == ("other_format", "warning")
    assert finding["page"] == "docs/no-tool-calls.md#the-call-shows-as-text"
    assert "quoted" not in finding
    assert "<function" not in line


def test_where_nothing_is_wrong_the_command_ends_well(tmp_path: Path) -> None:
    path = tmp_path / "exchange.json"
    path.write_bytes(recorded(ASKED, *stream(CALL)).written())
    done = run("diagnose", path)
    assert (done.stdout, done.status) == (f"{path}: nothing is found\n", 0)
    path.write_text("{}")
    assert run("diagnose", path).status == 1
