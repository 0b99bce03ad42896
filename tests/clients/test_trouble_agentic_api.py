"""What goes wrong with agentic-api in front of a gateway, and what it makes of a request that the gateway wouldn't.

Some of it isn't as one would like it: a version that does better fails here, and docs/clients.md can say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from extproc.exchange.api_keys import hash_line
from scripted_vllm import Cut, ErrorEvent, Fail, Refuse, Trouble
from tests.clients.actor import MODEL, Actor, step
from tests.clients.agentic_api import running_agentic_api
from tests.clients.codex import last_message, run_codex
from tests.clients.errand import LAST_WORDS, TASK
from tests.clients.sandbox import Sandbox
from tests.clients.test_agentic_api import ANSWERS, ASKS, GOES_ON, QUESTION, WEATHER, results
from tests.format_writers import Call
from tests.gateway import Gateway, configured_gateway, wait_until

pytestmark = pytest.mark.clients

ALICE, BOB = "alice" * 8, "bobby" * 8
INSIDE_CALL = 30
"""Tokens."""
PLAIN = step(says="It is sunny.")


@pytest.fixture(scope="module")
def actor() -> Iterator[Actor]:
    with Actor().running() as actor:
        yield actor


@pytest.fixture(scope="module")
def gateway(actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that lets in Alice and Bob."""
    folder = tmp_path_factory.mktemp("gateway")
    keys = folder / "keys"
    keys.write_text(f"{hash_line('alice', ALICE)}\n{hash_line('bob', BOB)}\n")
    configuration = f"""
models:
  - {{name: coder, backend: vllm, upstream_model: {MODEL}, tools: prompt}}
backends:
  - {{name: vllm, address: "127.0.0.1:{actor.port}", health_check: false}}
api_keys: {keys}
"""
    with configured_gateway(folder, configuration, actor) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def front(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address that clients are told."""
    with running_agentic_api(gateway.url, tmp_path_factory.mktemp("agentic-api")) as url:
        yield f"{url}/v1"


def library(url: str, key: str = ALICE, retries: int = 0) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key=key, max_retries=retries, timeout=30)


def ask(url: str, *, key: str | None = ALICE, **fields: Any) -> httpx.Response:
    """A request for a response, and its answer whatever it is."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    body = {"model": "coder", "input": QUESTION, **fields}
    return httpx.post(f"{url}/responses", json=body, headers=headers, timeout=30)


def sent(actor: Actor) -> list[Any]:
    """The texts that the backend was sent last."""
    return [message["content"] for message in actor.requests[-1].json["messages"]]


class TestKeys:
    """The gateway checks them, and agentic-api nothing."""

    def test_the_clients_own_goes_through(self, actor: Actor, front: str) -> None:
        actor.perform(QUESTION, PLAIN)
        assert ask(front).json()["status"] == "completed"
        refused = ask(front, key="wrong" * 8)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
        assert ask(front, key=None).status_code == 401

    def test_whoever_knows_an_id_may_read_it_and_go_on_from_it(self, actor: Actor, front: str) -> None:
        actor.perform(QUESTION, PLAIN, step(says="Still sunny."))
        said = ask(front).json()["id"]
        assert "It is sunny." in httpx.get(f"{front}/responses/{said}").text
        assert ask(front, key=BOB, previous_response_id=said, input="And now?").json()["status"] == "completed"
        assert sent(actor) == [QUESTION, "It is sunny.", "And now?"]

    def test_a_key_of_its_own_is_lent_to_whoever_has_none_and_guards_what_is_kept(
        self, actor: Actor, gateway: Gateway, tmp_path: Path
    ) -> None:
        actor.perform(QUESTION, PLAIN)
        with running_agentic_api(gateway.url, tmp_path, OPENAI_API_KEY=ALICE) as url:
            said = ask(f"{url}/v1", key=None).json()["id"]
            read = [
                httpx.get(f"{url}/v1/responses/{said}", headers=headers).status_code
                for headers in ({"authorization": f"Bearer {ALICE}"}, {"authorization": f"Bearer {BOB}"}, {})
            ]
        assert read == [200, 401, 401]

    def test_another_header_goes_through_for_messages_alone(self, actor: Actor, front: str) -> None:
        actor.perform(QUESTION, PLAIN, PLAIN)
        headers, asked = {"x-api-key": ALICE}, [{"role": "user", "content": QUESTION}]
        for path, fields, status in (("responses", {"input": QUESTION}, 401), ("messages", {"messages": asked}, 200)):
            body = {"model": "coder", "max_tokens": 100, **fields}
            assert httpx.post(f"{front}/{path}", json=body, headers=headers).status_code == status


class TestErrors:
    def test_of_a_whole_answer_are_the_gateways_own(self, actor: Actor, front: str) -> None:
        actor.perform(QUESTION, step(says="It is sunny.", troubles=[Fail(503)]))
        refused = [ask(front, model="absent"), ask(front, temperature=9), ask(front)]
        told = [(answer.status_code, answer.json()["error"]["code"]) for answer in refused]
        assert told == [
            (404, "model_not_found"),
            (400, "decimal_above_max_value"),
            (503, "service_unavailable"),
        ]

    @pytest.mark.parametrize(
        ("fields", "status"), [({"model": "absent"}, 404), ({"temperature": 9}, 400), ({"key": "wrong" * 8}, 401)]
    )
    def test_of_a_stream_are_events_behind_a_200(self, front: str, fields: Any, status: int) -> None:
        answer = ask(front, stream=True, **fields)
        assert answer.status_code == 200
        assert answer.text.startswith(f'event: error\ndata: {{"type":"error","sequence_number":0,"status":{status},')

    def test_so_that_nobody_tries_a_stream_again(self, actor: Actor, front: str) -> None:
        """OpenAI's library goes by the status."""
        with library(front, retries=2) as client:
            actor.perform(QUESTION, step(says="It is sunny.", troubles=[Fail(503)]))
            assert client.responses.create(model="coder", input=QUESTION).output_text == "It is sunny."
            actor.perform(QUESTION, step(says="It is sunny.", troubles=[Fail(503)]))
            with (
                pytest.raises(openai.APIError, match="503"),
                client.responses.stream(model="coder", input=QUESTION) as events,
            ):
                list(events)
        assert actor.played == [0]

    @pytest.mark.parametrize("trouble", [Cut(after=5), ErrorEvent(after=5)], ids=lambda one: type(one).__name__)
    def test_what_broke_off_isnt_kept(self, actor: Actor, front: str, trouble: Trouble) -> None:
        actor.perform(
            QUESTION, step(says="one two three four five six seven eight nine ten", pace=0.2, troubles=[trouble])
        )
        answer = ask(front, stream=True, tools=[WEATHER])
        kinds = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
        assert "response.output_text.delta" in kinds
        assert kinds[-1] == ("error" if isinstance(trouble, Cut) else "response.failed")
        begun = answer.text.partition('"id":"')[2].partition('"')[0]
        assert begun.startswith("resp_")
        assert httpx.get(f"{front}/responses/{begun}").status_code == 404

    def test_a_client_that_leaves_ends_the_generation(self, actor: Actor, front: str) -> None:
        actor.perform(QUESTION, step(says="and so on " * 300, pace=0.05))
        headers = {"authorization": f"Bearer {ALICE}"}
        body = {"model": "coder", "input": QUESTION, "stream": True}
        with httpx.stream("POST", f"{front}/responses", json=body, headers=headers) as answer:
            assert "response.output_text.delta" in next(line for line in answer.iter_lines() if "delta" in line)
        wait_until(lambda: actor.abandoned)


@pytest.mark.parametrize(
    "trouble",
    [Fail(503), Refuse(), Cut(after=0), Cut(after=INSIDE_CALL), ErrorEvent(after=INSIDE_CALL)],
    ids=lambda trouble: type(trouble).__name__,
)
def test_codex_tries_again_and_finishes(
    actor: Actor, gateway: Gateway, sandbox: Sandbox, tmp_path: Path, trouble: Trouble
) -> None:
    folder = tmp_path / "agentic-api"
    folder.mkdir()
    command = "echo all is well, and this line is long enough for trouble in its middle > hello.txt"
    actor.perform(TASK, step(Call("exec_command", {"cmd": command}), troubles=[trouble]), step(says=LAST_WORDS))
    with running_agentic_api(gateway.url, folder) as url:
        assert last_message(run_codex(sandbox, f"{url}/v1", "coder", TASK, key=ALICE)) == LAST_WORDS
    assert (actor.problems, actor.played) == ([], [0, 0, 1])


class TestRequests:
    """What becomes of them on the way."""

    TWICE = step(*ASKS.calls)

    def calls(self, url: str, **fields: Any) -> int:
        response = ask(url, tools=[WEATHER], **fields).json()
        return sum(item["type"] == "function_call" for item in response["output"])

    def test_there_is_one_call_in_a_turn_unless_it_says_that_there_may_be_more(self, actor: Actor, front: str) -> None:
        """agentic-api sends `parallel_tool_calls: false` where the client says nothing; OpenAI's default is true."""
        for fields, calls in (({}, 1), ({"parallel_tool_calls": True}, 2), ({"store": False}, 2)):
            actor.perform(QUESTION, self.TWICE, PLAIN)
            assert self.calls(front, **fields) == calls

    def test_a_tool_choice_holds_until_the_next_one(self, actor: Actor, front: str) -> None:
        """So do the tools; instructions don't, as with OpenAI."""
        actor.perform(QUESTION, ASKS, ANSWERS, GOES_ON)
        with library(front) as client:
            request: Any = {"model": "coder", "parallel_tool_calls": True}
            demands: Any = {"tools": [WEATHER], "tool_choice": "required", "instructions": "Be brief."}
            first: Any = client.responses.create(input=QUESTION, **demands, **request)
            then = client.responses.create(input=results(first), previous_response_id=first.id, **request)
            more: Any = {"tool_choice": "auto", "previous_response_id": then.id, **request}
            assert client.responses.create(input="Thank you.", **more).output_text == "You are welcome."
        bodies = [request.json for request in actor.requests]
        assert ["structured_outputs" in body for body in bodies] == [True, True, False]
        assert ["get_weather" in str(body["messages"][0]) for body in bodies] == [True, True, True]
        assert ["Be brief." in str(body) for body in bodies] == [True, False, False]

    def test_what_isnt_to_be_stored_goes_through_as_it_is(self, actor: Actor, front: str) -> None:
        actor.perform(QUESTION, PLAIN)
        answer = ask(front, store=False, service_tier="flex", tools=[WEATHER])
        assert answer.headers["x-extproc-dropped"] == "service_tier"
        said = answer.json()
        assert said["store"] is False
        assert httpx.get(f"{front}/responses/{said['id']}").status_code == 404
        assert ask(front, previous_response_id=said["id"]).status_code == 404

    def test_nothing_is_done_in_the_background(self, actor: Actor, front: str) -> None:
        actor.perform(QUESTION, PLAIN)
        assert ask(front, background=True).json()["status"] == "completed"

    def test_a_stored_prompt_and_a_reference_are_left_out(self, actor: Actor, front: str) -> None:
        actor.perform(QUESTION, PLAIN, PLAIN)
        said = ask(front, prompt={"id": "pmpt_1"}).json()["output"][0]["id"]
        asked = {"role": "user", "content": QUESTION}
        reference = {"type": "item_reference", "id": said}
        assert ask(front, input=[asked, reference, {"role": "user", "content": "And now?"}]).status_code == 200
        assert sent(actor) == [f"{QUESTION}\n\nAnd now?"]

    @pytest.mark.parametrize("fields", [{"tools": [{"type": "image_generation"}]}, {"service_tier": "flex"}])
    def test_what_it_doesnt_know_is_left_out_without_a_word(
        self, actor: Actor, gateway: Gateway, front: str, fields: Any
    ) -> None:
        """The gateway names it, in a header."""
        actor.perform(QUESTION, PLAIN)
        answer = ask(front, **fields)
        assert answer.json()["status"] == "completed"
        assert "x-extproc-dropped" not in answer.headers
        assert "x-extproc-dropped" in ask(f"{gateway.url}/v1", **fields).headers

    def test_what_a_response_lacks(self, actor: Actor, front: str) -> None:
        """OpenAI's has all of these; its library makes None of some, and has no `store`."""
        actor.perform(QUESTION, PLAIN)
        assert not {"tools", "tool_choice", "parallel_tool_calls", "store", "metadata"} & ask(front).json().keys()

    def test_a_search_without_its_providers_key_is_told_to_the_model(self, actor: Actor, front: str) -> None:
        actor.perform(QUESTION, step(Call("web_search", {"query": "weather"})), step(says="I can't.", sees="API_KEY"))
        response = ask(front, tools=[{"type": "web_search"}]).json()
        assert [(item["type"], item["status"]) for item in response["output"]] == [
            ("web_search_call", "failed"),
            ("message", "completed"),
        ]
        assert actor.problems == []

    def test_a_response_cant_be_deleted_cancelled_or_asked_for_its_input(self, actor: Actor, front: str) -> None:
        actor.perform(QUESTION, PLAIN)
        kept = f"{front}/responses/{ask(front).json()['id']}"
        assert httpx.delete(kept).status_code == 405
        assert httpx.post(f"{kept}/cancel").status_code == 404
        assert httpx.get(f"{kept}/input_items").status_code == 404

    def test_a_conversation_is_named_by_its_id_alone_and_begins_anew_once_it_is_deleted(
        self, actor: Actor, front: str
    ) -> None:
        actor.perform(QUESTION, PLAIN)
        with library(front) as client:
            kept = client.conversations.create().id
            assert ask(front, conversation={"id": kept}).status_code == 400
            assert ask(front, conversation=kept).json()["status"] == "completed"
            assert client.conversations.delete(kept).deleted
        assert ask(front, conversation=kept, input="And now?").status_code == 200
        assert sent(actor) == ["And now?"]

    def test_other_paths_go_through(self, actor: Actor, front: str) -> None:
        actor.perform(QUESTION, PLAIN, PLAIN)
        headers, asked = {"authorization": f"Bearer {ALICE}"}, [{"role": "user", "content": QUESTION}]
        with httpx.Client(base_url=front, headers=headers) as client:
            assert [model["id"] for model in client.get("/models").json()["data"]] == ["coder"]
            chat = client.post("/chat/completions", json={"model": "coder", "messages": asked}).json()
            assert chat["choices"][0]["message"]["content"] == "It is sunny."
            said = client.post("/messages", json={"model": "coder", "messages": asked, "max_tokens": 100}).json()
            assert said["type"] == "message"
