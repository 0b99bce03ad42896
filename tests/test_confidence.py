"""A call of which the model is unsure is asked for once more (`min_confidence`): words or a better call take its
place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.config import ConfigError, parse
from extproc.exchange.effects import BackendResponse, CallBackend
from extproc.exchange.machine import Exchange
from extproc.exchange.phases import Phase
from extproc.prompts.wording import CALL_ONLY_IF_IT_HELPS
from extproc.surfaces import prepare, rewrite_completion, streamed_answer
from extproc.turn.confidence import MOST_TOKENS, Confidence
from scripted_vllm import Reply
from tests.gateway import MODEL, Gateway, gateway_with_backend
from tests.test_answer import CALL, completion, stream
from tests.test_exchange import EVENTS, JSON, asked, only, response_body, response_headers
from tests.test_exchange_reports import Counted
from tests.test_request import WEATHER
from tests.test_retry_of_made_up_calls import FREE, KINDS, WORDS, body_of, content

SURE, UNSURE = 0.99, 0.5
MADE_UP = CALL.replace("get_weather", "set_weather").replace("Zürich", "Bern")
SETTINGS = """
models:
  - {{name: coder, backend: qwen, upstream_model: {model}, tools: prompt, retry: true, min_confidence: 0.9}}
  - {{name: strict, backend: qwen, upstream_model: {model}, tools: template, retry: true, min_confidence: 0.9,
      invalid_calls: error}}
  - {{name: once, backend: qwen, upstream_model: {model}, tools: prompt, retry: true}}
backends:
  - {{name: qwen, address: "127.0.0.1:{port}", health_check: false}}
"""
CONFIG = parse(SETTINGS.format(model=MODEL, port=1), source="test")
PIECES = [CALL[at : at + 4] for at in range(0, len(CALL), 4)]


def logprobs(*probabilities: float) -> dict[str, Any]:
    """As vLLM tells them, where it is asked for no others."""
    return {
        "content": [{"token": "t", "logprob": log(each), "bytes": [116], "top_logprobs": []} for each in probabilities]
    }


def whole(text: str, probabilities: Sequence[float], finish_reason: str = "stop") -> bytes:
    body = orjson.loads(completion(text, finish_reason))
    body["choices"][0]["logprobs"] = logprobs(*probabilities)
    return orjson.dumps(body)


def streamed(pieces: list[str], probabilities: Sequence[Sequence[float]], finish_reason: str = "stop") -> bytes:
    """Each piece with the probabilities of its tokens."""
    first, *events = stream(pieces, finish_reason).split(b"\n\n")
    told = []
    for event, each in zip(events, probabilities, strict=False):
        chunk = orjson.loads(event.removeprefix(b"data: "))
        chunk["choices"][0]["logprobs"] = logprobs(*each)
        told.append(b"data: " + orjson.dumps(chunk))
    return b"\n\n".join([first, *told, *events[len(told) :]])


def answer_of(kind: dict[str, str], text: str, probability: float, finish_reason: str = "stop") -> bytes:
    """As many tokens as it has pieces: a few, so that all of it is read at once."""
    pieces = [text[at : at + 32] for at in range(0, len(text), 32)]
    if kind is JSON:
        return whole(text, [probability] * len(pieces), finish_reason)
    return streamed(pieces, [[probability]] * len(pieces), finish_reason)


def exchange_of(kind: dict[str, str], counted: Counted | None = None, **changes: Any) -> Exchange:
    fields = {**FREE, "stream": kind is EVENTS, **changes}
    exchange = asked(fields, counted.telemetry if counted is not None else None, CONFIG)
    exchange.receive(response_headers(kind))
    return exchange


class TestConfidence:
    def test_is_the_geometric_mean(self) -> None:
        confidence = Confidence(0.9)
        confidence.take(logprobs(1, 0.25))
        assert confidence.mean == pytest.approx(0.5)
        assert confidence.is_low

    def test_only_the_first_tokens_count(self) -> None:
        confidence = Confidence(0.9)
        confidence.take(logprobs(*[SURE] * MOST_TOKENS))
        assert confidence.is_complete
        confidence.take(logprobs(0.001))
        assert confidence.mean == pytest.approx(SURE)
        assert not confidence.is_low

    @pytest.mark.parametrize(
        "told",
        [
            None,
            {},
            [],
            "no",
            {"content": None},
            {"content": {}},
            {"content": [None, 1, [], {}, {"logprob": None}, {"logprob": "0"}, {"logprob": False}]},
            {"content": [{"logprob": value} for value in (1000.0, 0.1, -9999.0, float("-inf"), float("nan"))]},
        ],
    )
    def test_what_is_no_probability_says_nothing(self, told: Any) -> None:
        confidence = Confidence(0.9)
        confidence.take(told)
        assert confidence.mean is None
        assert not confidence.is_low
        confidence.take(logprobs(*[UNSURE] * MOST_TOKENS))
        assert confidence.is_low

    @given(st.lists(st.floats(0.01, 1), min_size=1, max_size=2 * MOST_TOKENS), st.data())
    def test_is_the_same_in_any_cut(self, probabilities: list[float], data: st.DataObject) -> None:
        at_once, cut = Confidence(0.9), Confidence(0.9)
        at_once.take(logprobs(*probabilities))
        left = probabilities
        while left:
            size = data.draw(st.integers(1, len(left)))
            cut.take(logprobs(*left[:size]))
            left = left[size:]
        assert cut.mean == pytest.approx(at_once.mean)


@KINDS
@pytest.mark.parametrize("model", ["coder", "strict"])
class TestExchange:
    def test_the_model_is_asked_whether_the_tool_helps(self, kind: dict[str, str], model: str) -> None:
        exchange = exchange_of(kind, model=model)
        *_, effect = exchange.receive(response_body(answer_of(kind, CALL, UNSURE)))
        assert isinstance(effect, CallBackend)
        body = orjson.loads(effect.body)
        assert "logprobs" not in body
        told = body["messages"][-1]["content"].rpartition("Your last answer was rejected: ")[2]
        assert told.startswith("The tool get_weather may not do what the user asks. Call one of the tools ")

    @pytest.mark.parametrize("second", [WORDS, CALL.replace("Zürich", "Bern")])
    def test_the_client_gets_the_second_answer(self, kind: dict[str, str], model: str, second: str) -> None:
        counted = Counted()
        exchange = exchange_of(kind, counted, model=model)
        exchange.receive(response_body(answer_of(kind, CALL, UNSURE)))
        reply = only(exchange.resume(BackendResponse(200, answer_of(kind, second, SURE))))
        body = body_of(reply, kind)
        assert "Züri".encode() not in body
        assert (b"Bern" in body) == (second != WORDS)
        assert b'"logprob"' not in body
        assert exchange.phase is Phase.ENDED
        numbers = counted.all()
        assert [count for name, count in numbers.items() if name.startswith("unsure_answers_total")] == [1]
        assert [count for name, count in numbers.items() if "helped" in name] == [1]

    @pytest.mark.parametrize(
        "second",
        [
            None,
            (503, b"no"),
            (200, b"nonsense"),
            "",
            MADE_UP,
            ("It is twel", "length"),
            f"The tool get_weather may not do what the user asks. {CALL_ONLY_IF_IT_HELPS}",
            CALL_ONLY_IF_IT_HELPS.replace("; otherwise", ". Otherwise").upper(),
            "The tool get_weather may not do what the user asks.",
        ],
        ids=[
            *("nothing", "an error", "nonsense", "empty", "a made-up call", "words, cut off"),
            *("what it was told", "that, a little otherwise", "why it was told"),
        ],
    )
    def test_no_better_answer_leaves_the_first(self, kind: dict[str, str], model: str, second: Any) -> None:
        counted = Counted()
        exchange = exchange_of(kind, counted, model=model)
        exchange.receive(response_body(answer_of(kind, CALL, UNSURE)))
        if isinstance(second, str):
            second = (200, answer_of(kind, second, SURE))
        elif isinstance(second, tuple) and isinstance(second[0], str):
            second = (200, answer_of(kind, second[0], SURE, second[1]))
        reply = only(exchange.resume(BackendResponse(*second) if second is not None else None))
        assert "Züri".encode() in body_of(reply, kind)
        assert exchange.phase is Phase.ENDED
        assert [count for name, count in counted.all().items() if "in_vain" in name] == [1]


@KINDS
@pytest.mark.parametrize(
    ("changes", "text", "probability", "finish_reason"),
    [
        ({}, CALL, SURE, "stop"),
        ({}, WORDS, UNSURE, "stop"),
        ({}, f"I look. {CALL}", UNSURE, "stop"),
        ({}, f"<think>Hm.</think>{CALL}", UNSURE, "stop"),
        ({}, CALL, UNSURE, "length"),
        ({"model": "once"}, CALL, UNSURE, "stop"),
    ],
    ids="sure,words,later,thought,cut off,off".split(","),
)
def test_otherwise_it_is_asked_once(
    kind: dict[str, str], changes: dict[str, Any], text: str, probability: float, finish_reason: str
) -> None:
    exchange = exchange_of(kind, **changes)
    only(exchange.receive(response_body(answer_of(kind, text, probability, finish_reason))))
    assert exchange.phase is Phase.ENDED


@KINDS
def test_a_backend_that_tells_no_probabilities_is_asked_once(kind: dict[str, str]) -> None:
    exchange = exchange_of(kind)
    only(exchange.receive(response_body(stream([CALL]) if kind is EVENTS else completion(CALL))))
    assert exchange.phase is Phase.ENDED


@pytest.mark.parametrize(
    ("probabilities", "at"),
    [
        ([[SURE]] * len(PIECES), "the finish"),
        ([[SURE] * MOST_TOKENS] * len(PIECES), "the name"),
        ([[SURE]] * (len(PIECES) - 2) + [[SURE] * (MOST_TOKENS - len(PIECES) + 2), [SURE]], "the 48th token"),
        ([[SURE]] * (len(PIECES) - 2) + [[SURE] * (MOST_TOKENS - len(PIECES) + 1), []], "the finish"),
        ([[UNSURE] * MOST_TOKENS] * len(PIECES), "never"),
        ([[]] * len(PIECES), "the name"),
    ],
    ids=["few", "many", "48", "47", "unsure", "none"],
)
def test_a_stream_is_held_until_enough_tokens_have_come(probabilities: list[list[float]], at: str) -> None:
    exchange = exchange_of(EVENTS)
    *events, _usage, _done, _ = streamed(PIECES, [*probabilities, []]).split(b"\n\n")
    left: list[int] = []
    for number, event in enumerate(events):
        replies = exchange.receive(response_body(event + b"\n\n", end_of_stream=False))
        left += [number for reply in replies if b"get_weather" in body_of(reply, EVENTS)]
    *_, effect = exchange.receive(response_body(b"data: [DONE]\n\n"))
    assert isinstance(effect, CallBackend) == (at == "never")
    named = next(number for number in range(len(PIECES)) if '"arguments": {' in "".join(PIECES[: number + 1]))
    # The first event is the role, the last one the finish.
    expected = {"the name": [named + 1], "the 48th token": [len(PIECES) - 1], "the finish": [len(events) - 1]}
    assert left == expected.get(at, [])


class TestLogprobs:
    """They are the gateway's own question, unless the client asks for them too."""

    def test_the_backend_is_asked_for_them(self) -> None:
        assert orjson.loads(prepare(orjson.dumps(FREE), CONFIG).body or b"")["logprobs"] is True

    @pytest.mark.parametrize(
        "changes",
        [{"model": "once"}, {"n": 2}, {"tool_choice": "required"}, {"response_format": {"type": "json_object"}}],
    )
    def test_not_where_nothing_follows_from_them(self, changes: dict[str, Any]) -> None:
        assert "logprobs" not in orjson.loads(prepare(orjson.dumps({**FREE, **changes}), CONFIG).body or b"")

    @KINDS
    @pytest.mark.parametrize("text", [WORDS, CALL])
    @pytest.mark.parametrize("wanted", [None, False, True])
    def test_the_client_gets_them_only_if_it_asks(self, kind: dict[str, str], text: str, wanted: bool | None) -> None:
        fields = {**FREE, "stream": kind is EVENTS, **({"logprobs": wanted} if wanted is not None else {})}
        spec = prepare(orjson.dumps(fields), CONFIG).answer
        assert spec is not None
        data = answer_of(kind, text, SURE)
        if kind is JSON:
            body = rewrite_completion(data, spec).body
        else:
            answer = streamed_answer(spec)
            body = answer.feed(data) + answer.close()
        told = b'"logprob"' in body
        assert told == (wanted is True and (text == WORDS or kind is JSON))

    @pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
    @pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
    def test_no_other_dialect_shows_them(self, path: str, *, streams: bool) -> None:
        function: Any = WEATHER["function"]
        name, schema = function["name"], function["parameters"]
        fields: dict[str, Any] = {"model": "coder", "stream": streams}
        if path == "/v1/messages":
            fields |= {"max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]}
            fields["tools"] = [{"name": name, "input_schema": schema}]
        else:
            fields |= {"input": "Hi", "tools": [{"type": "function", "name": name, "parameters": schema}]}
        prepared = prepare(orjson.dumps(fields), CONFIG, path)
        assert orjson.loads(prepared.body or b"")["logprobs"] is True
        assert prepared.answer is not None
        data = answer_of(EVENTS if streams else JSON, CALL, UNSURE)
        if streams:
            answer = streamed_answer(prepared.answer)
            body, tally = answer.feed(data) + answer.close(), answer.tally
        else:
            rewritten = rewrite_completion(data, prepared.answer)
            body, tally = rewritten.body, rewritten.tally
        assert b'"logprob"' not in body
        assert tally.unsure_of == "get_weather"

    @given(st.integers(1, 400), st.lists(st.floats(0.01, 1), min_size=len(PIECES), max_size=len(PIECES)))
    def test_a_stream_says_the_same_in_any_cut(self, size: int, probabilities: list[float]) -> None:
        spec = prepare(orjson.dumps({**FREE, "stream": True}), CONFIG).answer
        assert spec is not None
        data = streamed(PIECES, [[each] for each in probabilities])
        answer = streamed_answer(spec)
        for at in range(0, len(data), size):
            answer.feed(data[at : at + size])
        answer.close()
        mean = Confidence(0.9)
        mean.take(logprobs(*probabilities))
        assert answer.tally.confidence == pytest.approx(mean.mean)
        assert answer.tally.unsure_of == ("get_weather" if mean.is_low else None)

    def test_a_large_chunk_says_the_same(self) -> None:
        spec = prepare(orjson.dumps({**FREE, "stream": True}), CONFIG).answer
        assert spec is not None
        answer = streamed_answer(spec)
        body = answer.feed(streamed([CALL + " " * 9000, " "], [[UNSURE] * 5, [1] * 5])) + answer.close()
        assert answer.tally.confidence == pytest.approx(UNSURE**0.5)
        assert b'"logprob"' not in body

    def test_chunks_that_are_alike_show_none_either(self) -> None:
        """What was read once is passed on without being read again, where nothing has to change."""
        spec = prepare(orjson.dumps({**FREE, "stream": True}), CONFIG).answer
        assert spec is not None
        answer = streamed_answer(spec)
        odd = stream(["It"] * 9).replace(b'"logprobs":null', b'"logprobs":{"refusal":[0.5]}')
        assert odd.count(b"refusal") > 9
        body = b"".join(answer.feed(event + b"\n\n") for event in odd.split(b"\n\n")) + answer.close()
        assert b"refusal" not in body

    def test_a_call_of_a_tool_that_nobody_offered_is_none_to_be_sure_of(self) -> None:
        spec = prepare(orjson.dumps(FREE), CONFIG).answer
        assert spec is not None
        data = answer_of(JSON, CALL.replace("get_weather", "get_whether"), UNSURE)
        assert rewrite_completion(data, spec).tally.unsure_of is None


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("tools: prompt, min_confidence: 0.9", "retry"),
        ("tools: native, retry: true, min_confidence: 0.9", "native"),
        ("tools: prompt, retry: true, min_confidence: 1", "less than 1"),
        ("tools: prompt, retry: true, min_confidence: 0", "more than 0"),
    ],
)
def test_settings_that_can_do_nothing_are_refused(settings: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as raised:
        parse(f'{{models: [{{name: m, backend: b, {settings}}}], backends: [{{name: b, address: "127.0.0.1:1"}}]}}')
    assert "min_confidence" in str(raised.value)


SERVED = "{{{}models: [{{name: m, backend: b, min_confidence: 0.9, {}}}], backends: [{}]}}"
LLAMA_CPP = '{name: b, address: "127.0.0.1:1", server: llama.cpp}'


@pytest.mark.parametrize("tools", ["tools: template, retry: true", "tools: auto, retry: true"])
def test_a_server_that_tells_none_with_tools_isnt_asked_so(tools: str) -> None:
    with pytest.raises(ConfigError, match=r"models\[0\].min_confidence: .*llama.cpp tells no probabilities"):
        parse(SERVED.format("", tools, LLAMA_CPP))


@pytest.mark.parametrize(
    "tools", ["tools: prompt, retry: true", "tools: auto", "tools: auto, steering: {first: prompt}"]
)
def test_it_is_asked_where_its_prompt_has_no_tools(tools: str) -> None:
    parse(SERVED.format("", tools, LLAMA_CPP))


def test_what_is_withheld_cant_be_asked_for() -> None:
    backend = '{name: b, address: "127.0.0.1:1"}'
    with pytest.raises(ConfigError, match=r"min_confidence: .*`withheld` keeps them"):
        parse(SERVED.format("withheld: [logprobs], ", "tools: prompt, retry: true", backend))


def test_alternatives_that_nobody_sees_arent_asked_for() -> None:
    settings = "tools: prompt, retry: true, defaults: {logprobs: true, top_logprobs: 20}"
    config = parse(SERVED.format("", settings, '{name: b, address: "127.0.0.1:1"}'))
    body = orjson.loads(prepare(orjson.dumps({**FREE, "model": "m", "logprobs": False}), config).body or b"")
    assert body["logprobs"] is True
    assert "top_logprobs" not in body


@pytest.fixture(scope="module")
def module_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway_with_backend(tmp_path_factory.mktemp("gateway"), SETTINGS) as gateway:
        yield gateway


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_through_envoy_the_client_sees_words(module_gateway: Gateway, *, stream: bool) -> None:
    unsure = Reply(CALL, logprobs=logprobs(*[UNSURE] * 200)["content"])
    module_gateway.backend.forget()
    module_gateway.backend.play(unsure, Reply(WORDS))
    assert content(module_gateway, stream=stream) == WORDS
    assert [received.json.get("logprobs") for received in module_gateway.backend.requests] == [True, None]
