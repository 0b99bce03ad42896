"""The pod of the manifests does its work, and nobody loses an answer unknowingly when it is replaced or broken."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionFunctionToolParam

from extproc.wire import SERVICE, HeaderMap, HeaderValue, HttpBody, HttpHeaders, ProcessingRequest, ProcessingResponse
from scripted_vllm import ErrorEvent, Fail, Reply, ScriptedVLLM, Stall, Usage
from tests.gateway import wait_until
from tests.pods.clients import CHAT, MODEL, PATIENCE, TEXT, Answer, Asked, Client, Kind, Load, Verdict
from tests.pods.manifests import manifests
from tests.pods.pod import NOTICE, Cluster, Ending, Pod, Service, cluster

pytestmark = pytest.mark.long

UPSTREAM_MODEL = "Qwen/Qwen2.5-Coder-7B-Instruct"
PACE = 0.08
"""Seconds between two tokens: an answer takes one and a half."""
STREAMS = 50
OTHERS = 10

OPERATIONS = Path(__file__).parents[2] / "docs/operations.md"
READ_FILE: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {"name": "read_file", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
}

STREAM_WITH_TOOLS = Kind(stream=True, tools=True)
STREAM_WITHOUT_TOOLS = Kind(stream=True, tools=False)
KINDS = [Kind(stream, tools) for stream in (True, False) for tools in (True, False)]


@pytest.fixture(scope="module")
def backend() -> Iterator[ScriptedVLLM]:
    with ScriptedVLLM(model=UPSTREAM_MODEL).running() as backend:
        yield backend


@pytest.fixture(scope="module")
def pods(backend: ScriptedVLLM) -> Iterator[Cluster]:
    with cluster(backend) as made:
        yield made


@pytest.fixture(scope="module")
def pod(pods: Cluster) -> Pod:
    """One pod for all that leaves it as it was."""
    return pods.start_pod()


@pytest.fixture(scope="module")
def service(pods: Cluster, pod: Pod) -> Service:
    """Two pods, which are replaced."""
    return Service([pod, pods.start_pod()])


@pytest.fixture(autouse=True)
def nothing_left_to_say(backend: ScriptedVLLM) -> None:
    backend.forget()


# ---- the main job


def test_the_pod_answers_with_tool_calls(pod: Pod) -> None:
    with openai.OpenAI(base_url=f"{pod.url}/v1", api_key="unused", max_retries=0) as client:
        answer = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "Read the file main.py"}], tools=[READ_FILE]
        )
    calls = answer.choices[0].message.tool_calls
    assert calls is not None
    assert [call.to_dict()["function"] for call in calls] == [{"name": "read_file", "arguments": '{"path": "main.py"}'}]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_pod_answers_whole(pod: Pod, backend: ScriptedVLLM, kind: Kind) -> None:
    backend.play(Reply(TEXT))
    with closing(Client(lambda: pod.url)) as client:
        assert client.ask(kind).verdict() is Verdict.WHOLE


def test_the_pods_metrics_are_where_its_port_says(pod: Pod) -> None:
    assert "extproc_build_info" in httpx.get(pod.metrics_url).text


def test_a_changed_configmap_reaches_the_running_pod(pod: Pod) -> None:
    before = manifests().config_maps["extproc"]["extproc.yaml"]
    with httpx.Client(base_url=pod.url) as client:

        def listed() -> set[str]:
            return {model["id"] for model in client.get("/v1/models").json()["data"]}

        pod.configure(before.replace("name: qwen-coder", "name: renamed"))
        wait_until(lambda: listed() == {"renamed"})
        pod.configure(before)
        wait_until(lambda: listed() == {MODEL})
    assert pod.processor.restarts == pod.envoy.restarts == 0


def test_envoy_listens_for_what_the_gateway_asks_itself_once_a_model_needs_it(pod: Pod) -> None:
    before = manifests().config_maps["extproc"]["extproc.yaml"]
    assert not list(pod.sockets.iterdir())
    pod.configure(before.replace("tools: prompt", "tools: prompt\n    retry: true"))
    wait_until(lambda: [path.name for path in pod.sockets.iterdir()] == ["inner.sock"])
    pod.configure(before)
    with closing(Client(lambda: pod.url)) as client:
        assert client.ask(STREAM_WITH_TOOLS).status == 200


# ---- logs

SECRET = "kept-to-oneself"
"""Planted wherever a client, a model or a backend may say something."""

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def told_secrets(pod: Pod, request_id: str, **fields: Any) -> httpx.Response:
    keys = dict.fromkeys(("authorization", "api-key", "x-api-key", "cookie"), f"Bearer {SECRET}")
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": SECRET}],
        "tools": [{"type": "function", "function": {"name": SECRET, "description": SECRET}}],
        "user": SECRET,
        **fields,
    }
    headers = {**keys, "x-request-id": request_id, "traceparent": TRACEPARENT}
    return httpx.post(f"{pod.url}{CHAT}?key={SECRET}", json=body, headers=headers, timeout=PATIENCE)


def ask_processor_nonsense(pod: Pod, request_id: str) -> None:
    """As an Envoy would that is configured wrongly: what comes behind the headers of a request is no request's body."""
    fields = {":method": "POST", ":path": CHAT, "x-request-id": request_id}
    header = HeaderMap(headers=[HeaderValue(key=name, raw_value=value.encode()) for name, value in fields.items()])
    said = HttpBody(body=SECRET.encode())
    messages = [ProcessingRequest(request_headers=HttpHeaders(headers=header)), ProcessingRequest(response_body=said)]
    with grpc.insecure_channel(f"unix:{pod.socket}") as channel:
        process = channel.stream_stream(
            f"/{SERVICE}/Process",
            request_serializer=ProcessingRequest.SerializeToString,
            response_deserializer=ProcessingResponse.FromString,
        )
        with pytest.raises(grpc.RpcError):
            list(process(iter(messages), timeout=PATIENCE))


def test_the_containers_logs_are_json_lines_with_one_request_id_and_tell_nothing_that_was_said(
    pod: Pod, backend: ScriptedVLLM
) -> None:
    call = f'<tool_call>\n{{"name": "{SECRET}", "arguments": {{"a": "{SECRET}"}}}}\n</tool_call>'
    backend.play(Reply(call), Reply(SECRET), Reply(trouble=ErrorEvent(message=SECRET)), Reply(trouble=Fail(500)))
    answers = {
        "a-call": told_secrets(pod, "a-call"),
        "a-text": told_secrets(pod, "a-text", stream=True),
        "an-error-inside": told_secrets(pod, "an-error-inside", stream=True),
        "a-failure": told_secrets(pod, "a-failure"),
        "a-refusal": told_secrets(pod, "a-refusal", tool_choice=SECRET),
        "a-model-that-is-not-there": told_secrets(pod, "a-model-that-is-not-there", model=SECRET),
    }
    assert SECRET in answers["a-call"].text
    assert [each.status_code for each in answers.values()] == [200, 200, 200, 500, 400, 404]
    ask_processor_nonsense(pod, "nonsense")
    wait_until(lambda: {*answers} <= {line.get("request_id") for line in pod.access_log()}, PATIENCE)
    wait_until(lambda: "nonsense" in {line.get("request_id") for line in pod.processor.json_log()})
    assert SECRET not in "".join(pod.envoy.log + pod.processor.log)
    by_id = {line.get("request_id"): line for line in pod.access_log()}
    assert all(by_id[request_id]["traceparent"] == TRACEPARENT for request_id in answers)
    assert {request.header("traceparent") for request in backend.requests if request.method == "POST"} == {TRACEPARENT}


def test_the_printed_accounting_adds_up_the_access_log(pod: Pod, backend: ScriptedVLLM) -> None:
    (program,) = re.findall(r"python3 -c '\n(.*?)'\n", OPERATIONS.read_text(encoding="utf-8"), re.DOTALL)
    usage = Usage(prompt=1000, completion=234)
    backend.play(*[Reply(TEXT, usage=usage)] * 2)
    log = len(pod.access_log())
    with closing(Client(lambda: pod.url)) as client:
        answers = [client.ask(Kind(stream, tools=True)) for stream in (True, False)]
    assert [each.verdict() for each in answers] == [Verdict.WHOLE] * 2
    wait_until(lambda: len(pod.access_log()) == log + 2)
    text = "\n".join(["[warning] not every line is JSON", *pod.envoy.log[log:]])
    told = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, check=True)
    assert told.stdout == f"- {MODEL} completion_tokens 468\n- {MODEL} prompt_tokens 2000\n"


# ---- the processor dies

UNTIL_IT_ENDS = 60.0
"""Seconds that a model is silent when only the death of the processor ends the wait for it."""
A_WHILE = 10.0
"""Seconds that it is silent in a stream which outlives the processor: enough to have ten of them begin, and kill."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What came of a SIGKILL of the processor under load."""

    verdicts: dict[Kind, Counter[Verdict]]
    statuses: dict[Kind, Counter[int]]
    seconds: float
    """Until a new request with tools was answered again."""
    start: float
    """What a start of the processor takes by itself on this machine, now or when the pod started."""
    refusals: Counter[int]
    """Statuses of new requests until then."""


@pytest.fixture(scope="module")
def aftermath(pod: Pod, backend: ScriptedVLLM) -> Aftermath:
    backend.forget()
    with ThreadPoolExecutor(STREAMS + 3 * OTHERS) as threads:
        asked: list[Asked] = []
        # Last those that go on by themselves.
        for kind in sorted(KINDS, key=lambda kind: kind == STREAM_WITHOUT_TOOLS):
            number = STREAMS if kind == STREAM_WITH_TOOLS else OTHERS
            silence = A_WHILE if kind == STREAM_WITHOUT_TOOLS else UNTIL_IT_ENDS
            # A whole answer comes in one piece: there is nothing before which its model could be silent.
            backend.play(*[Reply(TEXT, trouble=Stall(after=5 if kind.stream else None, seconds=silence))] * number)
            group = [Asked(threads, kind, pod.url) for _ in range(number)]
            asked += group
            # Before the next ones come: replies go to requests in their order.
            assert _have_come(backend, len(asked))
            if kind.stream:
                assert all(each.begun.wait(PATIENCE) for each in group)
        assert all(each.under_way for each in asked)
        # A stream without tools is let go right after its headers, which its client may have a moment before.
        wait_until(lambda: _has_a_part_in(pod) == len(asked) - OTHERS)
        restarts = pod.processor.restarts
        os.kill(pod.processor.pid, signal.SIGKILL)
        killed = time.monotonic()
        backend.play(*[Reply(TEXT)] * 100)
        retries: list[Answer] = []
        with closing(Client(lambda: pod.url)) as client:

            def served() -> bool:
                retries.append(client.ask(STREAM_WITH_TOOLS))
                return retries[-1].status == 200

            wait_until(served, PATIENCE)
        seconds = time.monotonic() - killed
        assert [each.verdict() for each in retries] == [*[Verdict.ERROR] * (len(retries) - 1), Verdict.WHOLE]
        answers = [(each.kind, each.answer()) for each in asked]
    assert pod.processor.restarts == restarts + 1
    made = Aftermath(
        {kind: Counter(a.verdict() for k, a in answers if k == kind) for kind in KINDS},
        {kind: Counter(a.status for k, a in answers if k == kind) for kind in KINDS},
        seconds,
        max(pod.processor.starts),
        Counter(each.status for each in retries[:-1]),
    )
    for kind in KINDS:
        print(f"{kind}: {_told(made.verdicts[kind])} (status: {dict(made.statuses[kind])})")
    print(f"served again after {seconds:.2f} s, of which a start takes up to {made.start:.2f} s; {dict(made.refusals)}")
    return made


def _has_a_part_in(pod: Pod) -> int:
    """How many exchanges the processor says that it carries."""
    sample = "extproc_running_exchanges "
    lines = httpx.get(pod.metrics_url).text.splitlines()
    return sum(int(float(line.removeprefix(sample))) for line in lines if line.startswith(sample))


def _have_come(backend: ScriptedVLLM, chats: int) -> bool:
    return backend.wait_for(lambda: _chats(backend) == chats, PATIENCE)


def _chats(backend: ScriptedVLLM) -> int:
    return sum(request.method == "POST" for request in backend.requests)


def test_new_requests_are_served_again_within_two_seconds_or_two_starts(aftermath: Aftermath) -> None:
    assert aftermath.seconds < max(2, 2 * aftermath.start)


def test_until_then_they_are_told_why(aftermath: Aftermath) -> None:
    assert set(aftermath.refusals) <= {503}


def test_clients_of_streams_with_tools_see_that_they_broke(aftermath: Aftermath) -> None:
    assert aftermath.verdicts[STREAM_WITH_TOOLS] == {Verdict.CUT: STREAMS}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.stream], ids=str)
def test_clients_of_whole_answers_get_an_error(aftermath: Aftermath, kind: Kind) -> None:
    assert aftermath.verdicts[kind] == {Verdict.ERROR: OTHERS}
    assert aftermath.statuses[kind] == {500: OTHERS}


def test_streams_without_tools_go_past_the_processor_and_live_on(aftermath: Aftermath) -> None:
    assert aftermath.verdicts[STREAM_WITHOUT_TOOLS] == {Verdict.WHOLE: OTHERS}


# ---- Envoy dies


def test_an_envoy_that_is_started_again_finds_its_configuration(pod: Pod, backend: ScriptedVLLM) -> None:
    backend.play(Reply(TEXT, trouble=Stall(after=5, seconds=UNTIL_IT_ENDS)))
    with ThreadPoolExecutor(1) as threads:
        stream = Asked(threads, STREAM_WITH_TOOLS, pod.url)
        assert stream.begun.wait(20)
        os.kill(pod.envoy.pid, signal.SIGKILL)
        assert stream.answer().verdict() is Verdict.CUT
    wait_until(lambda: http_status(pod.url) is not None)
    backend.play(Reply(TEXT))
    with closing(Client(lambda: pod.url)) as client:
        assert client.ask(STREAM_WITH_TOOLS).verdict() is Verdict.WHOLE
    assert pod.envoy.restarts == 1


# ---- pods are replaced


def test_no_stream_breaks_when_all_pods_are_replaced(pods: Cluster, service: Service, backend: ScriptedVLLM) -> None:
    load, endings = Load(), []
    backend.play(*[Reply(TEXT, pace=PACE)] * 5000)
    with load.from_clients(STREAMS, service.url):
        for old in service.pods[:]:
            service.pods.append(pods.start_pod())
            endings.append(old.terminate())
            service.pods.remove(old)
    gap = max(answer.longest_gap for answer in load.answers)
    seconds = [round(each.seconds, 1) for each in endings]
    print(
        f"{STREAMS} clients, {load.connections} connections, {len(load.answers)} streams: "
        f"{_told(load.verdicts())}; "
        f"longest silence {gap:.2f} s at a pace of {PACE} s; the pods took {seconds} s to leave"
    )
    assert load.verdicts() == {Verdict.WHOLE: len(load.answers)}
    assert len(load.answers) >= 2 * STREAMS
    assert all(map(ended_well, endings))


def test_a_pod_that_leaves_finishes_what_it_has_begun(service: Service, backend: ScriptedVLLM) -> None:
    leaving = service.pods.pop()
    backend.play(*[Reply(TEXT, pace=PACE)] * 4, *[Reply(TEXT, trouble=Stall(after=None, seconds=2 * NOTICE))] * 2)
    with ThreadPoolExecutor(8) as threads, closing(Client(lambda: leaving.url)) as idle:
        asked = [Asked(threads, kind, leaving.url) for kind in KINDS if kind.stream for _ in range(2)]
        assert all(each.begun.wait(20) for each in asked)
        asked += [Asked(threads, kind, leaving.url) for kind in KINDS if not kind.stream]
        assert _have_come(backend, len(asked))
        backend.play(*[Reply(TEXT)] * 3)
        assert idle.ask(STREAM_WITH_TOOLS).verdict() is Verdict.WHOLE
        ending = threads.submit(leaving.terminate)
        wait_until(lambda: not leaving.ready)
        # On a connection that was there, and on a new one from a node that doesn't know yet.
        late = [Asked(threads, STREAM_WITH_TOOLS, leaving.url).answer(), idle.ask(STREAM_WITH_TOOLS)]
        assert [each.verdict() for each in late] == [Verdict.WHOLE] * 2
        assert [each.answer().verdict() for each in asked] == [Verdict.WHOLE] * len(asked)
        assert ended_well(ending.result())
    assert http_status(leaving.url) is None


def _told(verdicts: Counter[Verdict]) -> str:
    return ", ".join(f"{number} {verdict.value}" for verdict, number in verdicts.items())


def ended_well(ending: Ending) -> bool:
    """By themselves, long before the grace period's end."""
    return ending.envoy == 0 and ending.processor == 0


def http_status(url: str) -> int | None:
    """None when nobody is there."""
    try:
        return httpx.get(url).status_code
    except httpx.TransportError:
        return None
