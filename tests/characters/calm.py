"""A character that disturbs nobody, with an async tool."""

import asyncio
from typing import Any

SYSTEM_PROMPT = "You are calm."
TIME_LIMIT = 20
TOOLS = [
    {"type": "function", "function": {"name": "count", "description": "How often it was called"}},
    {"type": "function", "function": {"name": "wait", "description": "Wait a while"}},
]


class PromptGenerator:
    def __init__(self) -> None:
        self.calls = 0

    async def handle_tool_call(self, tool_name: str, tool_input: dict[str, Any]) -> str:
        if tool_name == "wait":
            await asyncio.sleep(tool_input["seconds"])
        self.calls += 1
        return await asyncio.to_thread(str, self.calls)
