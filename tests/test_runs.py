"""Characters and tool servers at the front door: what clients see of tools that run on our side, and what models do."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from extproc.exchange.api_keys import hash_line
from scripted_vllm import Reply, ScriptedVLLM
from scripted_vllm.troubles import Cut, Fail
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway, put, wait_until
from tests.messages import whole_message

pytestmark = pytest.mark.long

SAMPLE = Path(__file__).parents[1] / "envoy" / "characters" / "narrator.py"
SLOW = """
import time

TIME_LIMIT = 30
MODEL = "coder"
TOOLS = [
    {"type": "function", "function": {"name": "wait", "description": "Waits", "parameters": {
        "type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]}}}
]


class PromptGenerator:
    def handle_tool_call(self, tool_name, tool_input):
        time.sleep(tool_input["seconds"])
        return "waited"
"""
BROKEN = SLOW.replace('"Waits"', '""')
EVENT = {"event": "the dragon returns"}
DONE = "The dragon is back."
GIVEN = {
    "name": "get_weather",
    "description": "Tells the weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


KEY = "k-0123456789abcdef"
LOGS = Reply(call("log_story_event", **EVENT))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("runs")
    characters = folder / "characters"
    characters.mkdir()
    (characters / "narrator.py").write_text(f'{SAMPLE.read_text()}\nMODEL = "coder"\nTIME_LIMIT = 30\n')
    (characters / "slow.py").write_text(SLOW)
    (characters / "broken.py").write_text(BROKEN)
    (characters / "lost.py").write_text('MODEL = "nobody"\n')
    (folder / "keys").write_text(hash_line("alice", KEY))
    with AskedVLLM().running() as backend:
        configuration = f"""
models:
  - {{name: coder, upstream_model: {MODEL}, backend: qwen, tools: prompt}}
  - {{name: tools/coder, upstream_model: {MODEL}, backend: qwen, tools: prompt, tool_servers: [box]}}
backends:
  - {{name: qwen, address: "127.0.0.1:{backend.port}", health_check: false, headers: [x-tenant]}}
characters: characters
tool_servers:
  - name: box
    command: ["{sys.executable}", -m, tests.mcp_server]
    environment: {{PYTHONPATH: "{Path(__file__).parents[1]}"}}
    allowed_tools: [weather, add, fail, environment]
    tools: {{environment: {{run: never}}}}
runs: {{rounds: 3, keep_alive_seconds: 0.2}}
api_keys: {folder}/keys
limits: {{concurrent_requests: 2}}
"""
        with configured_gateway(folder, configuration, backend, live=True) as gateway:
            gateway.http.headers["authorization"] = f"Bearer {KEY}"
            gateway.openai = gateway.openai.with_options(api_key=KEY)
            box = 'extproc_tool_server_up{server="box"} 1.0'
            wait_until(lambda: box in httpx.get(gateway.runner_metrics).text)
            yield gateway


@pytest.fixture
def model(gateway: Gateway) -> ScriptedVLLM:
    gateway.backend.forget()
    return gateway.backend


def narrator(gateway: Gateway, **fields: Any) -> httpx.Response:
    body = {"model": "character/narrator", "messages": [{"role": "user", "content": "Go on."}], **fields}
    return gateway.http.post("/v1/chat/completions", json=body)


def left_by_others(gateway: Gateway) -> str:
    """The runner's counts of the dialect in which no test's client leaves."""
    page = httpx.get(gateway.runner_metrics).text
    return "\n".join(line for line in page.splitlines() if 'dialect="responses"' in line)


def prompt(model: ScriptedVLLM, number: int = -1) -> str:
    """What the model was shown."""
    return json.dumps(model.requests[number].json["messages"])


def ran(gateway: Gateway, tool: str, outcome: str = "ok") -> float:
    lines = httpx.get(gateway.runner_metrics).text.splitlines()
    start = "gen_ai_execute_tool_duration_seconds_count{"
    error = "" if outcome == "ok" else outcome
    return sum(
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith(start) and f'gen_ai_tool_name="{tool}"' in line and f'error_type="{error}"' in line
    )


class TestCharacters:
    def test_one_answers_having_used_its_tool(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply(f"Hear!\n{LOGS.text}"), Reply(DONE))
        before = ran(gateway, "log_story_event")
        answer = narrator(gateway)
        assert answer.status_code == 200
        assert (answer.headers["x-extproc-rounds"], answer.headers["x-extproc-tools"]) == ("2", "1")
        completion = answer.json()
        [choice] = completion["choices"]
        assert choice["message"]["content"] == f"Hear!\n\n{DONE}"
        assert (choice["finish_reason"], "tool_calls" in choice["message"]) == ("stop", False)
        assert completion["model"] == "character/narrator"
        assert "narrator of an interactive story" in prompt(model, 0)
        assert "Logged story event: the dragon returns" in prompt(model)
        assert ran(gateway, "log_story_event") == before + 1

    def test_what_the_rounds_cost_is_added_up(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(LOGS, Reply(DONE))
        usage = narrator(gateway).json()["usage"]
        model.forget()
        model.play(Reply(DONE))
        alone = narrator(gateway).json()["usage"]
        assert usage["prompt_tokens"] > 2 * alone["prompt_tokens"] - 10
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]

    def test_rounds_share_connections(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        def connections() -> int:
            return gateway.stat("http.inner.downstream_cx_total")

        model.play(*[LOGS, Reply(DONE)] * 11)
        assert narrator(gateway).is_success
        before = connections()
        for _ in range(10):
            assert narrator(gateway).is_success
        assert connections() <= before + 5  # of the 20 rounds; one whose stream takes longer to end isn't waited for

    def test_a_stream_is_one_answer(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply(f"Hear!\n{LOGS.text}"), Reply(DONE))
        with gateway.openai.chat.completions.stream(
            model="character/narrator",
            messages=[{"role": "user", "content": "Go on."}],
            stream_options={"include_usage": True},
        ) as stream:
            chunks = [event.chunk for event in stream if event.type == "chunk"]
            completion = stream.get_final_completion()
        assert completion.choices[0].message.content == f"Hear!\n\n{DONE}"
        assert len({chunk.id for chunk in chunks}) == 1
        assert sum(chunk.choices[0].delta.role is not None for chunk in chunks if chunk.choices) == 1
        reasons = [reason for chunk in chunks for choice in chunk.choices if (reason := choice.finish_reason)]
        assert reasons == ["stop"]
        assert completion.usage is not None

    def test_in_anthropics_dialect_its_calls_are_unseen(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(LOGS, Reply(DONE))
        body = {"model": "character/narrator", "max_tokens": 500, "messages": [{"role": "user", "content": "Go on."}]}
        message = whole_message(gateway.http.post("/v1/messages", json=body).content)
        assert message["content"] == [{"type": "text", "text": DONE}]
        assert message["stop_reason"] == "end_turn"

    def test_in_the_responses_dialect_they_are_items(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(LOGS, Reply(DONE))
        body = {"model": "character/narrator", "input": "Go on."}
        items = gateway.http.post("/v1/responses", json=body).json()["output"]
        assert [item["type"] for item in items] == ["mcp_call", "message"]
        assert items[0]["output"] == "Logged story event: the dragon returns"
        assert (items[0]["server_label"], items[0]["name"]) == ("character/narrator", "log_story_event")

    def test_those_that_can_be_used_are_listed(self, gateway: Gateway) -> None:
        def listed() -> list[str]:
            return [one["id"] for one in gateway.http.get("/v1/models").json()["data"]]

        wait_until(lambda: "character/slow" in listed())
        assert [name for name in listed() if name.startswith("character/")] == ["character/narrator", "character/slow"]
        assert gateway.http.get("/v1/models/character/slow").json()["id"] == "character/slow"

    @pytest.mark.parametrize("name", ["nobody", "broken", "lost"])
    def test_one_that_cannot_be_used_is_not_there(self, gateway: Gateway, name: str) -> None:
        answer = gateway.chat(f"character/{name}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
        assert "character/narrator" in answer.json()["error"]["message"]
        said = gateway.http.post(
            "/v1/messages",
            json={
                "model": f"character/{name}",
                "max_tokens": 5,
                "messages": [{"role": "user", "content": "x"}],
            },
        )
        assert said.json()["error"]["type"] == "not_found_error"

    def test_the_error_of_a_tool_is_the_models_to_read(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply(call("log_story_event", event="x", importance="huge")), Reply(DONE))
        assert narrator(gateway).json()["choices"][0]["message"]["content"] == DONE
        assert "Error: Invalid parameters - " in prompt(model)

    def test_a_changed_file_holds_for_the_next_conversation(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        changed = changed_narrator(gateway)
        model.play(*[Reply(DONE)] * 200)
        wait_until(lambda: narrator(gateway).is_success and "a herald" in prompt(model))
        put(changed, f'{SAMPLE.read_text()}\nMODEL = "coder"\nTIME_LIMIT = 30\n')
        wait_until(lambda: narrator(gateway).is_success and "a herald" not in prompt(model))

    def test_a_prompt_is_counted_with_its_tools(self, gateway: Gateway) -> None:
        def count(name: str) -> int:
            body = {"model": name, "messages": [{"role": "user", "content": "Hello!"}]}
            answer = gateway.http.post("/v1/messages/count_tokens", json=body)
            return int(answer.json()["input_tokens"])

        assert count("character/narrator") > count("coder") + 80


def changed_narrator(gateway: Gateway) -> Path:
    """The character with another prompt; its file."""
    command = Path(f"/proc/{gateway.runner}/cmdline").read_bytes().split(b"\0")
    file = Path(os.fsdecode(command[command.index(b"--config") + 1])).parent / "characters" / "narrator.py"
    put(file, file.read_text().replace("the narrator of", "a herald of"))
    return file


class TestClients:
    """Whose tools are beside ours."""

    TOOLS = ({"type": "function", "function": GIVEN},)

    def test_a_call_of_the_clients_tool_ends_the_turn(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(LOGS, Reply(call("get_weather", city="Paris")))
        choice = narrator(gateway, tools=self.TOOLS).json()["choices"][0]
        [made] = choice["message"]["tool_calls"]
        assert (made["function"]["name"], choice["finish_reason"]) == ("get_weather", "tool_calls")
        assert len(model.requests) == 2

    def test_of_a_mixed_turn_the_client_gets_its_own_calls(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        before = ran(gateway, "log_story_event")
        model.play(Reply(f"{LOGS.text}\n{call('get_weather', city='Paris')}\n{call('get_weather', city='Rome')}"))
        choice = narrator(gateway, tools=self.TOOLS, stream=False).json()["choices"][0]
        assert [one["function"]["name"] for one in choice["message"]["tool_calls"]] == ["get_weather"] * 2
        assert ran(gateway, "log_story_event") == before
        assert 'extproc_deferred_tool_calls_total{model="character/narrator"}' in httpx.get(gateway.runner_metrics).text

    def test_a_demanded_call_is_one_of_the_clients(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply(call("get_weather", city="Paris")))
        choice = narrator(gateway, tools=self.TOOLS, tool_choice="required").json()["choices"][0]
        assert choice["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
        assert "log_story_event" not in prompt(model)

    def test_two_tools_of_one_name_are_refused_at_their_place(self, gateway: Gateway) -> None:
        tool = {**GIVEN, "name": "log_story_event"}
        error = narrator(gateway, tools=[*self.TOOLS, {"type": "function", "function": tool}]).json()["error"]
        assert (error["param"], error["code"]) == ("tools[1].function.name", "invalid_value")
        body = {
            "model": "character/narrator",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "x"}],
            "tools": [{"name": "log_story_event", "input_schema": {"type": "object"}}],
        }
        answer = gateway.http.post("/v1/messages", json=body)
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
        assert "tools[0].name" in answer.json()["error"]["message"]

    def test_bad_requests_are_refused_as_ever(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        assert narrator(gateway, temperature=9).json()["error"]["param"] == "temperature"
        assert narrator(gateway, n=2).json()["error"]["param"] == "n"
        assert model.requests == []

    def test_the_names_of_what_is_not_asked_are_told(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply(DONE))
        answer = narrator(gateway, logprobs=True, store=True)
        assert answer.headers["x-extproc-dropped"] == "logprobs, store"


class TestToolServers:
    def test_a_models_tools_are_its_servers(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply(call("box__weather", city="Paris")), Reply(DONE))
        answer = gateway.chat("tools/coder")
        assert answer.json()["choices"][0]["message"]["content"] == DONE
        assert answer.json()["model"] == "tools/coder"
        assert "Paris" in prompt(model)
        assert ran(gateway, "weather") >= 1

    def test_its_failures_are_told_to_the_model(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply(call("box__fail")), Reply(DONE))
        body = {"model": "tools/coder", "input": "Go on."}
        items = gateway.http.post("/v1/responses", json=body).json()["output"]
        assert (items[0]["server_label"], items[0]["status"]) == ("box", "failed")
        assert "Error: " in prompt(model)

    def test_a_call_that_needs_asking_goes_to_the_client(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply(call("box__environment")))
        choice = gateway.chat("tools/coder").json()["choices"][0]
        assert choice["message"]["tool_calls"][0]["function"]["name"] == "box__environment"
        assert choice["finish_reason"] == "tool_calls"

    def test_a_model_without_servers_has_none(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply(DONE))
        assert "x-extproc-rounds" not in gateway.chat("coder").headers
        assert "box__" not in prompt(model)


class TestTrouble:
    def test_rounds_without_end_are_an_error(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(*[LOGS] * 3)
        answer = narrator(gateway)
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "too_many_rounds")
        assert answer.headers["x-should-retry"] == "false"
        assert len(model.requests) == 3

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_backends_error_is_the_clients(self, gateway: Gateway, model: ScriptedVLLM, stream: bool) -> None:
        model.play(Reply(trouble=Fail(status=429, retry_after=7)))
        answer = narrator(gateway, stream=stream)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
        assert answer.json()["error"]["code"] == "rate_limit_exceeded"

    def test_one_of_a_later_round_ends_a_stream_that_has_begun(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply(f"Hear!\n{LOGS.text}"), Reply(trouble=Fail(status=500)))
        with (
            pytest.raises(openai.APIError),
            gateway.openai.chat.completions.stream(
                model="character/narrator", messages=[{"role": "user", "content": "Go on."}]
            ) as stream,
        ):
            stream.get_final_completion()

    def test_a_cut_stream_has_no_clean_end(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply("One two three four five six", trouble=Cut()))
        said = narrator(gateway, stream=True).text
        assert '"error"' in said
        assert '"finish_reason":"stop"' not in said

    def test_a_comment_keeps_a_stream_alive_while_a_tool_runs(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply(f"One moment.\n{call('wait', seconds=1)}"), Reply(DONE))
        body = {"model": "character/slow", "messages": [{"role": "user", "content": "Go on."}], "stream": True}
        said = gateway.http.post("/v1/chat/completions", json=body).text
        assert said.count(": running") >= 2
        assert said.rstrip().endswith("[DONE]")

    def test_a_client_that_leaves_stops_the_tool_and_the_round(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        before = ran(gateway, "wait", "cancelled")
        model.play(Reply(f"One moment.\n{call('wait', seconds=25)}"), Reply("one two three four", pace=5))
        body = {"model": "character/slow", "messages": [{"role": "user", "content": "Go on."}], "stream": True}
        with gateway.http.stream("POST", "/v1/chat/completions", json=body) as answer:
            comments = (line for line in answer.iter_lines() if line.startswith(":"))
            assert [next(comments) for _ in range(5)]  # for a second nothing else has come: the tool is running
        wait_until(lambda: ran(gateway, "wait", "cancelled") == before + 1)
        assert "extproc_runs_under_way 0.0" in httpx.get(gateway.runner_metrics).text
        with gateway.http.stream(
            "POST", "/v1/chat/completions", json={**body, "model": "character/narrator"}
        ) as answer:
            assert next(answer.iter_lines())
        wait_until(lambda: len(model.abandoned) == 1)

    def test_clients_cannot_speak_for_the_gateway(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(LOGS, Reply(DONE))
        headers = {
            "x-extproc-path": "/v1/messages",
            "x-extproc-round": "1",
            "x-extproc-client": "somebody",
            "x-tenant": "us",
            "x-request-id": "run-1",
        }
        body = {"model": "character/narrator", "messages": [{"role": "user", "content": "Go on."}]}
        answer = gateway.http.post("/v1/chat/completions", json=body, headers=headers)
        assert answer.json()["object"] == "chat.completion"
        for request in model.requests:
            fields = dict(request.headers)
            assert not [name for name in fields if name.startswith("x-extproc")]
            assert (fields["x-request-id"], fields["x-tenant"]) == ("run-1", "us")

    def test_what_clients_write_into_headers_and_names_does_no_harm(
        self, gateway: Gateway, model: ScriptedVLLM
    ) -> None:
        model.play(LOGS, Reply(DONE), LOGS, Reply(DONE))
        body = {"model": "character/narrator", "messages": [{"role": "user", "content": "Go on."}]}
        headers = [(b"user-agent", "José".encode()), (b"x-tenant", b"caf\xe9")]
        assert gateway.http.post("/v1/chat/completions", json=body, headers=headers).is_success
        odd = {"role": "user", "content": "x", "a\r\nb: c": 1, "y" * 70_000: 2}
        answer = gateway.http.post("/v1/responses", json={"model": "character/narrator", "input": [odd]})
        assert answer.headers["x-extproc-dropped"] == "+2 more"
        assert answer.json()["output"][0]["type"] == "mcp_call"
        assert 'end="client_left"' not in left_by_others(gateway)

    def test_without_the_runner_there_is_an_error(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        os.kill(gateway.runner, signal.SIGSTOP)
        try:
            body = {"model": "character/narrator", "messages": [{"role": "user", "content": "Go on."}]}
            with pytest.raises(httpx.ReadTimeout):
                gateway.http.post("/v1/chat/completions", json=body, timeout=0.5)
            model.play(Reply(DONE))
            assert gateway.chat("coder").is_success
        finally:
            os.kill(gateway.runner, signal.SIGCONT)
        began = time.monotonic()
        model.play(Reply(DONE))
        assert narrator(gateway).is_success
        assert time.monotonic() - began < 20


class TestKeys:
    def test_a_round_is_its_clients(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply(call("wait", seconds=0)), Reply(DONE))
        answer = gateway.chat("character/slow", **{"x-request-id": "guarded-1"})
        assert answer.json()["choices"][0]["message"]["content"] == DONE
        rounds = [entry for entry in gateway.access_lines("guarded-1", 3) if "round" in (entry["extproc"] or {})]
        assert [entry["extproc"]["round"] for entry in rounds] == ["1", "2"]
        assert gateway.http.post("/v1/chat/completions", headers={"authorization": ""}).status_code == 401
        for request in model.requests:
            assert "authorization" not in dict(request.headers)

    # The last test: the runner isn't started again.
    def test_a_runner_that_is_asked_to_stop_lets_runs_end(self, gateway: Gateway, model: ScriptedVLLM) -> None:
        model.play(Reply(f"One moment.\n{call('wait', seconds=0.7)}"), Reply(DONE))
        body = {"model": "character/slow", "messages": [{"role": "user", "content": "Go on."}], "stream": True}
        with gateway.http.stream("POST", "/v1/chat/completions", json=body) as answer:
            lines = answer.iter_lines()
            assert next(lines)
            os.kill(gateway.runner, signal.SIGTERM)
            assert "data: [DONE]" in list(lines)
        wait_until(lambda: gateway.chat("character/slow").status_code == 503)
        error = gateway.chat("character/slow").json()["error"]
        assert (error["type"], error["code"]) == ("server_error", "backend_unreachable")
