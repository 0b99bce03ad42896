"""A vLLM server without a GPU, for trying the project out and for its tests.

It says what a real vLLM was recorded to say, byte for byte in framing and fields; only the model is not real. Its text
is queued as `Reply`s, which may also stall, cut or garble the answer, or comes from a small built-in model that reads
the tools in its prompt. It must never be part of a deployment.

    with ScriptedVLLM().running() as vllm:
        vllm.play(Reply("Paris.", pieces=1), Reply(trouble=Fail(429, retry_after=1)))
        ...                                   # requests to vllm.url
        assert vllm.requests[0].json["stream"]

From a shell: `python -m scripted_vllm --help`.
"""

from scripted_vllm.connection import Received
from scripted_vllm.replies import Reply, Usage
from scripted_vllm.server import ScriptedVLLM
from scripted_vllm.troubles import (
    Comments,
    Cut,
    ErrorBody,
    ErrorEvent,
    Fail,
    Garbage,
    Gzip,
    NoDone,
    Nonsense,
    Refuse,
    Stall,
    Trouble,
    Verbatim,
)

__all__ = [
    "Comments",
    "Cut",
    "ErrorBody",
    "ErrorEvent",
    "Fail",
    "Garbage",
    "Gzip",
    "NoDone",
    "Nonsense",
    "Received",
    "Refuse",
    "Reply",
    "ScriptedVLLM",
    "Stall",
    "Trouble",
    "Usage",
    "Verbatim",
]
