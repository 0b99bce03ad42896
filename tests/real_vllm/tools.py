"""Tools that the measurements with real models offer."""

from __future__ import annotations

from typing import Any


def tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TEXT = {"type": "string"}
TOOLS = [
    tool("get_weather", "Get the current weather in a city", city=TEXT),
    tool("read_file", "Read a file", path=TEXT),
    tool("write_file", "Write text to a file", path=TEXT, content=TEXT),
    tool("run_command", "Run a shell command", command=TEXT),
    tool("add", "Add two whole numbers", a={"type": "integer"}, b={"type": "integer"}),
]
