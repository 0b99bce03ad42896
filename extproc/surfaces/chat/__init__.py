"""OpenAI's chat completions: `POST /v1/chat/completions`, the dialect of vLLM itself.

Source of the shapes: OpenAI's API reference for chat completions, and recorded vLLM traffic.
"""

from extproc.surfaces.chat.continued import CONTINUED
from extproc.surfaces.chat.errors import error_object
from extproc.surfaces.chat.request import problems, read
from extproc.surfaces.chat.writer import ChatWriter

__all__ = ["CONTINUED", "ChatWriter", "error_object", "problems", "read"]
