"""Anthropic's Messages: `POST /v1/messages`, and `/v1/messages/count_tokens`; what Claude Code speaks.

Source of the shapes: Anthropic's API reference, and its SDKs' types.
"""

from extproc.surfaces.messages.continued import CONTINUED
from extproc.surfaces.messages.errors import error_object
from extproc.surfaces.messages.request import counting_problems, problems, read, read_counting
from extproc.surfaces.messages.writer import MessagesWriter, token_count

__all__ = [
    "CONTINUED",
    "MessagesWriter",
    "counting_problems",
    "error_object",
    "problems",
    "read",
    "read_counting",
    "token_count",
]
