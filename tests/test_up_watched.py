"""`extproc up` and its exchanges: on a page that it starts itself, and on one that is started when it already runs."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import httpx
import pytest

from scripted_vllm import ScriptedVLLM
from tests.gateway import EXTPROC, free_port
from tests.test_up import PATIENCE, TOOLS, ask, lines_until, up
from tests.watch_stage import Page, over

pytestmark = pytest.mark.long


def test_with_watch_its_exchanges_are_on_a_page() -> None:
    with up("--scripted", "--watch", f"127.0.0.1:{free_port()}") as running:
        [url] = re.findall(r"Exchanges are shown, prompts and answers included, at (\S+)", running.guide)
        body = {"model": "qwen2.5-coder", "messages": [{"role": "user", "content": "Seen?"}], "tools": TOOLS}
        assert httpx.post(f"{running.url}/v1/chat/completions", json=body, timeout=PATIENCE).is_success
        page = Page(url)
        assert [row["words"] for row in page.rows(over(1)).values()] == ["Seen?"]
        page.close()
        status, _ = running.stop()
    assert status == 0


def test_one_that_runs_can_be_watched_as_it_says(tmp_path: Path) -> None:
    config = tmp_path / "extproc.yaml"
    with ScriptedVLLM(model="qwen2.5-coder").running() as backend:
        rest = f"backends: [{{name: b, address: '127.0.0.1:{backend.port}', health_check: false}}]\n"
        config.write_text(f"watch: true\nmodels: [{{name: qwen2.5-coder, backend: b, tools: prompt}}]\n{rest}")
        with up("--config", str(config)) as running:
            [words] = re.findall(r"See its exchanges, .*: .*(watch --sockets .+)", running.guide)
            command = [*EXTPROC, *shlex.split(words), "--listen", f"127.0.0.1:{free_port()}"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
                try:
                    [address] = re.findall(r"http://\S+", lines_until(watcher.stdout, "http://")[-1])
                    page = Page(address)
                    assert ask(running.url)["status"] == 200
                    assert len(page.rows(over(1))) == 1
                    page.close()
                finally:
                    watcher.terminate()
            assert running.stop()[0] == 0
