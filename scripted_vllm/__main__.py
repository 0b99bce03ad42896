"""`python -m scripted_vllm`: the scripted vLLM as a process, for trying things out by hand.

Prints one line once it serves, and ends with status 0 on SIGINT or SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripted_vllm import Reply, ScriptedVLLM
from scripted_vllm.answers import answering, load_answers
from scripted_vllm.replies import load

_EPILOG = """\
A line of FILE is one reply of the model, as a JSON object; all fields are optional:
  {"text": "Hello!"}
  {"text": "<tool_call>...</tool_call>", "pieces": 3, "pace": 0.02}
  {"pieces": ["<tool", "_call>"], "finish_reason": "length", "wire_cut": 7}
  {"text": "Hello!", "usage": {"prompt": 12, "completion": 3}}
  {"trouble": {"kind": "fail", "status": 429, "retry_after": 1}}
In a FILE of answers each has a name as well, and answers the chats whose last user's message has that word in it:
  {"to": "greeting", "text": "Hello!"}
Kinds of trouble: refuse, fail, stall, cut, garbage, gzip, no_done, error_event, comments.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        replies = load(options.play) if options.play else []
        answers = load_answers(options.answers) if options.answers else None
        asyncio.run(_serve(options, replies, answers))
    except (OSError, ValueError) as error:
        print(f"scripted vLLM: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve(options: argparse.Namespace, replies: Sequence[Reply], answers: Mapping[str, Reply] | None) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    server = ScriptedVLLM(
        options.model,
        options.max_model_len,
        host=options.host,
        port=options.port,
        pieces=options.pieces or "tokens",
        pace=options.pace,
        think=options.think,
        speak=None if answers is None else answering(answers),
    )
    server.play(*replies)
    async with server:
        print(f"scripted vLLM: {options.model} at {server.url}/v1", flush=True)
        await stopping.wait()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scripted_vllm",
        description="Serve vLLM's HTTP API without a GPU. A small built-in model answers: it calls the tools that it "
        "finds in its prompt and uses what they return. Replies from a file come first, if one is given.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port, 0 for any free one (default: %(default)s)")
    parser.add_argument("--model", default="qwen2.5-coder-0.5b", help="name of the model (default: %(default)s)")
    parser.add_argument("--max-model-len", type=int, default=32768, help="context length (default: %(default)s)")
    parser.add_argument("--play", type=Path, metavar="FILE", help="JSONL file of replies to play first, see below")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="JSONL file of answers, see below")
    parser.add_argument(
        "--pace", type=float, default=0.0, metavar="SECONDS", help="pause between pieces of a stream (default: none)"
    )
    parser.add_argument(
        "--think", action="store_true", help="let the built-in model think, in tags, where it has tools (default: no)"
    )
    parser.add_argument("--pieces", type=_size, metavar="N", help="stream N characters at a time (default: tokens)")
    return parser


def _size(text: str) -> int:
    size = int(text)
    if size < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return size


if __name__ == "__main__":
    sys.exit(main())
