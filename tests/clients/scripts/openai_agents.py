"""The errand with OpenAI's agents: `python openai_agents.py URL MODEL TASK "chat|responses run|run_streamed"`.

A writer with strict tools hands over to a reviewer, who has a tool, too, and answers with a type of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys

# It has an environment of its own; that of the project knows nothing of it.
from agents import (  # type: ignore[import-not-found]
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_default_openai_client,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from tests.clients.scripts.report import Report
from tests.clients.scripts.workspace import TOOLS, read_file


async def main(url: str, name: str, task: str, way: str) -> None:
    set_tracing_disabled(True)
    dialect, _, run = way.partition(" ")
    client = AsyncOpenAI(base_url=url, api_key="unused", max_retries=0)
    set_default_openai_client(client)
    # By its name alone, a model is asked by Responses.
    model = OpenAIChatCompletionsModel(name, client) if dialect == "chat" else name
    settings = ModelSettings(include_usage=True)
    read = [function_tool(read_file)]
    reviewer = Agent("reviewer", model=model, model_settings=settings, tools=read, output_type=Report)
    tools = [function_tool(tool) for tool in TOOLS]
    writer = Agent("writer", model=model, model_settings=settings, tools=tools, handoffs=[reviewer])
    if run == "run":
        result = await Runner.run(writer, task)
    else:
        result = Runner.run_streamed(writer, task)
        async for _ in result.stream_events():
            pass
    print(
        json.dumps(
            {
                "by": result.last_agent.name,
                "report": result.final_output_as(Report, raise_if_incorrect_type=True).model_dump(),
                "items": [item.type for item in result.new_items],
                "tokens": result.context_wrapper.usage.total_tokens,
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
