"""Every patch that the real model writes for a custom tool with a grammar can be read, however small the model is.

A model of this size seldom knows the notation: without the grammar hardly any of its patches can be read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest

from tests.patches import GRAMMAR, is_patch
from tests.real_vllm.conftest import NAME, TEMPLATE, Gateway
from tests.responses import Json, response_of

pytestmark = pytest.mark.vllm

TIMES = int(os.environ.get("PATCHES", "6"))
"""Patches of each mode; PATCHES=50 asks for so many."""
TOOL: Json = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Changes files. Its input is a patch.",
    "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
}
TASKS = (
    "In the file app{n}.py, which has the one line `print('hello')`, change the greeting to 'good evening {n}'.",
    "Create the file notes/{n}.txt with the one line: buy {n} apples",
    "Delete the file old_{n}.log.",
    'In config{n}.json, which has the one line `{{"port": 80}}`, change the port to {n}080.',
    'Rename the function f to g{n} in lib.py. The file is:\ndef f(x):\n    return "f" + x',
)


def asked(gateway: Gateway, model: str, number: int) -> tuple[Json, str]:
    """The response, and what was kept back of the request."""
    body = {
        "model": model,
        "input": TASKS[number % len(TASKS)].format(n=number),
        "tools": [TOOL],
        "tool_choice": {"type": "custom", "name": "apply_patch"},
        "parallel_tool_calls": False,
        "temperature": 0.7,
        "max_output_tokens": 200,
        "stream": number % 2 == 0,
    }
    answer = httpx.post(f"{gateway.url}/v1/responses", json=body, timeout=300)
    assert answer.status_code == 200, answer.text
    response = response_of(answer.content) if body["stream"] else answer.json()
    return response, answer.headers.get("x-extproc-dropped", "")


@pytest.mark.parametrize("model", [NAME, TEMPLATE], ids=["prompt", "template"])
def test_every_patch_can_be_read(gateway: Gateway, model: str) -> None:
    asked_of = partial(asked, gateway, model)
    with ThreadPoolExecutor(max_workers=10) as pool:
        came = list(pool.map(asked_of, range(TIMES)))
        # A model that repeats itself until it is stopped has not written a patch, and is told as cut off. How often it
        # does is luck at this temperature: others are asked for in the place of those.
        while len(complete(came)) < TIMES and len(came) < 3 * TIMES:
            came += pool.map(asked_of, range(len(came), len(came) + TIMES))
    assert not [dropped for _, dropped in came if "apply_patch" in dropped]
    print(Counter(response["status"] for response, _ in came))
    inputs = [item["input"] for response in complete(came) for item in response["output"]]
    assert len(inputs) == len(complete(came)) >= TIMES
    assert [text for text in inputs if not is_patch(text)] == []


def complete(came: Iterable[tuple[Json, str]]) -> list[Json]:
    return [response for response, _ in came if response["status"] == "completed"]
