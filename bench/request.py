"""What a request costs: `python -m bench.request [--turns 10,20,40,80] [--tools 50] [--runs 15] [--json]`.

A conversation as a coding agent has it: 50 tools of some ten parameters, and turns of a call with its arguments, its
result and a remark. Reported for each length are the body's size, milliseconds of processor time (the median of
several runs) for decoding alone, for finding that nothing is wrong with it, and for the whole way from the client's
bytes to the backend's, and the exponent with which the whole grows with the bytes (1 is linear).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from extproc.config import parse
from extproc.contract.json_body import decode
from extproc.contract.rules import Rules
from extproc.surfaces import prepare
from extproc.surfaces.chat.request import problems

CONFIG = parse("""
models: [{name: coder, backend: qwen, tools: prompt}]
backends: [{name: qwen, address: 127.0.0.1:8000}]
""")
_WORDS = "the value of this field decides where the file goes and what happens to lines that are already in it "


def tool(number: int) -> dict[str, Any]:
    """One tool, with the kinds of parameters that agents' tools have."""
    properties: dict[str, Any] = {
        f"text_{n}": {"type": "string", "description": _WORDS[: 60 + n * 5]} for n in range(5)
    }
    properties |= {
        "mode": {"type": "string", "enum": ["read", "write", "append"]},
        "limit": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 9007199254740991}, {"type": "null"}]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"at": {"type": "integer"}}}},
        "place": {"$ref": "#/$defs/place"},
    }
    parameters = {
        "type": "object",
        "properties": properties,
        "required": ["text_0", "mode"],
        "additionalProperties": False,
        "$defs": {"place": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}},
    }
    function = {"name": f"tool_{number}", "description": _WORDS * 2, "parameters": parameters}
    return {"type": "function", "function": function}


def request(tools: int, turns: int) -> bytes:
    """The body of a request with that many tools and turns; a turn is some 3 kB."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": _WORDS * 60}]
    for turn in range(turns):
        code = "".join(f'    if line[{n}] == "\\t":\n        return {n}  # größer\n' for n in range(25))
        arguments = json.dumps({"text_0": code, "mode": "write", "place": {"path": f"src/{turn}.py"}})
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "tool_1", "arguments": arguments}}
        messages += [
            {"role": "user", "content": [{"type": "text", "text": _WORDS * 2}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": code},
        ]
    fields = {"model": "coder", "messages": messages, "stream": True, "temperature": 0}
    return orjson.dumps({**fields, "tools": [tool(number) for number in range(tools)]})


def milliseconds(work: Callable[[], object], runs: int) -> float:
    """The median processor time of one run."""
    times = []
    for _ in range(runs):
        begin = time.process_time_ns()
        work()
        times.append(time.process_time_ns() - begin)
    return statistics.median(times) / 1e6


def measure(tools: int, turns: int, runs: int) -> dict[str, float]:
    """One line of the table."""
    body = request(tools, turns)
    fields = decode(body)
    return {
        "turns": turns,
        "kB": len(body) / 1000,
        "decode": milliseconds(lambda: decode(body), runs),
        "check": milliseconds(lambda: list(problems(fields, Rules())), runs),
        "whole": milliseconds(lambda: prepare(body, CONFIG), runs),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.request", description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", default="10,20,40,80,160", help="the conversations' lengths")
    parser.add_argument("--tools", type=int, default=50)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args(arguments)
    rows = [measure(options.tools, int(turns), options.runs) for turns in options.turns.split(",")]
    if options.json:
        for row in rows:
            print(json.dumps(row))
        return 0
    print(f"{'turns':>6}{'kB':>9}{'decode ms':>12}{'check ms':>12}{'whole ms':>12}")
    for row in rows:
        print("{turns:6.0f}{kB:9.0f}{decode:12.2f}{check:12.2f}{whole:12.2f}".format(**row))
    if len(rows) > 1:
        first, last = rows[0], rows[-1]
        print(f"grows with the bytes to the power of {_exponent(first, last):.2f}")
    return 0


def _exponent(first: dict[str, float], last: dict[str, float]) -> float:
    return math.log(last["whole"] / first["whole"]) / math.log(last["kB"] / first["kB"])


if __name__ == "__main__":
    sys.exit(main())
