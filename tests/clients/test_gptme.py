"""gptme does a task of several turns, calling its tools natively."""

from __future__ import annotations

import pytest

from tests.clients.actor import step
from tests.clients.errand import LAST_WORDS, TASK, Tools, check_done, errand
from tests.clients.installed import client
from tests.clients.sandbox import Sandbox
from tests.clients.stage import Stage
from tests.format_writers import Call

pytestmark = pytest.mark.clients

TOOLS = Tools(
    write=lambda path, text: Call("save", {"path": path, "content": text}),
    run=lambda command: Call("shell", {"command": command}),
    read=lambda path: Call("read", {"path": path}),
)


@pytest.mark.parametrize("model", ["prompt-hermes", "template-qwen3_coder"])
def test_it_does_the_errand(stage: Stage, sandbox: Sandbox, model: str) -> None:
    *work, last = errand(TOOLS, sandbox.workspace, together=False)
    steps = (*work, step(Call("complete", {}), says=LAST_WORDS, sees=last.sees))
    stage.perform(model, TASK, *steps)
    environment = {
        "OPENAI_BASE_URL": stage.url,
        "OPENAI_API_KEY": "unused",
        "GPTME_BREAK_ON_TOOLUSE": "0",  # it would leave an answer after its first call, before its end
        "GPTME_TIKTOKEN_TIMEOUT": "0",  # it would look for its tokenizer on the network
        "TERM": "dumb",
    }
    options = ("--non-interactive", "--tool-format", "tool", "--tools", "save,shell,read,complete")
    finished = sandbox.run(client("gptme"), *options, "-m", f"local/{model}", TASK, env=environment)
    assert finished.status == 0, finished
    check_done(stage, sandbox, len(steps))
    assert LAST_WORDS in finished.stdout
