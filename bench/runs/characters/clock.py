"""A character whose tool says when it ends, by the clock that all processes of a machine share."""

import time
from typing import Any

TIME_LIMIT = 5
MODEL = "coder"
TOOLS = [{"type": "function", "function": {"name": "now", "description": "Tells the time", "parameters": None}}]


class PromptGenerator:
    def handle_tool_call(self, _: str, __: dict[str, Any]) -> str:
        return f"at={time.monotonic_ns():020d}"
