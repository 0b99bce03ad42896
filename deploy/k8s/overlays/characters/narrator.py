"""A character, which clients ask for as the model `character/narrator`. docs/characters.md tells what it may hold."""

SYSTEM_PROMPT = """\
You are the narrator of an interactive story. Whenever something happens that matters to the story, log it, and then
go on telling."""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "log_story_event",
            "description": "Log an important narrative event to the terminal",
            "parameters": {
                "type": "object",
                "properties": {
                    "event": {"type": "string", "description": "The story event to log"},
                    "importance": {
                        "type": "string",
                        "enum": ["low", "medium", "high"],
                        "description": "Event importance level",
                        "default": "medium",
                    },
                },
                "required": ["event"],
            },
        },
    }
]


class PromptGenerator:
    def handle_tool_call(self, tool_name: str, tool_input: dict) -> str:
        if tool_name == "log_story_event":
            print(f"[{tool_input['importance']}] {tool_input['event']}")
            return f"Logged story event: {tool_input['event']}"
        raise ValueError(f"Unknown tool: {tool_name}")
