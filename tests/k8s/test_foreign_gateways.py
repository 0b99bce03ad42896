"""The processor beside an Envoy that Envoy Gateway or Istio configures: the main job, on the real Envoy.

The controllers' part is `tests.k8s.foreign`; the routes, policies and filters are those of the overlays.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from extproc.config import parse
from extproc.exchange.admission import KEY_HEADERS
from extproc.names import (
    AFFINITY_HEADER,
    BACKEND_HEADER,
    CHAT_PATH,
    COUNT_TOKENS_PATH,
    DROPPED_HEADER,
    FALLBACK_HEADER,
    MESSAGES_PATH,
    MODEL_HEADER,
    MODELS_PATH,
    REPLY_HEADER,
    RESPONSES_PATH,
    TOKENIZE_PATH,
    USAGE_HEADER,
)
from extproc.surfaces import ROUTES
from extproc.surfaces.messages.errors import error_type
from scripted_vllm import Reply, ScriptedVLLM
from tests.gateway import ENVOY, EXTPROC, AskedVLLM, free_port, until_healthy, wait_until
from tests.k8s.foreign import Addresses, envoy_gateways, istios
from tests.k8s.rendered import BASE, K8S, Object, one, rendered, settings
from tests.messages import Json, calls_of, error_in, listed_models, message_of, said_in, whole_message

UPSTREAM = "Qwen/Qwen2.5-Coder-7B-Instruct"
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
ASK = {"role": "user", "content": "Oslo?"}
ANTHROPICS = {"tools": [{"name": "get_weather", "input_schema": {"type": "object"}}], "max_tokens": 100}
WITHHELD = """
cookie proxy-authorization x-forwarded-for x-envoy-external-address forwarded x-real-ip
x-data-parallel-rank x-prefiller-host-port x-prefiller-url x-gateway-destination-endpoint
""".split()
"""What tells of a client or gives orders. These gateways can only remove headers by their names, at most 16 of them;
extproc's own Envoy lets no others pass than those it knows."""
TOLD_BY_BACKENDS = ["server", "via", "set-cookie", "location", "www-authenticate", "x-powered-by"]
OTHER = "other"
"""A second backend, which the overlay's own routes don't have: added as their READMEs say."""

Translation = Callable[[tuple[Object, ...], Addresses], Object]


UPSTREAM_PATHS = {path: route.upstream for path, route in ROUTES.items()}


@dataclass(frozen=True, slots=True)
class Foreign:
    http: httpx.Client
    vllm: AskedVLLM
    other: AskedVLLM
    processor: subprocess.Popen[bytes]

    def chat(self, model: str = "qwen-coder", **fields: Any) -> httpx.Response:
        headers = fields.pop("headers", {})
        body = {"model": model, "messages": [ASK], "tools": [TOOL], **fields}
        return self.http.post(CHAT_PATH, json=body, headers=headers)

    def ask(self, path: str, **fields: Any) -> httpx.Response:
        match path:
            case _ if path == CHAT_PATH:
                return self.chat(**fields)
            case _ if path == RESPONSES_PATH:
                headers = fields.pop("headers", {})
                return self.http.post(path, json={"model": "qwen-coder", "input": "Hi", **fields}, headers=headers)
            case _:
                return self.messages(path, **fields)

    def messages(self, path: str = MESSAGES_PATH, **fields: Any) -> httpx.Response:
        headers = {"anthropic-version": "2023-06-01", **fields.pop("headers", {})}
        body = {"model": "qwen-coder", "messages": [ASK], **ANTHROPICS, **fields}
        # As Claude Code asks.
        return self.http.post(f"{path}?beta=true", json=body, headers=headers)


def with_a_second_backend(objects: tuple[Object, ...]) -> tuple[Object, ...]:
    """The route of the first backend once more, with the other name in all its places."""
    made: list[Object] = []
    for each in objects:
        text = yaml.safe_load(yaml.safe_dump(each))
        spec = text.get("spec", {})
        if each["metadata"]["name"] == "extproc-chat" and "rules" in spec:
            spec["rules"].insert(0, _renamed(spec["rules"][0]))
        if each["kind"] == "VirtualService":
            spec["http"].insert(0, _renamed(spec["http"][0]))
        made.append(text)
    return tuple(made)


def _renamed(rule: Object) -> Object:
    text = json.dumps(rule)
    for said in ('"vllm"', '"llm-chat-vllm"', '"vllm.gateway.svc.cluster.local"'):
        text = text.replace(said, said.replace("vllm", OTHER))
    return dict(json.loads(text))


@contextmanager
def running(folder: Path, overlay: str) -> Iterator[Foreign]:
    objects = rendered(K8S / "overlays" / overlay)
    config = yaml.safe_load(settings(objects))
    with ExitStack() as stack:
        vllm, other = (stack.enter_context(AskedVLLM(UPSTREAM).running()) for _ in range(2))
        config["backends"] = [
            {"name": "vllm", "address": f"127.0.0.1:{vllm.port}"},
            {"name": OTHER, "address": f"127.0.0.1:{other.port}"},
        ]
        config["models"].append({**config["models"][0], "name": "another", "backend": OTHER})
        (folder / "extproc.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        at = Addresses(free_port(), str(folder / "admin.sock"), free_port(), {"vllm": vllm.port, OTHER: other.port})
        bootstrap = OVERLAYS[overlay](with_a_second_backend(objects), at)
        (folder / "envoy.yaml").write_text(yaml.safe_dump(bootstrap), encoding="utf-8")
        serve = [*EXTPROC, "serve", "--config", str(folder / "extproc.yaml"), "--listen", f"127.0.0.1:{at.processor}"]
        processor = stack.enter_context(child(serve))
        until_healthy(f"127.0.0.1:{at.processor}", processor)
        command = [str(ENVOY), "-c", str(folder / "envoy.yaml"), "--use-dynamic-base-id", "--concurrency", "1"]
        envoy = stack.enter_context(child([*command, "-l", "error"]))
        http = stack.enter_context(
            httpx.Client(base_url=f"http://127.0.0.1:{at.listen}", headers={"host": "llm.example.com"}, timeout=30)
        )
        wait_until(lambda: envoy.poll() is not None or answers(http))
        assert envoy.poll() is None, "Envoy doesn't take what is made of the overlay"
        yield Foreign(http, vllm, other, processor)


@contextmanager
def child(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def answers(http: httpx.Client) -> bool:
    try:
        return http.get("/v1/models").status_code == 200
    except httpx.TransportError:
        return False


OVERLAYS: dict[str, Translation] = {"envoy-gateway": envoy_gateways, "istio": istios}


@pytest.fixture(scope="module", params=OVERLAYS)
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    with running(tmp_path_factory.mktemp(request.param), request.param) as foreign:
        yield foreign


@pytest.fixture
def foreign(started: Foreign) -> Foreign:
    for backend in (started.vllm, started.other):
        backend.forget()
    return started


def asked(backend: ScriptedVLLM) -> list[str]:
    return [request.route for request in backend.requests]


def test_a_call(foreign: Foreign) -> None:
    foreign.vllm.play(Reply(CALL))
    answer = foreign.chat()
    assert answer.status_code == 200, answer.text
    choice = answer.json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city": "Oslo"}'}


def test_a_streamed_call(foreign: Foreign) -> None:
    foreign.vllm.play(Reply(f"I look.\n{CALL}"))
    answer = foreign.chat(stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert events[-1] == "[DONE]"
    deltas = [json.loads(event)["choices"][0] for event in events[:-1]]
    assert deltas[-1]["finish_reason"] == "tool_calls"
    called = [call for each in deltas for call in each["delta"].get("tool_calls", [])]
    assert "".join(call["function"].get("arguments", "") for call in called) == '{"city": "Oslo"}'


@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_in_messages(foreign: Foreign, stream: bool) -> None:
    def told(*messages: Json) -> Json:
        answer = foreign.messages(messages=[ASK, *messages], stream=stream)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream" if stream else "application/json")
        return (message_of if stream else whole_message)(answer.content)

    foreign.vllm.play(Reply(f"I look.\n{CALL}"), Reply("It rains."))
    first = told()
    assert (calls_of(first), first["stop_reason"]) == ([("get_weather", {"city": "Oslo"})], "tool_use")
    result = {"type": "tool_result", "tool_use_id": first["content"][-1]["id"], "content": "rain"}
    second = told({"role": "assistant", "content": first["content"]}, {"role": "user", "content": [result]})
    assert (said_in(second, "text"), second["stop_reason"]) == ("It rains.", "end_turn")
    assert asked(foreign.vllm) == [CHAT_PATH, CHAT_PATH]
    assert "rain" in foreign.vllm.requests[1].body.decode()


def test_tokens_are_counted(foreign: Foreign) -> None:
    counted = foreign.messages(COUNT_TOKENS_PATH)
    assert counted.status_code == 200, counted.text
    assert counted.json() == {"input_tokens": foreign.messages().json()["usage"]["input_tokens"]}
    assert asked(foreign.vllm) == [TOKENIZE_PATH, CHAT_PATH]


@pytest.mark.parametrize("path", UPSTREAM_PATHS)
def test_the_processors_choice_is_where_a_request_goes(foreign: Foreign, path: str) -> None:
    assert foreign.ask(path, model="another").status_code == 200
    assert (asked(foreign.vllm), asked(foreign.other)) == ([], [UPSTREAM_PATHS[path]])


@pytest.mark.parametrize("path", UPSTREAM_PATHS)
def test_what_a_client_says_of_the_backend_counts_for_nothing(foreign: Foreign, path: str) -> None:
    assert foreign.ask(path, headers={"x-extproc-backend": OTHER}).status_code == 200
    assert (asked(foreign.vllm), asked(foreign.other)) == ([UPSTREAM_PATHS[path]], [])


@pytest.mark.parametrize("path", UPSTREAM_PATHS)
def test_a_backend_sees_neither_the_clients_key_nor_our_headers(foreign: Foreign, path: str) -> None:
    keys = {"authorization": "Bearer secret", "x-api-key": "secret"}
    assert foreign.ask(path, headers={**keys, "x-extproc-affinity": "mine"}).status_code == 200
    (request,) = foreign.vllm.requests
    seen = {name.lower() for name, _ in request.headers}
    assert not {*keys, "accept-encoding"} & seen
    assert not [name for name in seen if name.startswith("x-extproc")]


def test_what_is_withheld_from_backends_and_from_clients() -> None:
    withheld = {*KEY_HEADERS, *WITHHELD, BACKEND_HEADER, AFFINITY_HEADER, "accept-encoding"}
    told = {*TOLD_BY_BACKENDS, DROPPED_HEADER, FALLBACK_HEADER, MODEL_HEADER, REPLY_HEADER, USAGE_HEADER}
    gateway = rendered(K8S / "overlays/envoy-gateway")
    clients = one(gateway, "ClientTrafficPolicy", "extproc")["spec"]
    assert clients["headers"]["earlyRequestHeaders"]["remove"] == [BACKEND_HEADER, AFFINITY_HEADER]
    for rule in one(gateway, "HTTPRoute", "extproc-chat")["spec"]["rules"]:
        if "backendRefs" not in rule:
            continue
        assert set(rule["filters"][0]["requestHeaderModifier"]["remove"]) == withheld
        assert set(rule["filters"][1]["responseHeaderModifier"]["remove"]) == told
    route = one(rendered(K8S / "overlays/istio"), "VirtualService", "llm")["spec"]["http"][0]
    assert set(route["headers"]["request"]["remove"]) == withheld
    assert set(route["headers"]["response"]["remove"]) == told
    assert len(withheld) <= 16, "the most that Gateway API allows"


def test_requests_may_be_as_large_as_elsewhere() -> None:
    most = parse(settings(rendered(BASE))).limits.max_body_bytes
    clients = one(rendered(K8S / "overlays/envoy-gateway"), "ClientTrafficPolicy", "extproc")["spec"]
    assert {clients["connection"]["bufferLimit"], *clients["http2"].values()} == {f"{most >> 20}Mi"}
    filters = one(rendered(K8S / "overlays/istio"), "EnvoyFilter", "extproc")["spec"]["configPatches"]
    limits = {each["applyTo"]: each["patch"]["value"] for each in filters}
    windows = limits["NETWORK_FILTER"]["typed_config"]["http2_protocol_options"]
    assert {limits["LISTENER"]["per_connection_buffer_limit_bytes"], *windows.values()} == {most}


def test_a_wrong_request_is_told_why_and_reaches_no_backend(foreign: Foreign) -> None:
    answer = foreign.chat("nobody")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert asked(foreign.vllm) == asked(foreign.other) == []


def test_an_error_of_the_backend_is_told_as_openai_would(foreign: Foreign) -> None:
    answer = foreign.chat(max_tokens=10**9)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] is None  # vLLM's own is the status, as a number


@pytest.mark.parametrize(
    ("path", "wrong", "status", "type_"),
    [
        (MESSAGES_PATH, {"model": "nobody"}, 404, "not_found_error"),
        (MESSAGES_PATH, {"max_tokens": None}, 400, "invalid_request_error"),
        (MESSAGES_PATH, {"max_tokens": 10**9}, 400, "invalid_request_error"),  # says the backend
        (COUNT_TOKENS_PATH, {"model": "nobody"}, 404, "not_found_error"),
    ],
)
def test_errors_of_messages_are_told_as_anthropic_would(
    foreign: Foreign, path: str, wrong: Json, status: int, type_: str
) -> None:
    answer = foreign.messages(path, **wrong)
    assert answer.status_code == status
    assert error_in(answer.content)["type"] == type_


def test_the_models_are_listed_by_the_processor(foreign: Foreign) -> None:
    listed = foreign.http.get("/v1/models").json()["data"]
    assert [model["id"] for model in listed] == ["qwen-coder", "another"]
    assert foreign.http.get("/v1/models/another").json()["id"] == "another"
    anthropics = foreign.http.get("/v1/models", headers={"anthropic-version": "2023-06-01"})
    assert [model["id"] for model in listed_models(anthropics.content)] == ["qwen-coder", "another"]


def test_a_request_larger_than_envoys_own_buffer_is_taken(foreign: Foreign) -> None:
    foreign.chat(user="u" * 2_000_000)  # starts the process that reads it, for which these Envoys may not wait
    answer = foreign.chat(user="u" * 2_000_000)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("path", ["/v1/completions", TOKENIZE_PATH, f"{MESSAGES_PATH}/batches"])
@pytest.mark.parametrize("headers", [{}, {"x-extproc-backend": "vllm"}])
def test_other_paths_are_not_passed_on(foreign: Foreign, path: str, headers: dict[str, str]) -> None:
    """Where backends are asked is no path of clients."""
    body = {"model": "qwen-coder", "prompt": "Hi"}
    assert foreign.http.post(path, json=body, headers=headers).status_code == 404
    assert asked(foreign.vllm) == []


def test_what_was_not_processed_has_no_way_to_a_backend() -> None:
    """Should a policy be deleted, or not be accepted: only the routes that the processor chooses lead anywhere."""
    gateway = rendered(K8S / "overlays/envoy-gateway")
    at = Addresses(1, "/admin", 2, {"vllm": 3})
    for translate, objects in ((envoy_gateways, gateway), (istios, rendered(K8S / "overlays/istio"))):
        manager = translate(objects, at)["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
        (host,) = manager["typed_config"]["route_config"]["virtual_hosts"]
        chosen: list[Object] = []
        open_to_all: list[Object] = []
        for each in host["routes"]:
            (chosen if BACKEND_HEADER in json.dumps(each["match"]) else open_to_all).append(each)
        assert paths(chosen) == sorted(set(UPSTREAM_PATHS.values()))
        assert paths(open_to_all) == sorted([*UPSTREAM_PATHS, MODELS_PATH])
        assert all("route" not in each and each["direct_response"]["status"] == 503 for each in open_to_all)
        if translate is envoy_gateways:
            told = {
                match_of(each): json.loads(each["direct_response"]["body"]["inline_string"]) for each in open_to_all
            }
            assert told[CHAT_PATH]["error"]["code"] == told[MODELS_PATH]["error"]["code"] == "not_processed"
            for path in (MESSAGES_PATH, COUNT_TOKENS_PATH):
                assert (told[path]["type"], told[path]["error"]["type"]) == ("error", error_type(503))


def paths(routes: list[Object]) -> list[str]:
    return sorted(map(match_of, routes))


def match_of(route: Object) -> str:
    """The path that it matches, or how that begins."""
    (path,) = (str(value) for kind, value in route["match"].items() if "path" in kind or "prefix" in kind)
    return path


def test_without_the_processor_nothing_reaches_a_backend(foreign: Foreign) -> None:
    """The last one with this gateway: its processor is gone then."""
    foreign.processor.kill()
    foreign.processor.wait()
    assert all(foreign.ask(path).status_code >= 500 for path in UPSTREAM_PATHS)
    assert foreign.http.get("/v1/models").status_code >= 500
    assert asked(foreign.vllm) == []
