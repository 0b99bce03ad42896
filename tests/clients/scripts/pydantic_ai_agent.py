"""The errand with pydantic-ai: `python pydantic_ai_agent.py URL MODEL TASK tool|native`.

Its answer has a type: the arguments of a tool that the model has to call in the end, or JSON by a schema, streamed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from openai import AsyncOpenAI

# It has an environment of its own; that of the project knows nothing of it.
from pydantic_ai import Agent, NativeOutput, ToolOutput  # type: ignore[import-not-found]
from pydantic_ai.models.openai import OpenAIChatModel  # type: ignore[import-not-found]
from pydantic_ai.providers.openai import OpenAIProvider  # type: ignore[import-not-found]

from tests.clients.scripts.report import Report
from tests.clients.scripts.workspace import TOOLS


async def main(url: str, name: str, task: str, way: str) -> None:
    client = AsyncOpenAI(base_url=url, api_key="unused", max_retries=0)
    model = OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))
    if way == "tool":
        result = await Agent(model, tools=list(TOOLS), output_type=ToolOutput(Report), retries=0).run(task)
    else:
        agent = Agent(model, tools=list(TOOLS), output_type=NativeOutput(Report), retries=0)
        result = await agent.run(task, event_stream_handler=listen)
    responses = [message for message in result.all_messages() if message.kind == "response"]
    print(
        json.dumps(
            {
                "report": result.output.model_dump(),
                "parts": [[part.part_kind for part in response.parts] for response in responses],
                "reasons": [response.finish_reason for response in responses],
                "tokens": result.usage.total_tokens,
            }
        )
    )


async def listen(_: Any, events: Any) -> None:
    """With a listener it asks for streams."""
    async for _event in events:
        pass


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
