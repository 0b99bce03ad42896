"""The pod of the `characters` overlay: a run's tools are part of its answer, and nobody else depends on them."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from scripted_vllm import Received, Reply, ScriptedVLLM, Stall
from tests.gateway import wait_until
from tests.k8s.rendered import K8S
from tests.pods.clients import CHAT, MODEL, PATIENCE
from tests.pods.manifests import manifests
from tests.pods.pod import NOTICE, Cluster, Pod, cluster
from tests.pods.test_pods import UPSTREAM_MODEL, http_status

pytestmark = pytest.mark.long

OVERLAY = K8S / "overlays/characters"
NARRATOR = "character/narrator"
CHARACTERS = "extproc-characters"
SAMPLE = {name: f"{text}\nTIME_LIMIT = 30\n" for name, text in manifests(OVERLAY).config_maps[CHARACTERS].items()}
"""The overlay's, whose 0.1 seconds for a call are too few where other tests keep the machine busy."""
EVENT = "The gate opens."
LOGGED = f"Logged story event: {EVENT}"
"""What the character's tool returns."""
CALL = Reply(
    "<tool_call>\n"
    + json.dumps({"name": "log_story_event", "arguments": {"event": EVENT, "importance": "high"}})
    + "\n</tool_call>"
)
STORY = Reply("It creaks.")


@pytest.fixture(scope="module")
def backend() -> Iterator[ScriptedVLLM]:
    with ScriptedVLLM(model=UPSTREAM_MODEL).running() as backend:
        yield backend


@pytest.fixture(scope="module")
def pods(backend: ScriptedVLLM) -> Iterator[Cluster]:
    with cluster(backend, OVERLAY) as made:
        made.configure(CHARACTERS, SAMPLE)
        yield made


@pytest.fixture(scope="module")
def pod(pods: Cluster, backend: ScriptedVLLM) -> Pod:
    """One whose runner is there too: the pod is ready without it, and models are served."""
    started = pods.start_pod()
    wait_until(lambda: plays(started, backend))
    return started


@pytest.fixture(autouse=True)
def nothing_left_to_say(backend: ScriptedVLLM) -> None:
    backend.forget()


def ask(pod: Pod, model: str = NARRATOR) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "Go on."}]}
    return httpx.post(f"{pod.url}{CHAT}", json=body, timeout=PATIENCE)


def told(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


def rounds(backend: ScriptedVLLM) -> list[Received]:
    """What the model was asked."""
    return [request for request in backend.requests if request.method == "POST"]


def results(backend: ScriptedVLLM) -> list[str]:
    """What the model was told of tools the last time."""
    return [message["content"] for message in rounds(backend)[-1].json["messages"] if LOGGED in message["content"]]


def plays(pod: Pod, backend: ScriptedVLLM) -> bool:
    """Whether the narrator's tool runs; where it isn't there yet, nothing is left in the queue."""
    backend.forget()
    backend.play(CALL, STORY)
    answer = ask(pod)
    return answer.status_code == 200 and told(answer) == STORY.text and bool(results(backend))


def listed(pod: Pod) -> set[str]:
    return {model["id"] for model in httpx.get(f"{pod.url}/v1/models").json()["data"]}


def test_a_character_answers_with_what_its_tool_did(pod: Pod, backend: ScriptedVLLM) -> None:
    backend.play(CALL, STORY)
    answer = ask(pod)
    assert told(answer) == STORY.text
    assert results(backend)
    assert pod.runner is not None
    assert any(f"[high] {EVENT}" in line["message"] for line in pod.runner.json_log())


def test_it_is_listed_beside_the_models(pod: Pod) -> None:
    wait_until(lambda: listed(pod) == {MODEL, NARRATOR})


def test_sockets_are_for_the_pods_own_user_and_group_alone(pod: Pod) -> None:
    modes = {path.name: stat.filemode(path.stat().st_mode) for path in pod.sockets.iterdir()}
    assert modes == dict.fromkeys(("inner.sock", "runner.sock"), "srw-rw----")


def test_a_broken_character_takes_nothing_from_the_others_and_the_pod_stays_ready(
    pod: Pod, backend: ScriptedVLLM
) -> None:
    broken = {"broken.py": "TOOLS = 1\n", "other.py": "SYSTEM_PROMPT = 'You are brief.'\n"}
    pod.characterize({**SAMPLE, **broken})
    wait_until(lambda: listed(pod) == {MODEL, NARRATOR, "character/other"})
    runner = pod.runner
    assert runner is not None
    wait_until(lambda: any("broken.py" in line["message"] for line in runner.json_log()))  # it reads them by itself
    assert pod.ready
    assert plays(pod, backend)
    assert ask(pod, "character/broken").status_code == 404
    pod.characterize(SAMPLE)
    wait_until(lambda: listed(pod) == {MODEL, NARRATOR})
    assert [each.restarts for each in (pod.processor, runner, pod.envoy)] == [0, 0, 0]


def test_models_are_served_while_the_runner_is_started_again(pod: Pod, backend: ScriptedVLLM) -> None:
    assert pod.runner is not None
    restarts = pod.runner.restarts
    os.kill(pod.runner.pid, signal.SIGKILL)
    assert told(ask(pod, MODEL))
    wait_until(lambda: plays(pod, backend), PATIENCE)
    assert pod.runner.restarts == restarts + 1
    assert pod.processor.restarts == 0


def test_an_envoy_that_is_started_again_serves_characters_too(pod: Pod, backend: ScriptedVLLM) -> None:
    os.kill(pod.envoy.pid, signal.SIGKILL)
    wait_until(lambda: http_status(pod.url) is not None)
    wait_until(lambda: plays(pod, backend), PATIENCE)


def test_a_pod_that_leaves_finishes_its_runs_with_all_their_rounds(pods: Cluster, backend: ScriptedVLLM) -> None:
    leaving = pods.start_pod()
    wait_until(lambda: plays(leaving, backend), PATIENCE)  # A pod is ready before its runner is.
    backend.forget()
    late = Stall(after=None, seconds=NOTICE + 2)
    backend.play(Reply(CALL.text, trouble=late), Reply(CALL.text, trouble=late), STORY)
    with ThreadPoolExecutor(2) as threads:
        answer = threads.submit(ask, leaving)
        assert backend.wait_for(lambda: len(rounds(backend)) == 1, PATIENCE)
        ending = threads.submit(leaving.terminate)
        wait_until(lambda: http_status(leaving.url) is None)
        assert not answer.done()
        assert len(rounds(backend)) < 3
        assert told(answer.result()) == STORY.text
        ended = ending.result()
    assert len(results(backend)) == 2, [message["content"] for message in rounds(backend)[-1].json["messages"]]
    assert (ended.envoy, ended.runner, ended.processor) == (0, 0, 0)
