"""A character that does harm: what kind of harm is an argument of its only tool."""

import os
import signal
import sys
from typing import Any

TIME_LIMIT = 0.5
MODEL = "coder"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "harm",
            "description": "Does harm",
            "parameters": {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]},
        },
    }
]


def harmless() -> str:
    return "fine"


def endless_loop() -> None:
    while True:
        pass


def fork_bomb() -> None:
    while True:
        os.fork()


def allocation() -> str:
    return str(len(bytearray(10 << 30)))


def recursion() -> str:
    return recursion()


def stack_overflow() -> str:
    class Deep:
        def __repr__(self) -> str:
            return repr(self)

    sys.setrecursionlimit(1 << 30)
    return repr([Deep()])


def exit_at_once() -> None:
    os._exit(0)


def write_loop() -> None:
    while True:
        os.write(1, b"\x00noise\n" * 100)


def self_stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def million_prints() -> str:
    for number in range(1_000_000):
        print(number)
    return "printed"


def huge_result() -> str:
    return "x" * (50 << 20)


class PromptGenerator:
    def handle_tool_call(self, _: str, tool_input: dict[str, Any]) -> Any:
        return globals()[tool_input["kind"]]()
