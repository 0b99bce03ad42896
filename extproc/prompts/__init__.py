"""The request half: shows tools, calls and results to a model that knows only text.

Pure, deterministic and append-only: the same messages always render to the same bytes, and a conversation that
grows renders to a text that grows at its end, so that the backend's prefix cache keeps working.
"""

from extproc.prompts.ordering import in_call_order
from extproc.prompts.prompt import PromptStyle, render_conversation

__all__ = ["PromptStyle", "in_call_order", "render_conversation"]
