"""A model with `tools: auto` behind a real Envoy: its backend is asked in another way, and everybody can see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripted_vllm import Reply
from scripted_vllm.checks import ChatRequest
from tests.gateway import MODEL, AskedVLLM, configured_gateway
from tests.test_answer import CALL
from tests.test_request import MESSAGES, WEATHER
from tests.test_steered_exchanges import BACK, CALLS, WRONG

SETTINGS = """
models:
  - name: coder
    backend: qwen
    upstream_model: {model}
    tools: auto
    steering: {{first: template, calls: {calls}, back: {back}}}
backends: [{{name: qwen, address: "127.0.0.1:{port}", health_check: false}}]
"""


def needs_words(request: ChatRequest) -> Reply:
    """A model that calls well where it is told how."""
    return Reply(CALL if any("You can use these tools" in str(message) for message in request.messages) else WRONG)


def test_it_steps_up_stays_and_comes_back(tmp_path: Path) -> None:
    backend = AskedVLLM(model=MODEL, speak=needs_words)
    with backend.running():
        configuration = SETTINGS.format(model=MODEL, port=backend.port, calls=CALLS, back=BACK)
        with configured_gateway(tmp_path, configuration, backend) as gateway:

            def ask(number: int) -> str | None:
                """The name of the tool that the client is asked to call."""
                request: dict[str, Any] = {**MESSAGES, "tools": [WEATHER]}
                answer = gateway.openai.chat.completions.create(
                    **request, extra_headers={"x-request-id": f"n-{number}"}
                )
                calls = answer.choices[0].message.tool_calls or []
                return calls[0].function.name if calls and calls[0].type == "function" else None

            asked = CALLS + BACK + 1
            names = [ask(number) for number in range(asked)]
            assert names == ["get_whether"] * CALLS + ["get_weather"] * BACK + ["get_whether"]
            shown = ["tools" in request.json for request in backend.requests]
            assert shown == [True] * CALLS + [False] * BACK + [True]
            told = [gateway.access_log(f"n-{number}")["extproc"] for number in (0, CALLS, asked - 1)]
            assert [(line["mode"], line["step"]) for line in told] == [
                ("template", "template"),
                ("prompt", "prompt"),
                ("template", "template"),
            ]
            assert gateway.metric('extproc_steering_step{model="coder",step="template"}') == 1
            assert gateway.metric('extproc_steering_step{model="coder",step="prompt"}') == 0
            for direction in ("up", "back"):
                assert gateway.metric(f'extproc_steering_changes_total{{direction="{direction}",model="coder"}}') == 1
