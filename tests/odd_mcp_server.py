"""An MCP server that does what it shouldn't, over stdio: `python -I -S odd_mcp_server.py [WAY ...]`.

Written by hand, because the SDK's behaves; and with nothing to import, because tests start it often.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

WAYS = sys.argv[1:]
SCHEMA = {"type": "object"}
BAD_TOOLS = [
    {"name": "no.object", "inputSchema": {"type": "string"}},
    {"name": "no_schema"},
    {"name": "bad_schema", "inputSchema": {"type": "object", "properties": {"a": {"type": "nope"}}}},
]

seen: list[Any] = []
asked: dict[str, Any] = {}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(number: Any, **result: Any) -> None:
    send({"id": number, "result": result})


def say(number: Any, text: str) -> None:
    answer(number, content=[{"type": "text", "text": text}])


def ask(number: Any, _: Any) -> None:
    asked["call"] = number
    send({"id": "question", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})


def flood(number: Any, arguments: Any) -> None:
    for _ in range(arguments["messages"]):
        send({"method": "notifications/tools/list_changed"})
    say(number, "done")


def child(number: Any, _: Any) -> None:
    pid = os.fork()
    if not pid:
        time.sleep(100)
        os._exit(0)
    say(number, str(pid))


def deaf(number: Any, _: Any) -> None:
    say(number, "what?")
    time.sleep(100)


def garble(number: Any, _: Any) -> None:
    print("this is no message\n{}\n[]\nnull")
    say(number, "after all")


TOOLS: dict[str, Callable[[Any, Any], object]] = {
    "echo": lambda number, arguments: say(number, json.dumps(arguments)),
    "seen": lambda number, _: say(number, json.dumps(seen)),
    "pid": lambda number, _: say(number, str(os.getpid())),
    "hang": lambda *_: None,
    "ask": ask,
    "flood": flood,
    "huge": lambda number, arguments: say(number, "x" * arguments["size"]),
    "child": child,
    "deaf": deaf,
    "garble": garble,
    "fault": lambda number, arguments: send({"id": number, "error": {"code": -32000, **arguments}}),
    "nonsense": lambda number, _: answer(number, content="nonsense"),
    "leave": lambda *_: sys.exit(0),
}


def list_tools(number: Any) -> None:
    listed = sum(message.get("method") == "tools/list" for message in seen)
    if "list-fails-later" in WAYS and listed > 1:
        send({"id": number, "error": {"code": -32603, "message": "no list today"}})
        return
    tools: list[Any] = [{"name": name, "inputSchema": SCHEMA} for name in TOOLS]
    answer(number, tools=(BAD_TOOLS if "bad-tools" in WAYS else []) + tools)


def main() -> None:
    if "stubborn" in WAYS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "noisy" in WAYS:
        sys.stderr.write("a" * 10_000 + "\n" + "line\n" * 1000)
        sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        seen.append(message)
        if "mute" in WAYS or ("picky" in WAYS and method == "server/discover"):
            continue
        match method:
            case "initialize":
                answer(
                    number,
                    protocolVersion="2025-06-18",
                    capabilities={"tools": {"listChanged": True}},
                    serverInfo={"name": "odd", "version": "1"},
                )
            case "tools/list":
                list_tools(number)
            case "tools/call":
                TOOLS[message["params"]["name"]](number, message["params"].get("arguments") or {})
            case None:  # an answer
                say(asked["call"], json.dumps(message))
            case _ if number is not None:
                send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
    if "stubborn" in WAYS:
        time.sleep(100)


if __name__ == "__main__":
    main()
