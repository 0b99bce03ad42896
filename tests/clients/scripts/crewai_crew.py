"""The errand with CrewAI: `python crewai_crew.py URL MODEL TASK kickoff`; strict tools, and a result with a type."""

from __future__ import annotations

import json
import sys

# It has an environment of its own; that of the project knows nothing of it.
from crewai import LLM, Agent, Crew, Task  # type: ignore[import-not-found]
from crewai.tools import tool  # type: ignore[import-not-found]

from tests.clients.scripts.report import Report
from tests.clients.scripts.workspace import TOOLS


def main(url: str, name: str, task: str, _: str) -> None:
    llm = LLM(model=name, provider="openai", base_url=url, api_key="unused", max_retries=0)
    tools = [tool(each) for each in TOOLS]
    agent = Agent(role="writer", goal="Do the task.", backstory="You are brief.", llm=llm, tools=tools)
    work = Task(description=task, expected_output="A report.", agent=agent, output_pydantic=Report)
    result = Crew(agents=[agent], tasks=[work]).kickoff()
    told = json.dumps({"report": result.pydantic.model_dump(), "tokens": result.token_usage.total_tokens})
    sys.stdout.write(f"\n{told}\n")  # In one go: its threads may print beside it.


if __name__ == "__main__":
    main(*sys.argv[1:])
