"""vLLM's agentic-api keeps conversations in front of the gateway, for OpenAI's library and for Codex."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.clients.actor import step
from tests.clients.agentic_api import log_of, running_agentic_api
from tests.clients.codex import last_message, run_codex
from tests.clients.errand import LAST_WORDS, TASK, check_done, errand
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage
from tests.clients.test_codex import TOOLS
from tests.format_writers import Call

pytestmark = pytest.mark.clients

MODELS = ["prompt-hermes", "template-qwen3_coder", "native"]
QUESTION = "What is the weather in Paris and Rome?"
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ASKS = step(*(Call("get_weather", {"city": city}) for city in ("Paris", "Rome")), says="I look.", sees=QUESTION)
ANSWERS = step(says="Both are fine.", sees=("sunny", "dry"))
GOES_ON = step(says="You are welcome.", sees="Thank you.")


@pytest.fixture(scope="module")
def front(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address that clients are told."""
    with running_agentic_api(stage.gateway.url, tmp_path_factory.mktemp("agentic-api")) as url:
        yield f"{url}/v1"


def library(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key="unused", max_retries=0, timeout=30)


def respond(client: openai.OpenAI, way: str, **request: Any) -> Any:
    """The response, whole or put together from its events, which have to end with it."""
    if way == "create":
        return client.responses.create(**request)
    with client.responses.stream(**request) as events:
        kinds = [event.type for event in events]
        response = events.get_final_response()
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    return response


def results(response: Any) -> list[Any]:
    """What the tools made of its calls."""
    calls = [item for item in response.output if item.type == "function_call"]
    assert [(call.name, call.arguments.replace(" ", "")) for call in calls] == [
        ("get_weather", '{"city":"Paris"}'),
        ("get_weather", '{"city":"Rome"}'),
    ]
    return [
        {"type": "function_call_output", "call_id": call.call_id, "output": told}
        for call, told in zip(calls, ("sunny", "dry"), strict=True)
    ]


@pytest.mark.parametrize("way", ["create", "stream"])
@pytest.mark.parametrize("model", MODELS)
def test_each_request_has_only_what_is_new(stage: Stage, front: str, model: str, way: str) -> None:
    stage.perform(model, QUESTION, ASKS, ANSWERS, GOES_ON)
    with library(front) as client:
        first = respond(client, way, model=model, input=QUESTION, tools=[WEATHER], parallel_tool_calls=True)
        second = respond(client, way, model=model, input=results(first), previous_response_id=first.id)
        third = respond(client, way, model=model, input="Thank you.", previous_response_id=second.id)
        assert client.responses.retrieve(second.id).output_text == second.output_text
    assert [first.output_text, second.output_text, third.output_text] == [
        "I look.",
        "Both are fine.",
        "You are welcome.",
    ]
    assert second.previous_response_id == first.id
    assert (stage.actor.problems, stage.actor.played) == ([], [0, 1, 2])


def test_one_answer_may_be_gone_on_from_twice(stage: Stage, front: str) -> None:
    stage.perform("prompt-hermes", QUESTION, ASKS, ANSWERS, GOES_ON)
    request: Any = {"model": "prompt-hermes", "parallel_tool_calls": True}
    with library(front) as client:
        first = client.responses.create(input=QUESTION, tools=[WEATHER], **request)
        for _ in range(2):
            again = client.responses.create(input=results(first), previous_response_id=first.id, **request)
            assert again.output_text == "Both are fine."
    assert (stage.actor.problems, stage.actor.played) == ([], [0, 1, 1])


def test_a_conversation_is_named(stage: Stage, front: str) -> None:
    stage.perform("prompt-hermes", QUESTION, ASKS, ANSWERS, GOES_ON)
    with library(front) as client:
        kept = client.conversations.create().id
        request: Any = {"model": "prompt-hermes", "conversation": kept, "parallel_tool_calls": True}
        first = client.responses.create(input=QUESTION, tools=[WEATHER], **request)
        client.responses.create(input=results(first), **request)
        last = client.responses.create(input="Thank you.", **request)
        items = [item.type for item in client.conversations.items.list(kept, order="asc")]
    assert last.output_text == "You are welcome."
    assert items == [
        *("message", "message", "function_call", "function_call", "function_call_output", "function_call_output"),
        *("message", "message", "message"),
    ]
    assert stage.actor.problems == []


@pytest.mark.parametrize("way", ["create", "stream"])
def test_custom_tools_and_namespaces(stage: Stage, front: str, way: str) -> None:
    """They reach the gateway as functions, with names that agentic-api gives them."""
    custom: Any = {"type": "custom", "name": "shell", "description": "Runs a command"}
    files: Any = {"type": "namespace", "name": "files", "description": "Files", "tools": [{**WEATHER, "name": "read"}]}
    stage.perform(
        "prompt-hermes",
        QUESTION,
        step(Call("shell", {"input": "ls -l"})),
        step(Call("agentic_ns__files__read", {"city": "Paris"}), sees="total 0"),
        step(says="Done.", sees="of Paris"),
    )
    with library(front) as client:
        first = respond(client, way, model="prompt-hermes", input=QUESTION, tools=[custom, files])
        [ran] = first.output
        assert (ran.type, ran.name, ran.input) == ("custom_tool_call", "shell", "ls -l")
        told: Any = {"type": "custom_tool_call_output", "call_id": ran.call_id, "output": "total 0"}
        second = respond(client, way, model="prompt-hermes", input=[told], previous_response_id=first.id)
        [read] = second.output
        assert (read.type, read.namespace, read.name) == ("function_call", "files", "read")
        told = {"type": "function_call_output", "call_id": read.call_id, "output": "of Paris"}
        last = respond(client, way, model="prompt-hermes", input=[told], previous_response_id=second.id)
    assert last.output_text == "Done."
    assert stage.actor.problems == []


def test_what_is_kept_outlives_a_restart_if_it_is_in_a_file(stage: Stage, tmp_path: Path) -> None:
    for env, found in (({}, True), ({"DATABASE_URL": "sqlite::memory:"}, False)):
        stage.perform("prompt-hermes", QUESTION, ASKS, ANSWERS)
        request: Any = {"model": "prompt-hermes", "tools": [WEATHER], "parallel_tool_calls": True}
        with running_agentic_api(stage.gateway.url, tmp_path, **env) as url, library(f"{url}/v1") as client:
            first = client.responses.create(input=QUESTION, **request)
        request |= {"input": results(first), "previous_response_id": first.id}
        with running_agentic_api(stage.gateway.url, tmp_path, **env) as url, library(f"{url}/v1") as client:
            if found:
                assert client.responses.create(**request).output_text == "Both are fine."
                stage.check_answers()
            else:
                with pytest.raises(openai.NotFoundError):
                    client.responses.create(**request)


@pytest.mark.parametrize("model", MODELS)
def test_codex_does_the_errand(stage: Stage, sandbox: Sandbox, front: str, model: str) -> None:
    stage.perform(model, TASK, *errand(TOOLS, sandbox.workspace))
    assert last_message(run_codex(sandbox, front, model, TASK)) == LAST_WORDS
    check_done(stage, sandbox)


def test_codex_over_websockets_sends_only_what_is_new(stage: Stage, sandbox: Sandbox, tmp_path: Path) -> None:
    stage.perform("prompt-hermes", TASK, *errand(TOOLS, sandbox.workspace))
    folder = tmp_path / "agentic-api"
    folder.mkdir()
    with running_agentic_api(stage.gateway.url, folder, RUST_LOG="agentic_server=debug", NO_COLOR="1") as url:
        finished = run_codex(sandbox, f"{url}/v1", "prompt-hermes", TASK, websockets=True)
    assert last_message(finished) == LAST_WORDS
    check_done(stage, sandbox)
    accepted = [line for line in log_of(folder).splitlines() if "accepted websocket response.create" in line]
    # Codex may ask once before its first turn, for nothing, and begins that turn anew if that takes too long.
    told = ["has_previous_response_id=true" in line for line in accepted]
    assert not told[0]
    assert len(told) <= 6
    assert told[-3:] == [True, True, True]
