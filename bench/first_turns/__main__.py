"""Whether a real model's first call is right when a real agent asks, by the way in which the gateway asks it:

    python -m bench.first_turns 0.5B [--only recommended,alone]
    python -m bench.first_turns --page

Cline, Claude Code and Codex are run once each, for what they send, which is kept; then each of ten tasks takes its
place in that, and the 30 requests go through a real gateway to a real vLLM on the CPU, in each client's own dialect, or
to vLLM itself. Their prompts are long: the first request of a client takes a minute or two on two cores, the others a
few seconds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs

from bench.first_turns import page
from bench.first_turns.answers import calls, prompt_tokens, schemas
from bench.first_turns.captured import INSTALLED_NAMES, FirstTurn, first_turns
from bench.first_turns.tasks import TASKS, Task
from bench.quality.ways import WAYS, Way, configuration
from tests.clients.installed import CLIENTS as INSTALLED
from tests.clients.setup import set_up as install
from tests.gateway import free_port
from tests.real_vllm.conftest import serving_gateway
from tests.real_vllm.environment import Environment
from tests.real_vllm.model_checks import MODELS
from tests.real_vllm.server import MODEL, number_type, running_vllm
from tests.real_vllm.setup import set_up

MAX_TOKENS = 300
_LENGTH = 32768
"""Of a prompt with its answer, in tokens: the model's own limit. Claude Code's alone is more than half of it."""
_SECONDS = 900.0


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.first_turns")
    parser.add_argument("model", nargs="?", choices=MODELS)
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of ways, with commas between them")
    parser.add_argument("--page", action="store_true", help="only write the page from the results that are there")
    options = parser.parse_args(words)
    if options.model and not options.page:
        run(options.model, [way for way in WAYS if options.only is None or way.name in options.only])
    page.write()
    return 0


def run(model: str, ways: Sequence[Way]) -> None:
    """Ask in each way; those that share a server share a start of it."""
    set_up(MODELS[model])
    install([INSTALLED[name] for name in INSTALLED_NAMES])
    turns = list(first_turns())
    for flags in sorted({way.flags for way in ways}):
        with tempfile.TemporaryDirectory() as folder:
            place, port = Path(folder), free_port()
            more = (*flags, "--max-model-len", str(_LENGTH), "--enable-prefix-caching")
            with running_vllm(Environment(), MODELS[model], place / "vllm.log", *more) as vllm:
                there = tuple(way for way in ways if way.flags == flags)
                with ExitStack() as stack:
                    if any(way.settings is not None for way in there):
                        settings = json.dumps(configuration(there, port, vllm.port))
                        stack.enter_context(serving_gateway(settings, port, place))
                    for way in there:
                        url = vllm.url if way.settings is None else f"http://127.0.0.1:{port}"
                        asked(model, way, url, turns)


def asked(model: str, way: Way, url: str, turns: Sequence[FirstTurn]) -> None:
    """All tasks of all clients, one after the other, with what came of them printed and kept."""
    name = MODEL if way.settings is None else way.name
    clients = {turn.client: _counted([_asked(url, turn, name, task) for task in TASKS]) for turn in turns}
    page.save(
        f"{model}-{way.name}",
        {
            "model": model,
            "way": way.name,
            "wording": way.agents_wording,
            "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
            "max_tokens": MAX_TOKENS,
            "computed_in": number_type(),
            "clients": clients,
        },
    )
    for client, found in clients.items():
        print(model, way.name, client, json.dumps({key: value for key, value in found.items() if key != "tasks"}))


def _counted(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    kinds = ("right", "called", "valid", "answered")
    return {
        "of": len(found),
        **{kind: sum(each[kind] for each in found) for kind in kinds},
        "tokens": sum(each["tokens"] for each in found),
        "tasks": list(found),
    }


def _asked(url: str, turn: FirstTurn, model: str, task: Task) -> dict[str, Any]:
    """What came of one task."""
    request = turn.request(task.words, model, MAX_TOKENS)
    came = httpx.post(f"{url}{turn.path}", json=request, timeout=_SECONDS)
    if came.status_code != 200:
        told = {"first": f"{came.status_code}: {came.text[:200]}", "tokens": 0}
        return {"task": task.words, "right": False, "called": False, "valid": False, "answered": False, **told}
    return judged(turn, task, request, came.json())


def judged(turn: FirstTurn, task: Task, request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """What the answer to one task is: the first call is right or not, whatever follows it."""
    made, offered = calls(turn.path, answer), schemas(turn.path, request)
    first = made[0] if made else None
    valid = [each.name in offered and jsonschema_rs.is_valid(offered[each.name], each.arguments) for each in made]
    return {
        "task": task.words,
        "right": first is not None and valid[0] and task.is_right(turn.client, first),
        "called": first is not None,
        "valid": bool(made) and all(valid),
        "answered": True,
        "first": f"{first.name} {json.dumps(first.arguments, ensure_ascii=False)}"[:200] if first else "",
        "tokens": prompt_tokens(answer),
    }


if __name__ == "__main__":
    sys.exit(main())
