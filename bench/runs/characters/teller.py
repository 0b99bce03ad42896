"""A character without tools: what it says comes by way of the runner."""

MODEL = "coder"
SYSTEM_PROMPT = "You tell stories."
