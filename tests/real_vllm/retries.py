"""Counts what `retry` repairs and writes it into docs/real-models.md: `python -m tests.real_vllm.retries`.

A call is demanded of a model whose decoder can't be forced, as on a backend with `structured_outputs: false`; when none
comes, or a wrong one, it is demanded once more. Takes some three minutes on two cores.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs

from tests.gateway import Gateway, configured_gateway
from tests.real_vllm.environment import Environment
from tests.real_vllm.model import NAME, Model
from tests.real_vllm.results_page import table, write_section
from tests.real_vllm.server import MODEL, VLLM, running_vllm
from tests.real_vllm.test_forced_calls import ASKED, TIMES, offered
from tests.real_vllm.tools import TOOLS as USEFUL_TOOLS

TITLE = "What a retry repairs"
_AT_ONCE = 10
_MOST_TOKENS = 200
_SECONDS = 600.0
"""For two answers, while nine others are being written."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One thing that is asked, the tools that are offered, and the one that is right."""

    words: str
    tools: list[dict[str, Any]]
    tool: str
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Series:
    """Things that are asked, with a call of any tool and of a named one."""

    title: str
    asks: Sequence[Ask]


USEFUL = {
    "get_weather": (
        "What is the weather in Paris?",
        "Is it raining in Rome?",
        "How warm is it in Oslo today?",
        "Do I need an umbrella in London?",
    ),
    "read_file": (
        "Read the file src/main.py.",
        "What is in notes.md?",
        "Show me the content of README.md.",
        "Open config.yaml and tell me what it says.",
    ),
    "write_file": (
        'Write the text "hello" to the file hello.txt.',
        'Create todo.txt with the text "buy milk".',
        'Save "done" as status.txt.',
        'Put the line "import os" into run.py.',
    ),
    "run_command": (
        "List the files here by running ls -la.",
        "Run the command git status.",
        "Run the tests with make test.",
        "Show the date with the command date.",
    ),
    "add": (
        "Add 17 and 25 with the tool.",
        "What is 3 plus 4?",
        "Sum up 100 and 250.",
        "How much is 12 + 30?",
    ),
}

SERIES = (
    Series(
        "what the tools are for, temperature 0",
        [Ask(words, USEFUL_TOOLS, tool, {"temperature": 0}) for tool, asks in USEFUL.items() for words in asks],
    ),
    Series(
        "nothing that a tool is for, temperature 0",
        [Ask(words, offered(), "set_color", {"temperature": 0}) for words in ASKED],
    ),
    Series(
        "the same, temperature 1",
        [
            Ask(ASKED[seed % len(ASKED)], offered(), "set_color", {"temperature": 1.0, "seed": seed})
            for seed in range(TIMES)
        ],
    ),
)


@dataclass(frozen=True, slots=True)
class Counted:
    """What came of a series."""

    asked: int
    first: int
    """First answers with calls, all of which fit."""
    helped: int
    in_vain: int
    cut_off: int
    """Answers that reached their limit, which nobody asks for again."""
    right_tool: int
    """Answers in the end with one call, of the tool that was meant."""


def count(gateway: Gateway, asks: Sequence[Ask], *, named: bool) -> Counted:
    """Demand a call for each, ten at a time."""
    client = gateway.openai.with_options(timeout=_SECONDS)

    def answer(ask: Ask) -> Any:
        request: dict[str, Any] = {
            "model": "real",
            "messages": [{"role": "user", "content": ask.words}],
            "tools": ask.tools,
            "tool_choice": {"type": "function", "function": {"name": ask.tool}} if named else "required",
            "max_tokens": _MOST_TOKENS,
            **ask.settings,
        }
        return client.chat.completions.create(**request).choices[0]

    before = _retries(gateway)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        choices = list(pool.map(answer, asks))
    helped, in_vain = (now - then for now, then in zip(_retries(gateway), before, strict=True))
    answers = list(zip(asks, choices, strict=True))
    fits = sum(_fits(choice, ask, named=named) for ask, choice in answers)
    return Counted(
        asked=len(asks),
        first=fits - helped,
        helped=helped,
        in_vain=in_vain,
        cut_off=sum(choice.finish_reason == "length" for choice in choices),
        right_tool=sum([name for name, _ in _calls(choice)] == [ask.tool] for ask, choice in answers),
    )


def _retries(gateway: Gateway) -> tuple[int, int]:
    helped, in_vain = (
        int(gateway.metric(f'extproc_retries_total{{format="hermes",mode="prompt",model="real",result="{result}"}}'))
        for result in ("helped", "in_vain")
    )
    return helped, in_vain


def _calls(choice: Any) -> list[tuple[str, str]]:
    return [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()]


def _fits(choice: Any, ask: Ask, *, named: bool) -> bool:
    """Whether there are calls, and all of them are what was demanded: checked here, not by the gateway."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in ask.tools}
    allowed = {ask.tool} if named else set(schemas)
    calls = _calls(choice)
    return bool(calls) and all(name in allowed and _is_valid(schemas[name], arguments) for name, arguments in calls)


def _is_valid(schema: Any, arguments: str) -> bool:
    try:
        return bool(jsonschema_rs.is_valid(schema, json.loads(arguments)))
    except ValueError:
        return False


@contextmanager
def _retrying_gateway(vllm: VLLM, folder: Path) -> Iterator[Gateway]:
    configuration = f"""
models:
  - {{name: real, backend: vllm, upstream_model: {MODEL}, tools: prompt, retry: true}}
backends:
  - {{name: vllm, address: "127.0.0.1:{vllm.port}", structured_outputs: false}}
"""
    with configured_gateway(folder, configuration) as gateway:
        yield gateway


def main() -> int:
    counted: list[tuple[str, str, Counted]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with (
            running_vllm(Environment(), Model(), folder / "vllm.log") as vllm,
            _retrying_gateway(vllm, folder) as gateway,
        ):
            for series in SERIES:
                for demand in ("required", "named"):
                    came = count(gateway, series.asks, named=demand == "named")
                    print(series.title, demand, came, flush=True)
                    counted.append((series.title, demand, came))
    write_section(TITLE, section(counted))
    return 0


def section(counted: list[tuple[str, str, Counted]]) -> Iterator[str]:
    """Its part of docs/real-models.md."""
    yield f"""\
Written by `python -m tests.real_vllm.retries`: {NAME} (from a 4-bit file), vLLM 0.32.0
on the CPU, prompt mode, format hermes, `retry: true`, and `structured_outputs: false`, so that nothing forces the
decoder. A call is demanded by `tool_choice`: `required`, or the tool's name. With structured outputs all of them
come and fit (`tests/real_vllm/test_forced_calls.py`).
"""
    head = ("asked for", "`tool_choice`", "requests:", "fits at once:", "helped:", "in vain:", "fits in the end:")
    yield from table((*head, "cut off:", "one call, of the right tool:"), [_row(*cells) for cells in counted])
    yield """
*Fits*: there are calls, all of them of offered tools (of the named one), with arguments that their schemas allow.
*Helped* and *in vain* are `extproc_retries_total`. An answer that was *cut off* at its limit isn't asked for
again."""


def _row(title: str, demand: str, came: Counted) -> tuple[object, ...]:
    right = came.right_tool if title == SERIES[0].title else "-"  # what else is asked for has no right tool
    in_the_end = came.first + came.helped
    return (title, demand, came.asked, came.first, came.helped, came.in_vain, in_the_end, came.cut_off, right)


if __name__ == "__main__":
    sys.exit(main())
