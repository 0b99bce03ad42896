"""Blocks of commands that no test of their own page runs, run as they are printed.

One gateway is behind most: that of docs/no-tool-calls.md, `extproc up` in front of a scripted vLLM.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from extproc.config import load
from scripted_vllm import ScriptedVLLM
from tests.documented.blocks import block
from tests.documented.stage import Stage
from tests.gateway import MODEL, wait_until
from tests.site.pages import ROOT

pytestmark = pytest.mark.long

NO_TOOL_CALLS = "docs/no-tool-calls.md"
READY = "Ready at"


def lines(page: str, starts: str) -> list[str]:
    """The lines of a block whose commands take one each."""
    return block(page, starts).splitlines()


def json_lines(printed: str) -> Iterator[Any]:
    """The JSON documents that stand one behind another."""
    while printed := printed.lstrip():
        value, end = json.JSONDecoder().raw_decode(printed)
        printed = printed[end:]
        yield value


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A gateway runs at 127.0.0.1:10000, with metrics at 9002, in front of gpu-host:8000."""
    folder = tmp_path_factory.mktemp("documented")
    with ScriptedVLLM(model=MODEL).running() as backend:
        stage = Stage(
            folder, {"gpu-host:8000": f"127.0.0.1:{backend.port}", "127.0.0.1:8000": f"127.0.0.1:{backend.port}"}
        )
        model = {"name": "qwen-coder", "backend": "gpu", "upstream_model": MODEL, "tools": "prompt"}
        settings = {"models": [model], "backends": [{"name": "gpu", "address": f"127.0.0.1:{backend.port}"}]}
        (folder / "extproc.yaml").write_text(yaml.safe_dump({"listen": stage.address("127.0.0.1:10000"), **settings}))
        up = f"extproc up --config extproc.yaml --metrics {stage.address('127.0.0.1:9002')}"
        with stage.serving(up, READY):
            yield stage


def ask(stage: Stage, address: str) -> str:
    """The question of docs/no-tool-calls.md, at the gateway that is printed so; the answer's finish reason."""
    printed = block(NO_TOOL_CALLS, "curl -sS http://127.0.0.1:10000/v1/chat").replace("127.0.0.1:10000", address)
    return str(json.loads(stage.run(printed))["choices"][0]["finish_reason"])


def test_the_question_gets_a_call(stage: Stage) -> None:
    assert ask(stage, "127.0.0.1:10000") == "tool_calls"


def test_the_local_overlays_question_gets_a_call(stage: Stage) -> None:
    models, call = json_lines(stage.run(block("deploy/k8s/overlays/local/README.md", "curl")))
    assert [model["id"] for model in models["data"]] == ["qwen-coder"]
    assert call["choices"][0]["finish_reason"] == "tool_calls"


def test_the_four_that_look(stage: Stage) -> None:
    check, probe, metrics, _ = lines(NO_TOOL_CALLS, "extproc check")
    assert "OK: 1 model" in stage.run(check)
    assert MODEL in stage.run(probe)
    assert "extproc_requests_total" in stage.run(metrics)


def test_formats_are_shown(stage: Stage) -> None:
    formats, probe = lines(NO_TOOL_CALLS, "extproc formats")
    assert "hermes" in stage.run(formats)
    assert "format" in stage.run(probe)


@pytest.mark.parametrize(
    "starts", ["curl -sS http://127.0.0.1:9002/metrics | grep extproc_invalid", "curl -sS http://gpu-host:8000/metrics"]
)
def test_counts_are_found(stage: Stage, starts: str) -> None:
    ask(stage, "127.0.0.1:10000")
    stage.run(block(NO_TOOL_CALLS, starts))


def test_an_exchange_is_recorded_and_looked_at(stage: Stage) -> None:
    record, diagnose = lines(
        NO_TOOL_CALLS, "extproc record recordings --config extproc.yaml --listen 127.0.0.1:10001    #"
    )
    again, replay = lines(NO_TOOL_CALLS, "extproc record recordings --config extproc.yaml --listen 127.0.0.1:10001\n")
    assert record.startswith(again)
    with stage.serving(record, READY):
        assert ask(stage, "127.0.0.1:10001") == "tool_calls"
        wait_until(lambda: list((stage.folder / "recordings").glob("*.json")))
    assert "recordings/" in stage.run(diagnose)
    shown = stage.run(replay)
    assert "What is the weather in Paris?" in shown
    assert replay == block("docs/recording.md", "extproc replay recordings").strip()


def test_a_recording_is_played(stage: Stage) -> None:
    with stage.serving(block("docs/recording.md", "extproc record").strip() + " --listen 127.0.0.1:10001", READY):
        printed = block(NO_TOOL_CALLS, "curl -sS http://127.0.0.1:10000/v1/chat").replace('"qwen-coder"', f'"{MODEL}"')
        stage.run(printed.replace("127.0.0.1:10000", "127.0.0.1:10001"))
        wait_until(lambda: MODEL in "".join(each.read_text() for each in (stage.folder / "recordings").glob("*.json")))
    newest = max((stage.folder / "recordings").glob("*.json"))
    newest.rename(stage.folder / "report.json")
    (stage.folder / "my.yaml").write_text((stage.folder / "extproc.yaml").read_text().replace("qwen-coder", MODEL))
    same, show, cut, other, save = lines("docs/recording.md", "extproc replay report.json")
    assert "same" in stage.run(same)
    assert "What is the weather in Paris?" in stage.run(show)
    assert "same" in stage.run(cut)
    assert "not the same" in stage.run(other, status=1)  # it names the backend otherwise
    (stage.folder / "tests/recordings").mkdir(parents=True)
    assert "lost-second-call" in stage.run(save)


def test_the_page_of_metrics_is_there(stage: Stage) -> None:
    _, _, page = lines("docs/observability.md", "extproc serve")
    assert "extproc_requests_total" in stage.run(page)


def test_tokens_are_added_up(stage: Stage) -> None:
    """What Envoy logs, in the place of what `kubectl logs` would show of it."""
    log = ["Envoy begins", json.dumps({"extproc": None})]
    log += [
        json.dumps({"extproc": {"client": "alice", "model": "m", "prompt_tokens": 3, "completion_tokens": tokens}})
        for tokens in (4, 5)
    ]
    program = stage.programs / "kubectl"
    program.write_text("#!/bin/sh\ncat <<'EOF'\n" + "\n".join(log) + "\nEOF\n")
    program.chmod(0o755)
    try:
        added = stage.run(block("docs/operations.md", "kubectl logs"))
    finally:
        program.unlink()
    assert added == "alice m completion_tokens 9\nalice m prompt_tokens 6\n"


def test_keys_are_made_and_come_into_a_secret(stage: Stage) -> None:
    """What a cluster would be given is shown instead."""
    printed = block("deploy/k8s/README.md", "openssl rand")
    assert printed.count("kubectl apply -f -") == 1
    secret = yaml.safe_load(
        stage.run(printed.replace("kubectl apply -f -", "cat")).partition("apiVersion")[2].join(["apiVersion", ""])
    )
    assert (secret["kind"], secret["metadata"]["name"]) == ("Secret", "extproc-api-keys")
    keyed = {
        **yaml.safe_load((stage.folder / "extproc.yaml").read_text()),
        "api_keys": str(stage.folder / "api-keys"),
        "teams": [{"name": "search"}],
    }
    (stage.folder / "keyed.yaml").write_text(yaml.safe_dump(keyed))
    assert load(stage.folder / "keyed.yaml").api_keys
    assert [line.partition(":")[0] for line in (stage.folder / "api-keys").read_text().splitlines()] == [
        "alice",
        "search/bob",
    ]


def test_the_page_of_exchanges_is_served(stage: Stage) -> None:
    """By a file of its own: the gateway that runs would follow a change of its own."""
    settings = yaml.safe_load((stage.folder / "extproc.yaml").read_text())
    settings |= {"listen": stage.another("127.0.0.1:10001"), "sockets": str(stage.folder)}
    (stage.folder / "watched.yaml").write_text(yaml.safe_dump(settings))
    up, alone = (
        block("docs/watch.md", starts).replace("extproc.yaml", "watched.yaml")
        for starts in ("extproc up", "extproc watch --config extproc.yaml\n")
    )
    with stage.serving(f"{up.strip()}={stage.address('127.0.0.1:9003')}", "token=") as said:
        assert f"Ready at http://{settings['listen']}/v1" in said
    with stage.serving(f"{alone.strip()} --listen {stage.another('127.0.0.1:9003')}", "token="):
        pass


def test_the_runner_is_a_process_of_its_own(stage: Stage) -> None:
    printed = block("docs/server-tools.md", "extproc runner").replace("/run/extproc", str(stage.folder / "sockets"))
    (stage.folder / "sockets").mkdir(mode=0o700)
    assert block("docs/observability.md", "extproc runner") in printed.replace(f" --sockets {stage.folder}/sockets", "")
    with stage.serving(printed, ""):
        address = stage.address("127.0.0.1:9102")

        def page() -> bool:
            try:
                return "extproc_runs" in httpx.get(f"http://{address}/metrics").text
            except httpx.ConnectError:
                return False

        wait_until(page)


def test_a_parser_of_ones_own_is_judged(stage: Stage) -> None:
    (stage.folder / "my_adapter.py").write_text(block("docs/corpus.md", "from extproc.corpus import Given"))
    ours, theirs = lines("docs/corpus.md", "extproc conformance tools --parser extproc")
    assert "all" in stage.run(
        f"{ours} --format hermes"
    )  # all formats take half a minute: tests/test_corpus.py has them
    assert json.loads(stage.run(theirs, status=1))["passed"] == 1
    (stage.folder / "judging.py").write_text(block("docs/corpus.md", "from extproc.corpus import judge"))
    assert "calls: [] for" in stage.run("python judging.py")
    stage.run(block("docs/corpus.md", "extproc conformance tools --export"))
    whole, hermes = ((stage.folder / name).read_text() for name in ("corpus.jsonl", "hermes.jsonl"))
    assert hermes in whole


def test_a_server_is_judged_by_the_answers_of_the_corpus(stage: Stage) -> None:
    """A gateway of its own is in front of the model that is played."""
    answers, play, judge = lines("docs/corpus.md", "extproc conformance tools --format hermes --answers")
    stage.run(answers)
    vllm, gateway = stage.another("vllm:8000"), stage.another("127.0.0.1:10001")
    with (
        stage.serving(play.replace("8000", vllm.rpartition(":")[2]), "http://"),
        stage.serving(f"extproc up --backend http://{vllm} --listen {gateway}", READY),
    ):
        judged = stage.run(judge.replace("127.0.0.1:10000", gateway).replace("NAME", MODEL))
    assert re.search(r"^\| all \|.* (\d+)/\1 \|$", judged, re.MULTILINE)


def test_a_model_is_judged(stage: Stage) -> None:
    _, some = lines("docs/model-checks.md", "extproc conformance model")
    judged = json.loads(stage.run(some.replace("--limit 50", "--limit 3")))
    assert judged


def test_what_the_repository_holds_is_what_is_published(stage: Stage) -> None:
    unpack, said = lines("docs/supply-chain.md", "gzip -dc")
    (stage.folder / "extproc").symlink_to(ROOT / "extproc")
    assert stage.run(unpack).split()[0] == said.removeprefix("# ")
    (stage.folder / "extproc").unlink()
