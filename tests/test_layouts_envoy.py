"""The layouts of other people's filters on a real Envoy: calls, streams, errors and plain answers through each.

`FILTERS` is what the configurations of docs/hosts.md become as an Envoy filter.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from extproc.config import parse
from extproc.exchange.context import ExchangeContext
from extproc.observability.telemetry import Telemetry
from extproc.server.processor import Processor
from scripted_vllm import Reply, ScriptedVLLM
from scripted_vllm.troubles import Fail, Garbage
from tests.gateway import ENVOY, MODEL, free_port, until_ready
from tests.in_thread import in_thread
from tests.test_answer import CALL
from tests.test_dialects import of_stream, of_whole
from tests.test_layouts import PATHS, TOOLS

_TYPE = "type.googleapis.com/envoy.extensions"


def filter_of(request: str, response: str, *, trailers: str = "SKIP", **settings: Any) -> dict[str, Any]:
    mode = {
        "request_header_mode": "SEND",
        "response_header_mode": "SEND",
        "request_body_mode": request,
        "response_body_mode": response,
        "request_trailer_mode": "SEND" if request == FULL else trailers,
        "response_trailer_mode": "SEND" if response == FULL else trailers,
    }
    return {"processing_mode": mode, **settings}


FULL = "FULL_DUPLEX_STREAMED"
FILTERS: Mapping[str, dict[str, Any]] = {
    # Envoy's own limit of 200 ms for a message, which holds for none in full duplex.
    "inference extension": filter_of(FULL, FULL, failure_mode_allow=False),
    "inference extension, eager": filter_of(FULL, FULL, send_body_without_waiting_for_header_response=True),
    "Envoy Gateway, Buffered": filter_of("BUFFERED", "BUFFERED", message_timeout="5s"),
    "Envoy Gateway, Streamed": filter_of("STREAMED", "STREAMED", message_timeout="5s"),
    "Istio, answers alone in full duplex": filter_of("BUFFERED", FULL, message_timeout="5s"),
    "Istio, requests alone in full duplex": filter_of(FULL, "BUFFERED", trailers="SEND", message_timeout="5s"),
    "Google Cloud, by default": filter_of("STREAMED", "STREAMED", trailers="SEND", message_timeout="1s"),
    "Google Cloud, answers alone in pieces": filter_of("BUFFERED", "STREAMED", message_timeout="5s"),
}
PIECES = [name for name, each in FILTERS.items() if each["processing_mode"]["response_body_mode"] != "BUFFERED"]
"""Those whose clients get a stream as it comes."""
AHEAD = [name for name, each in FILTERS.items() if each["processing_mode"]["response_body_mode"] == "STREAMED"]
"""Those in which an answer's status leaves before its body is known."""
FOREMOST = ("inference extension", "Google Cloud, by default")
REFUSED: Mapping[str, dict[str, Any]] = {
    "partial": filter_of("BUFFERED_PARTIAL", "BUFFERED"),
    "no answers": filter_of(FULL, "NONE", allow_mode_override=True),
}


def listener(name: str, filter_: dict[str, Any], port: int) -> dict[str, Any]:
    processor = {
        "@type": f"{_TYPE}.filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": "processor"}},
        **filter_,
    }
    manager = {
        "@type": f"{_TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "hosts",
        "http_filters": [
            {"name": "ext_proc", "typed_config": processor},
            {"name": "router", "typed_config": {"@type": f"{_TYPE}.filters.http.router.v3.Router"}},
        ],
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster_header": "x-extproc-backend"}}],
                }
            ]
        },
    }
    filters = [{"name": "manager", "typed_config": manager}]
    return {"name": name, "address": address(port), "filter_chains": [{"filters": filters}]}


def address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def cluster(name: str, where: dict[str, Any], **more: Any) -> dict[str, Any]:
    assignment = {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": where}}]}]}
    return {"name": name, "type": "STATIC", "load_assignment": assignment, **more}


class Hosts:
    """One Envoy with a listener for each, and one processor and backend behind all of them."""

    def __init__(self, ports: Mapping[str, int], backend: ScriptedVLLM, telemetry: Telemetry) -> None:
        self.ports = ports
        self.backend = backend
        self.telemetry = telemetry

    def url(self, name: str, path: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}{path}"

    def ask(self, name: str, dialect: Any = "chat", *, tools: bool = True, **fields: Any) -> httpx.Response:
        return httpx.post(self.url(name, PATHS[dialect]), json=asked(dialect, tools=tools, **fields), timeout=30)

    def bugs(self) -> float:
        lines = self.telemetry.page().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if 'reason="bug"' in line)


def asked(dialect: Any, *, tools: bool = True, **fields: Any) -> dict[str, Any]:
    words = "Weather in Zürich?"
    said = {"input": words} if dialect == "responses" else {"messages": [{"role": "user", "content": words}]}
    limit = {"max_tokens": 300} if dialect == "messages" else {}
    return {"model": MODEL, **said, **limit, **({"tools": [TOOLS[dialect]]} if tools else {}), **fields}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("layouts")
    with ScriptedVLLM(model=MODEL, max_model_len=200_000).running() as backend:
        config = parse(
            f"models: [{{name: {MODEL}, backend: qwen, tools: prompt}}]\nother_paths: [/tokenize]\n"
            f'backends: [{{name: qwen, address: "127.0.0.1:{backend.port}", health_check: false}}]\n'
        )
        ports = {name: free_port() for name in (*FILTERS, *REFUSED)}
        http2 = {
            "@type": f"{_TYPE}.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
        options = {
            "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2}
        }
        made = {
            "admin": {"address": {"pipe": {"path": f"{folder}/admin.sock"}}},
            "static_resources": {
                "listeners": [listener(name, each, ports[name]) for name, each in {**FILTERS, **REFUSED}.items()],
                "clusters": [
                    cluster("qwen", address(backend.port)),
                    cluster("processor", {"pipe": {"path": f"{folder}/processor.sock"}}, **options),
                ],
            },
        }
        (folder / "envoy.yaml").write_text(yaml.safe_dump(made))
        telemetry = Telemetry(config)
        processor = Processor(ExchangeContext(config), telemetry).running(f"unix:{folder}/processor.sock")
        with in_thread(processor), (folder / "envoy.log").open("wb") as log:
            command = [str(ENVOY), "-c", str(folder / "envoy.yaml"), "--use-dynamic-base-id", "--concurrency", "1"]
            envoy = subprocess.Popen([*command, "-l", "error"], stdout=log, stderr=log)
            try:
                until_ready(folder, envoy)
                yield Hosts(ports, backend, telemetry)
            finally:
                envoy.terminate()
                envoy.wait(30)
        assert Hosts(ports, backend, telemetry).bugs() == 0


@pytest.mark.parametrize(
    ("name", "dialect"),
    [*((name, "chat") for name in FILTERS), *((name, each) for name in FOREMOST for each in ("messages", "responses"))],
)
def test_calls_reach_the_client(hosts: Hosts, name: str, dialect: Any) -> None:
    for stream in (False, True):
        hosts.backend.play(Reply("I look. " + CALL))
        answer = hosts.ask(name, dialect, stream=stream)
        assert answer.status_code == 200
        heard = (of_stream if stream else of_whole)(dialect, answer.content)
        assert (heard.calls, heard.text.strip()) == ([("get_weather", {"city": "Zürich"})], "I look.")
        assert b"You can use these tools" in hosts.backend.requests[-1].body
        assert hosts.backend.requests[-1].route == PATHS["chat"]


@pytest.mark.parametrize("name", PIECES)
def test_streams_stay_streams(hosts: Hosts, name: str) -> None:
    hosts.backend.play(Reply("one two three four " + CALL, pace=0.03))
    with httpx.stream("POST", hosts.url(name, PATHS["chat"]), json=asked("chat", stream=True), timeout=30) as answer:
        pieces = [piece for piece in answer.iter_raw() if piece]
    assert len(pieces) > 3
    assert of_stream("chat", b"".join(pieces)).calls == [("get_weather", {"city": "Zürich"})]


@pytest.mark.parametrize("name", FILTERS)
def test_errors_are_errors(hosts: Hosts, name: str) -> None:
    hosts.backend.play(Reply(trouble=Fail(429, retry_after=7)))
    answer = hosts.ask(name)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert "error" in answer.json()
    hosts.backend.play(Reply(trouble=Garbage()))
    try:
        status = hosts.ask(name).status_code
    except httpx.RemoteProtocolError:  # cut off
        status = 0
    assert status in ((0, 500) if name in AHEAD else (502,))
    before = len(hosts.backend.requests)
    wrong = hosts.ask(name, messages=[])
    assert (wrong.status_code, wrong.headers["content-type"]) == (400, "application/json")
    assert len(hosts.backend.requests) == before


@pytest.mark.parametrize("name", FILTERS)
def test_what_needs_no_change_passes_whole(hosts: Hosts, name: str) -> None:
    """Also at once, and where the processor leaves in the middle of it."""
    text = "It is raining. " * 300
    plain: dict[str, Any] = {"tools": False, "max_completion_tokens": 20_000}

    def one(stream: bool) -> str:
        answer = hosts.ask(name, stream=stream, **plain)
        assert answer.status_code == 200
        heard = (of_stream if stream else of_whole)("chat", answer.content)
        assert not heard.calls
        return heard.text

    kinds = [False, True] * 4
    hosts.backend.play(*[Reply(text, pieces=200) for _ in kinds])
    with ThreadPoolExecutor(8) as pool:
        assert [len(heard) for heard in pool.map(one, kinds)] == [len(text)] * len(kinds)
    words = {"model": MODEL, "messages": [{"role": "user", "content": "a b c " * 20_000}]}
    tokens = httpx.post(hosts.url(name, "/tokenize"), json=words, timeout=30)
    assert (tokens.status_code, tokens.json()["count"] > 20_000) == (200, True)
    listed = httpx.get(hosts.url(name, "/v1/models"), timeout=30)
    assert [model["id"] for model in listed.json()["data"]] == [MODEL]


@pytest.mark.parametrize("name", FOREMOST)
def test_large_requests_reach_the_backend(hosts: Hosts, name: str) -> None:
    hosts.backend.play(Reply(CALL))
    words = "word " * 60_000
    answer = hosts.ask(name, messages=[{"role": "user", "content": words}])
    assert answer.status_code == 200
    assert of_whole("chat", answer.content).calls
    assert words.encode() in hosts.backend.requests[-1].body


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_right_is_refused(hosts: Hosts, name: str) -> None:
    before = len(hosts.backend.requests)
    assert hosts.ask(name).status_code == 500
    assert len(hosts.backend.requests) == before


def test_the_page_names_what_is_tried() -> None:
    page = (Path(__file__).parents[1] / "docs" / "hosts.md").read_text()
    table = page.partition("## Which host has which")[2].partition("```")[0]
    tried = [row.strip("|").split("|")[2:] for row in table.splitlines() if row.startswith("| ")][1:]
    filters = {**FILTERS, **REFUSED}
    named = set[str]()
    for layout, what in tried:
        for name in re.findall("`([^`_.]+)`", what):
            if name in filters:
                mode = filters[name]["processing_mode"]
                modes = f"{mode['request_body_mode']}/{mode['response_body_mode']}"
                wanted = "refused" if name in REFUSED else modes.replace(f"{FULL}/{FULL}", f"{FULL} both ways")
                assert wanted == layout.replace("`", "").strip(), name
                named.add(name)
    assert named == {*filters} - {"inference extension, eager", "Google Cloud, answers alone in pieces"}
