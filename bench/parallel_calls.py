"""What parallel calls save: `python -m bench.parallel_calls [--tool-times 0.25,0.5,1,2] [--runs 5] [--json]`.

A task with independent tools, done twice by the official client against the real gateway: once with
`parallel_tool_calls: true`, when the model makes all calls in one turn and the client runs them at the same time, once
with `false`, when each call has a turn of its own. The model is played, at a stated pace: silence before the first
token of each turn, then so many tokens a second. So are the tools, which take a stated time each. What is measured is
the wall time from the question to the last word, and all of the gateway's share is in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
from openai.types.chat import ChatCompletionToolParam

from scripted_vllm import Reply, ScriptedVLLM, Stall
from tests.gateway import MODEL, AskedVLLM, running_gateway

FILES = ("src/parser.py", "src/lexer.py", "tests/test_parser.py", "README.md")
READ_FILE: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Reads a file",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}
QUESTION = f"Read {', '.join(FILES)}, and say in one sentence what they are about."
ANSWER = "They are a parser with its lexer, the tests of it, and a few words about how it is used."
Tool = Callable[[str], Awaitable[str]]
"""Reads the file with this name, in its time."""


@dataclass(frozen=True)
class Pace:
    """How fast the played model is."""

    first_token: float = 0.3
    """Seconds of silence at the beginning of each turn."""
    tokens: float = 100.0
    """A second."""


@dataclass(frozen=True)
class Course:
    """How the task went."""

    calls: tuple[int, ...]
    """Of each turn."""
    seconds: float


def script(vllm: ScriptedVLLM, *, parallel: bool, pace: Pace | None) -> None:
    """Have the model call for all files in one turn or in one turn each, and answer; without a pace, at once."""
    calls = [f'<tool_call>\n{{"name": "read_file", "arguments": {{"path": "{path}"}}}}\n</tool_call>' for path in FILES]
    for text in (["\n".join(calls)] if parallel else calls) + [ANSWER]:
        if pace is None:
            vllm.play(Reply(text))
        else:
            waiting = Stall(after=None, seconds=pace.first_token)
            vllm.play(Reply(text, pace=1 / pace.tokens, trouble=waiting))


async def perform(url: str, tool: Tool, *, parallel: bool) -> Course:
    """Do the task as a client does, with all calls of a turn at the same time, until the model calls no more."""
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    calls: list[int] = []
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=60) as client:
        begin = time.perf_counter()
        while not calls or calls[-1]:
            async with client.chat.completions.stream(
                model="coder", messages=messages, tools=[READ_FILE], parallel_tool_calls=parallel
            ) as stream:
                message = (await stream.get_final_completion()).choices[0].message
            made = message.tool_calls or []
            paths = [json.loads(call.function.arguments)["path"] for call in made]
            results = await asyncio.gather(*map(tool, paths))
            messages.append(message)
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": result}
                for call, result in zip(made, results, strict=True)
            ]
            calls.append(len(made))
        return Course(tuple(calls), time.perf_counter() - begin)


def measure(tool_time: float, pace: Pace, runs: int, url: str, vllm: ScriptedVLLM) -> dict[str, float]:
    """One line of the table; the two ways take turns, so that a busy machine troubles both alike."""

    async def tool(path: str) -> str:
        await asyncio.sleep(tool_time)
        return f"What stands in {path}."

    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(runs):
        for parallel, taken in seconds.items():
            script(vllm, parallel=parallel, pace=pace)
            course = asyncio.run(perform(url, tool, parallel=parallel))
            expected = (len(FILES), 0) if parallel else (*[1] * len(FILES), 0)
            if course.calls != expected:
                raise SystemExit(f"the task went another way: {course.calls} calls instead of {expected}")
            taken.append(course.seconds)
    single, together = (statistics.median(seconds[parallel]) for parallel in (False, True))
    return {"tool time": tool_time, "one at a time": single, "together": together, "saved": 1 - together / single}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.parallel_calls", description=__doc__.partition("\n")[0])
    parser.add_argument("--tool-times", default="0.25,0.5,1,2", help="seconds that each tool takes")
    parser.add_argument("--first-token", type=float, default=Pace.first_token, help="seconds before a turn's first")
    parser.add_argument("--tokens", type=float, default=Pace.tokens, help="that the model writes in a second")
    parser.add_argument("--runs", type=int, default=3, help="of each way; their median counts")
    parser.add_argument("--least", type=float, metavar="PERCENT", help="exit with 1 if less is saved in any line")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args(arguments)
    pace = Pace(options.first_token, options.tokens)
    vllm = AskedVLLM(model=MODEL)
    with tempfile.TemporaryDirectory() as folder, vllm.running(), running_gateway(Path(folder), vllm) as gateway:
        if not options.json:
            print(f"{len(FILES)} tools; {pace.first_token:g} s to a first token, then {pace.tokens:g} tokens/s")
            print(f"{'tool time':>10}{'one at a time':>15}{'together':>10}{'saved':>8}")
        least = 1.0
        for tool_time in options.tool_times.split(","):
            row = measure(float(tool_time), pace, options.runs, gateway.url, vllm)
            least = min(least, row["saved"])
            if options.json:
                print(json.dumps(row), flush=True)
            else:
                line = "{tool time:>8g} s{one at a time:>13.2f} s{together:>8.2f} s{saved:>8.0%}"
                print(line.format(**row), flush=True)
    if options.least is not None and least < options.least / 100:
        print(f"only {least:.0%} saved, and {options.least:g}% were asked for", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
