"""Runs Codex headless at a gateway."""

from __future__ import annotations

from tests.clients.installed import client
from tests.clients.sandbox import SECONDS, Finished, Sandbox


def run_codex(
    sandbox: Sandbox,
    url: str,
    model: str,
    task: str,
    *,
    websockets: bool = False,
    key: str = "unused",
    settings: str = "",
    seconds: float = SECONDS,
) -> Finished:
    """Have it do a task with a model, asking nobody for leave. `url` is the gateway's, with `/v1`; `settings` are more
    keys of its configuration file, in TOML."""
    file = sandbox.home / ".codex" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        f"""
model = "{model}"
model_provider = "gateway"
sandbox_mode = "danger-full-access"
approval_policy = "never"
{settings}
[model_providers.gateway]
name = "gateway"
base_url = "{url}"
wire_api = "responses"
env_key = "GATEWAY_KEY"
request_max_retries = 2
stream_max_retries = 2
supports_websockets = {str(websockets).lower()}
"""
    )
    arguments = ("exec", "--json", "--skip-git-repo-check", task)
    return sandbox.run(client("codex"), *arguments, env={"GATEWAY_KEY": key}, seconds=seconds)


def last_message(finished: Finished) -> str:
    """The last words of the model that it shows."""
    texts = [
        line["item"]["text"]
        for line in finished.json_lines()
        if line["type"] == "item.completed" and line["item"]["type"] == "agent_message"
    ]
    assert texts, finished
    return str(texts[-1])
