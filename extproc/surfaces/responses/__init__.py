"""OpenAI's Responses: `POST /v1/responses`, without any memory; what Codex speaks.

Errors have the shape of chat completions. Source of the shapes: OpenAI's API reference, and its SDKs' types.
"""

from extproc.surfaces.responses.continued import CONTINUED
from extproc.surfaces.responses.request import problems, read
from extproc.surfaces.responses.writer import ResponsesWriter

__all__ = ["CONTINUED", "ResponsesWriter", "problems", "read"]
