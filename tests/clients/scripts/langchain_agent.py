"""The errand with LangChain's agent: `python langchain_agent.py URL MODEL TASK provider|tool`.

Its answer has a type: JSON by a schema, beside strict tools, or the arguments of a tool that the model has to call.
"""

from __future__ import annotations

import json
import sys

# LangChain has an environment of its own; that of the project knows nothing of it.
from langchain.agents import create_agent  # type: ignore[import-not-found]
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy  # type: ignore[import-not-found]
from langchain_openai import ChatOpenAI  # type: ignore[import-not-found]

from tests.clients.scripts.report import Report
from tests.clients.scripts.workspace import TOOLS


def main(url: str, name: str, task: str, way: str) -> None:
    chat = ChatOpenAI(model=name, base_url=url, api_key="unused", max_retries=0)
    strategy = ProviderStrategy(Report, strict=True) if way == "provider" else ToolStrategy(Report)
    agent = create_agent(chat, list(TOOLS), response_format=strategy)
    state = agent.invoke({"messages": [("user", task)]})
    turns = [message for message in state["messages"] if message.type == "ai"]
    print(
        json.dumps(
            {
                "report": state["structured_response"].model_dump(),
                "calls": [[call["name"] for call in turn.tool_calls] for turn in turns],
                "reasons": [turn.response_metadata["finish_reason"] for turn in turns],
                "tokens": sum(turn.usage_metadata["total_tokens"] for turn in turns),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
