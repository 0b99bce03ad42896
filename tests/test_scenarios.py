"""Whole conversations: the official client asks, runs the tools that are called, and goes on until the model is done.

Each goes through a real Envoy and a real processor to a backend whose model writes its calls as text, in two formats
and two modes, and comes back whole or as a stream. What single requests and answers look like is tested elsewhere.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from bench import parallel_calls
from extproc.names import DROPPED_HEADER
from scripted_vllm import Reply, Usage
from tests.conversation import QUESTION, Client, Way, in_order, shown, tool
from tests.format_writers import WRITERS
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway

FORMATS = {writer.name: writer for writer in WRITERS}
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
ANSWER = "It is done."


WAYS = [
    Way(model, FORMATS[format_], stream)
    for model, format_ in (("prompted", "hermes"), ("templated", "qwen3_coder"))
    for stream in (False, True)
]
every_way = pytest.mark.parametrize(
    "way", WAYS, ids=[f"{way.model}-{'streamed' if way.stream else 'whole'}" for way in WAYS]
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    backend = AskedVLLM(model=MODEL, max_model_len=131_072)
    with backend.running():
        configuration = f"""
models:
  - {{name: prompted, backend: qwen, upstream_model: {MODEL}, tools: prompt, format: hermes}}
  - {{name: templated, backend: qwen, upstream_model: {MODEL}, tools: template, format: qwen3_coder,
     reasoning_content: true}}
  - {{name: unprompted, backend: free, upstream_model: {MODEL}, tools: prompt, format: hermes}}
  - {{name: untemplated, backend: free, upstream_model: {MODEL}, tools: template, format: qwen3_coder}}
  - {{name: coder, backend: qwen, upstream_model: {MODEL}, tools: prompt}}
  - {{name: {MODEL}, backend: qwen, tools: prompt}}
backends:
  - {{name: qwen, address: "127.0.0.1:{backend.port}", health_check: false}}
  - {{name: free, address: "127.0.0.1:{backend.port}", health_check: false, structured_outputs: false}}
"""
        with configured_gateway(tmp_path_factory.mktemp("scenarios"), configuration, backend) as gateway:
            yield gateway


@pytest.fixture
def gateway(running: Gateway) -> Gateway:
    running.backend.forget()
    return running


WEATHER = tool("get_weather", city=STRING)
STEP = tool("take_step", number=INTEGER)


@every_way
class TestCalls:
    def test_a_single_call(self, gateway: Gateway, way: Way) -> None:
        gateway.backend.play(way.says(("get_weather", {"city": "Zürich"})), way.says(before="18 degrees."))
        client = Client(gateway, way, WEATHER)
        assert client.work(lambda _, arguments: f"18 in {arguments['city']}") == "18 degrees."
        assert client.calls == [[("get_weather", {"city": "Zürich"})], []]
        assert client.reasons == ["tool_calls", "stop"]
        assert {completion.model for completion in client.completions} == {way.model}  # not the backend's name for it
        assert in_order(shown(gateway), QUESTION, "get_weather", "18 in Zürich")

    def test_parallel_calls_whose_results_come_back_in_another_order(self, gateway: Gateway, way: Way) -> None:
        cities = ["Paris", "Rome", "Oslo", "Bern"]
        gateway.backend.play(way.says(*(("get_weather", {"city": city}) for city in cities)), way.says(before=ANSWER))
        client = Client(gateway, way, WEATHER)
        calls = client.ask(parallel_tool_calls=True).tool_calls
        assert client.calls == [[("get_weather", {"city": city}) for city in cities]]
        assert len({call.id for call in calls}) == 4
        for call in (calls[2], calls[0], calls[3], calls[1]):
            client.tell(call, f"Fine in {json.loads(call.function.arguments)['city']}.")
        assert client.ask().content == ANSWER
        assert in_order(shown(gateway), *(f"Fine in {city}." for city in cities))

    @pytest.mark.parametrize("said", [{}, {"parallel_tool_calls": True}], ids=["by default", "on demand"])
    def test_parallel_calls_of_strict_tools(self, gateway: Gateway, way: Way, said: dict[str, bool]) -> None:
        calls = [("get_weather", {"city": city}) for city in ("Paris", "Rome")]
        gateway.backend.play(way.says(*calls), way.says(before=ANSWER))
        strict = tool("get_weather", city=STRING)
        strict["function"] |= {"strict": True}
        strict["function"]["parameters"] |= {"additionalProperties": False}
        client = Client(gateway, way, strict)
        assert client.work(lambda *_: "Fine.", **said) == ANSWER
        assert client.calls == [calls, []]
        grammar = json.loads(gateway.backend.requests[0].json["structured_outputs"]["structural_tag"])["format"]
        assert (grammar["type"], grammar["stop_after_first"]) == ("triggered_tags", False)

    def test_one_call_at_a_time_for_a_client_that_wants_it_so(self, gateway: Gateway, way: Way) -> None:
        paris, rome = (("get_weather", {"city": city}) for city in ("Paris", "Rome"))
        gateway.backend.play(way.says(paris, rome), way.says(rome), way.says(before=ANSWER))
        client = Client(gateway, way, WEATHER)
        assert client.work(lambda *_: "Fine.", parallel_tool_calls=False) == ANSWER
        assert client.calls == [[paris], [rome], []]

    def test_many_calls_one_after_the_other(self, gateway: Gateway, way: Way) -> None:
        steps = 60 if way.stream else 20
        turns = [("take_step", {"number": number}) for number in range(steps)]
        gateway.backend.play(*map(way.says, turns), way.says(before=ANSWER))
        client = Client(gateway, way, STEP)
        assert client.work(lambda _, arguments: f"Step {arguments['number']} taken.") == ANSWER
        assert client.calls == [*([turn] for turn in turns), []]
        assert len(set(client.ids)) == steps
        assert in_order(shown(gateway), *(f"Step {number} taken." for number in range(steps)))
        sent = [request.json["messages"] for request in gateway.backend.requests]
        for earlier, later in itertools.pairwise(sent):
            assert later[: len(earlier)] == earlier  # or the backend's prefix cache is lost

    def test_words_and_calls_in_one_turn(self, gateway: Gateway, way: Way) -> None:
        gateway.backend.play(
            way.says(("get_weather", {"city": "Rome"}), before="Let me look at Rome."),
            way.says(("get_weather", {"city": "Oslo"}), before="Rome is fine; now Oslo."),
            way.says(before=ANSWER),
        )
        client = Client(gateway, way, WEATHER)
        assert client.work(lambda *_: "Fine.") == ANSWER
        words = ["Let me look at Rome.", "Rome is fine; now Oslo.", ANSWER]
        assert [completion.choices[0].message.content for completion in client.completions] == words
        assert client.reasons == ["tool_calls", "tool_calls", "stop"]
        assert in_order(shown(gateway), words[0], "Rome", "Fine.", words[1], "Oslo", "Fine.")

    def test_a_long_file_gets_to_the_disk_as_the_model_wrote_it(self, gateway: Gateway, way: Way) -> None:
        lines = [f'    if größe[{n}] == "\\t<&>{{}}\\\\":  # — 試験 🙂\n        return {n}\n' for n in range(80)]
        code = "def f(größe):\n" + "".join(lines) + "    return None"
        write, read = ("write_file", {"path": "a.py", "content": code}), ("read_file", {"path": "a.py"})
        gateway.backend.play(way.says(write), way.says(read), way.says(before=ANSWER))
        disk: dict[str, str] = {}

        def run(name: str, arguments: Any) -> str:
            if name == "write_file":
                disk[arguments["path"]] = arguments["content"]
                return "Written."
            return disk[arguments["path"]]

        client = Client(gateway, way, tool("write_file", path=STRING, content=STRING), tool("read_file", path=STRING))
        assert client.work(run) == ANSWER
        assert disk == {"a.py": code}
        assert in_order(shown(gateway), "Written.", "read_file", json.dumps(code, ensure_ascii=False)[1:-1])


@every_way
class TestToolsInTrouble:
    def test_a_tool_that_fails_is_tried_in_another_way(self, gateway: Gateway, way: Way) -> None:
        gateway.backend.play(
            way.says(("get_weather", {"city": "Atlantis"})),
            way.says(("get_weather", {"city": "Athens"}), before="There is no Atlantis; I take Athens."),
            way.says(before=ANSWER),
        )

        def run(_: str, arguments: Any) -> str:
            return {"Athens": "Fine."}[arguments["city"]]

        client = Client(gateway, way, WEATHER)
        assert client.work(run) == ANSWER
        assert in_order(shown(gateway, 1), "Atlantis", "Error: 'Atlantis'")
        assert in_order(shown(gateway), "Error: 'Atlantis'", "I take Athens.", "Fine.")

    def test_a_tool_that_takes_too_long_is_given_up_by_the_client(self, gateway: Gateway, way: Way) -> None:
        slow, quick = ("get_weather", {"city": "Ulan Bator"}), ("get_weather", {"city": "Rome"})
        gateway.backend.play(way.says(slow, quick), way.says(before="I know only Rome's."))
        over = threading.Event()

        def run(_: str, arguments: Any) -> str:
            def look() -> str:
                return "Fine." if arguments["city"] == "Rome" or over.wait() else "Never."

            try:
                return pool.submit(look).result(timeout=0.05 if arguments["city"] != "Rome" else None)
            except TimeoutError as error:
                raise TimeoutError("no answer within 0.05 seconds") from error

        client = Client(gateway, way, WEATHER)
        with ThreadPoolExecutor() as pool:
            try:
                assert client.work(run) == "I know only Rome's."
            finally:
                over.set()
        assert in_order(shown(gateway), "Error: no answer within 0.05 seconds", "Fine.")


@every_way
def test_a_conversation_outlives_the_calls_that_a_model_spoiled(gateway: Gateway, way: Way) -> None:
    """Agents send such calls back as they got them, turn after turn."""
    city = '{"city": "Zürich"}'
    spoiled = {
        '{"city": "Zür': {"city": "Zür"},  # cut off
        json.dumps(city): json.loads(city),  # an object in a string
        '["Zürich"]': {"arguments": ["Zürich"]},
        "the city of Zürich": {"arguments": "the city of Zürich"},
        "null": {},
    }
    gateway.backend.play(way.says(before=ANSWER))
    client = Client(gateway, way, WEATHER)
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
        for n, arguments in enumerate(spoiled)
    ]
    client.messages.append({"role": "assistant", "content": None, "tool_calls": calls})
    client.messages += [{"role": "tool", "tool_call_id": call["id"], "content": "Error: what?"} for call in calls]
    assert client.ask().content == ANSWER
    sent = gateway.backend.requests[-1].json["messages"]
    told = next(message for message in sent if message["role"] == "assistant")
    if way.model == "templated":
        arguments = [json.loads(call["function"]["arguments"]) for call in told["tool_calls"]]
    else:
        arguments = [json.loads(written)["arguments"] for written in re.findall(r"{.*}", told["content"])]
    assert arguments == list(spoiled.values())


@every_way
class TestToolChoice:
    def test_a_named_tool_first_then_free_then_none(self, gateway: Gateway, way: Way) -> None:
        look, step = ("get_weather", {"city": "Rome"}), ("take_step", {"number": 1})
        gateway.backend.play(way.says(look), way.says(step), way.says(before=ANSWER))
        client = Client(gateway, way, WEATHER, STEP)
        named = {"type": "function", "function": {"name": "get_weather"}}
        for choice in (named, "auto"):
            (call,) = client.ask(tool_choice=choice).tool_calls
            client.tell(call, "Fine.")
        # An agent that has used up its steps wants words now.
        message = client.ask(tool_choice="none")
        assert (message.content, message.tool_calls) == (ANSWER, None)
        assert client.calls == [[look], [step], []]
        forced, free, last = (request.json for request in gateway.backend.requests)
        tag = forced["structured_outputs"]["structural_tag"]
        assert "get_weather" in tag
        assert "take_step" not in tag  # the other one can't even be begun
        assert "structured_outputs" not in free
        assert not last.get("tools")
        if way.model == "prompted":
            assert last["messages"][-1]["content"].endswith("Use no tool now: answer in plain words.")

    @pytest.mark.parametrize("shown", [True, False], ids=["none", "no tools any more"])
    def test_what_must_be_words_shows_no_markup(self, gateway: Gateway, way: Way, shown: bool) -> None:
        call = ("get_weather", {"city": "Rome"})
        gateway.backend.play(way.says(call), way.says(call, before="Let me see."))
        client = Client(gateway, way, WEATHER)
        client.tell(client.ask().tool_calls[0], "Fine.")
        if shown:
            message = client.ask(tool_choice="none")
        else:
            client.tools = openai.NOT_GIVEN
            message = client.ask()
        assert message.content == 'Let me see.\nget_weather({"city": "Rome"})'
        assert not message.tool_calls
        assert client.reasons == ["tool_calls", "stop"]
        assert not gateway.backend.requests[-1].json["skip_special_tokens"]  # or markers would be halved

    def test_the_prompt_begins_with_the_same_tools_whatever_the_choice(self, gateway: Gateway, way: Way) -> None:
        if way.model != "prompted":
            return
        allowed = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "take_step"}}]}
        some = {"type": "allowed_tools", "allowed_tools": allowed}
        forced = {"type": "allowed_tools", "allowed_tools": {**allowed, "mode": "required"}}
        choices = ["auto", "none", "required", some, forced]
        for choice in choices:
            gateway.backend.play(way.says(("take_step", {"number": 1})))
            Client(gateway, way, WEATHER, STEP).ask(tool_choice=choice)
        sent = [request.json for request in gateway.backend.requests]
        (begin, asked), *others = (body["messages"] for body in sent)
        assert asked["content"] == QUESTION
        for system, user in others:
            assert system == begin
            assert user["content"].startswith(QUESTION)
        assert "must be one of these tools: take_step." in sent[3]["messages"][1]["content"]
        assert "must call one of these tools: take_step now" in sent[4]["messages"][1]["content"]
        for body in sent[3:]:  # the others can't even be begun
            assert "get_weather" not in body["structured_outputs"]["structural_tag"]

    def test_required_takes_any_of_them(self, gateway: Gateway, way: Way) -> None:
        step = ("take_step", {"number": 1})
        client = Client(gateway, way, WEATHER, STEP)
        raw: Any = gateway.openai.chat.completions.with_raw_response
        said = {"model": way.model, "messages": client.messages, "tools": client.tools, "tool_choice": "required"}
        gateway.backend.play(*[way.says(step)] * 3, way.says(before=ANSWER))
        for named in ("response_format", "structured_outputs"):  # which give way to the call
            schema = {"type": "json_object"} if named == "response_format" else {"regex": "a+"}
            assert raw.create(**said, extra_body={named: schema}).headers[DROPPED_HEADER] == named
        (call,) = client.ask(tool_choice="required").tool_calls
        client.tell(call, "Taken.")
        assert client.ask().content == ANSWER
        assert client.calls == [[step], []]
        for request in gateway.backend.requests[:3]:
            tag = request.json["structured_outputs"]["structural_tag"]
            assert "get_weather" in tag
            assert "take_step" in tag
            assert "response_format" not in request.json


@every_way
def test_fifty_tools(gateway: Gateway, way: Way) -> None:
    place = {"type": "object", "properties": {"path": STRING, "lines": {"type": "array", "items": INTEGER}}}
    tools = [
        tool(f"tool_{n}", text=STRING, limit=INTEGER, place={**place, "description": f"Place {n}"}) for n in range(50)
    ]
    arguments = {"text": "x", "limit": 3, "place": {"path": "a.py", "lines": [1, 2]}}
    gateway.backend.play(way.says(("tool_49", arguments), ("tool_0", arguments)), way.says(before=ANSWER))
    client = Client(gateway, way, *tools)
    assert client.work(lambda name, _: f"{name} was run.") == ANSWER
    assert client.calls == [[("tool_49", arguments), ("tool_0", arguments)], []]
    for request in (0, 1):
        assert in_order(shown(gateway, request), *(f"Place {n}" for n in range(50)))
    assert in_order(shown(gateway), "tool_49 was run.", "tool_0 was run.")


CITY = {"type": "object", "properties": {"city": STRING}, "required": ["city"], "additionalProperties": False}
CITY_FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}


@every_way
class TestToolsAndASchemaOfTheAnswer:
    """As agents with an output type send them: the model calls what it needs, and then answers in JSON."""

    @pytest.mark.parametrize("kind", ["json_schema", "json_object"])
    def test_the_decoder_lets_the_model_call_or_answer(self, gateway: Gateway, way: Way, kind: str) -> None:
        call = ("get_weather", {"city": "Rome"})
        gateway.backend.play(way.says(call), way.says(before='{"city": "Rome"}'))
        client = Client(gateway, way, WEATHER)
        format_ = CITY_FORMAT if kind == "json_schema" else {"type": kind}
        assert json.loads(client.work(lambda *_: "Fine.", response_format=format_)) == {"city": "Rome"}
        assert client.calls == [[call], []]
        for request in gateway.backend.requests:
            calls, text = json.loads(request.json["structured_outputs"]["structural_tag"])["format"]["elements"]
            assert calls["type"] == "tags_with_separator"
            assert text["type"] == "json_schema"
            assert ("city" in text["json_schema"].get("properties", {})) is (kind == "json_schema")
            assert "response_format" not in request.json
            assert "answer with nothing but" in request.json["messages"][0]["content"]

    @pytest.mark.parametrize("said", ['{"city": "Rome"}', '```json\n{"city": "Rome"}\n```'], ids=["bare", "in a fence"])
    def test_where_it_can_not_be_forced_the_text_is_checked(self, gateway: Gateway, way: Way, said: str) -> None:
        way = dataclasses.replace(way, model=f"un{way.model}")
        call = ("get_weather", {"city": "Rome"})
        gateway.backend.play(way.says(call, before="I look."), way.says(before=said))
        client = Client(gateway, way, WEATHER)
        assert client.work(lambda *_: "Fine.", response_format=CITY_FORMAT) == '{"city": "Rome"}'
        assert client.calls == [[call], []]
        assert client.completions[0].choices[0].message.content == "I look."
        for request in gateway.backend.requests:
            assert not {"structured_outputs", "response_format"} & request.json.keys()
            assert '"additionalProperties": false' in request.json["messages"][0]["content"]

    @pytest.mark.parametrize("said", ["It is fine.", '{"town": "Rome"}', "[]"])
    def test_and_what_does_not_fit_is_an_error(self, gateway: Gateway, way: Way, said: str) -> None:
        way = dataclasses.replace(way, model=f"un{way.model}")
        gateway.backend.play(way.says(before=said))
        with pytest.raises(openai.APIError) as refused:
            Client(gateway, way, WEATHER).ask(response_format=CITY_FORMAT)
        assert refused.value.code == "invalid_response_text"
        assert said not in refused.value.message


@every_way
def test_what_a_model_thinks_is_told_under_both_names_if_wanted(gateway: Gateway, way: Way) -> None:
    gateway.backend.play(way.says(before=f"<think>\nHm.\n</think>\n\n{ANSWER}"))
    client = Client(gateway, way, STEP)
    message = client.ask()
    assert message.content == ANSWER
    assert message.reasoning.strip() == "Hm."
    assert getattr(message, "reasoning_content", None) == (message.reasoning if way.model == "templated" else None)


@every_way
@pytest.mark.parametrize("asked", [True, False])
def test_usage_of_every_turn_is_the_backends_own_count(gateway: Gateway, way: Way, asked: bool) -> None:
    usages = [Usage(100 + turn, 20 + turn) for turn in range(3)]
    calls = [("take_step", {"number": number}) for number in range(2)]
    for call, usage in zip(calls, usages, strict=False):
        gateway.backend.play(way.says(call, usage=usage))
    gateway.backend.play(way.says(before=ANSWER, usage=usages[-1]))
    client = Client(gateway, way, STEP)
    client.work(lambda *_: "Taken.", **({"stream_options": {"include_usage": True}} if asked and way.stream else {}))
    if way.stream and not asked:
        assert [completion.usage for completion in client.completions] == [None] * 3
        return
    counts = [completion.usage for completion in client.completions if completion.usage is not None]
    assert [Usage(count.prompt_tokens, count.completion_tokens) for count in counts] == usages
    assert [count.total_tokens for count in counts] == [120, 122, 124]


@every_way
def test_parameters_that_nobody_knows_are_served_and_named(gateway: Gateway, way: Way) -> None:
    gateway.backend.play(way.says(("get_weather", {"city": "Rome"})), way.says(before=ANSWER))
    client = Client(gateway, way, WEATHER)
    raw: Any = gateway.openai.chat.completions.with_raw_response
    extra = {"prediction": {"type": "content", "content": "x"}, "flux": 7, "top_k": 5, "min_p": None}
    for reason in ("tool_calls", "stop"):
        reply = raw.create(
            model=way.model, messages=client.messages, tools=client.tools, stream=way.stream, extra_body=extra
        )
        assert reply.headers[DROPPED_HEADER] == "flux, prediction"
        last = list(reply.parse())[-1] if way.stream else reply.parse()
        assert last.choices[0].finish_reason == reason
        sent = gateway.backend.requests[-1].json
        assert sent["top_k"] == 5
        assert not {"flux", "prediction", "min_p"} & sent.keys()


@pytest.mark.parametrize("stream", [False, True])
def test_a_plain_chat_is_the_backends_own_byte_for_byte(gateway: Gateway, stream: bool) -> None:
    turns = ["Grüezi! How are you?", "Now in one word.", "Thanks — 谢谢 🙂"]
    said = ["Very well, danke.", "<tool_call> is a word, too.", 'Bitte. {"name": "get_weather"}']
    messages: list[dict[str, str]] = [{"role": "system", "content": "Be brief."}]
    for number, (turn, answer) in enumerate(zip(turns, said, strict=True)):
        messages.append({"role": "user", "content": turn})
        request = {
            "model": MODEL,
            "messages": messages,
            "stream": stream,
            "temperature": 0.70,
            "chat_template_kwargs": {"a": [1.50]},
        }
        content = json.dumps(request, indent=1).encode()
        headers = {"content-type": "application/json", "x-request-id": f"plain-{number}"}  # becomes the answer's id
        gateway.backend.play(Reply(answer), Reply(answer))
        direct = httpx.post(f"{gateway.backend.url}/v1/chat/completions", content=content, headers=headers)
        through = gateway.http.post("/v1/chat/completions", content=content, headers=headers)
        first, second = gateway.backend.requests[-2:]
        assert first.body == second.body == content
        assert without_time(through.content) == without_time(direct.content)
        assert answer == said_in(through)
        for name in ("content-type", "content-length"):
            assert through.headers.get(name) == direct.headers.get(name)
        messages.append({"role": "assistant", "content": answer})


def without_time(body: bytes) -> bytes:
    return re.sub(rb'"created":[0-9]+', b"", body)


def said_in(reply: httpx.Response) -> str:
    if reply.headers["content-type"] == "application/json":
        return str(reply.json()["choices"][0]["message"]["content"])
    events = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
    return "".join(event["choices"][0]["delta"].get("content") or "" for event in events)


class TestParallelCallsPay:
    """The structure of `bench.parallel_calls`, which measures the time."""

    def test_together_all_tools_run_at_the_same_time(self, gateway: Gateway) -> None:
        parallel_calls.script(gateway.backend, parallel=True, pace=None)

        async def work() -> parallel_calls.Course:
            all_are_here = asyncio.Barrier(len(parallel_calls.FILES))

            async def tool(path: str) -> str:
                async with all_are_here:
                    return f"What stands in {path}."

            return await asyncio.wait_for(parallel_calls.perform(gateway.url, tool, parallel=True), 30)

        assert asyncio.run(work()).calls == (4, 0)
        assert in_order(shown(gateway), *(f"What stands in {path}." for path in parallel_calls.FILES))

    def test_one_at_a_time_none_runs_beside_another(self, gateway: Gateway) -> None:
        parallel_calls.script(gateway.backend, parallel=False, pace=None)
        running: set[str] = set()

        async def tool(path: str) -> str:
            assert not running
            running.add(path)
            await asyncio.sleep(0)
            running.remove(path)
            return path

        course = asyncio.run(parallel_calls.perform(gateway.url, tool, parallel=False))
        assert course.calls == (1, 1, 1, 1, 0)
