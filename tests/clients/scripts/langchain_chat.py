"""The errand with LangChain's ChatOpenAI or ChatAnthropic:

`python langchain_chat.py URL MODEL TASK "chat|responses|messages invoke|stream"`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

# LangChain has an environment of its own; that of the project knows nothing of it.
from langchain_core.messages import HumanMessage, ToolMessage  # type: ignore[import-not-found]

from tests.clients.scripts.workspace import TOOLS

RUN = {tool.__name__: tool for tool in TOOLS}
REASON = {"chat": "finish_reason", "responses": "status", "messages": "stop_reason"}


def chat(dialect: str, url: str, name: str) -> Any:
    # Each takes more than a second to import.
    if dialect == "messages":
        from langchain_anthropic import ChatAnthropic  # type: ignore[import-not-found]

        return ChatAnthropic(model=name, base_url=url.removesuffix("/v1"), api_key="unused", max_retries=0)
    from langchain_openai import ChatOpenAI  # type: ignore[import-not-found]

    return ChatOpenAI(
        model=name,
        base_url=url,
        api_key="unused",
        max_retries=0,
        stream_usage=True,
        use_responses_api=dialect == "responses",
    )


def stream(model: Any, messages: list[Any]) -> Any:
    """The sum of the pieces, which are messages themselves."""
    whole = None
    for piece in model.stream(messages):
        whole = piece if whole is None else whole + piece
    return whole


def main(url: str, name: str, task: str, way: str) -> None:
    dialect, _, ask = way.partition(" ")
    model = chat(dialect, url, name).bind_tools(list(TOOLS))
    messages: list[Any] = [HumanMessage(task)]
    contents, calls, reasons, tokens = list[str](), list[Any](), list[str](), 0
    while True:
        message = model.invoke(messages) if ask == "invoke" else stream(model, messages)
        assert not message.invalid_tool_calls
        messages.append(message)
        contents.append(message.text)
        reasons.append(message.response_metadata[REASON[dialect]])
        tokens += message.usage_metadata["total_tokens"]
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            calls.append([call["name"], call["args"]])
            messages.append(ToolMessage(RUN[call["name"]](**call["args"]), tool_call_id=call["id"]))
    print(json.dumps({"contents": contents, "calls": calls, "reasons": reasons, "tokens": tokens}))


if __name__ == "__main__":
    main(*sys.argv[1:])
