"""A model that goes wrong when it is asked to."""

from __future__ import annotations

from scripted_vllm import Cut, ErrorEvent, Fail, Reply, Stall
from scripted_vllm.checks import ChatRequest

_CALL = '<tool_call>\n{"name": "%s", "arguments": {}}\n</tool_call>'
_WORDS = "All is well with me."

REPLIES = {
    "well": Reply(_CALL % "look"),
    "fails": Reply(trouble=Fail(500)),
    "is cut": Reply(_WORDS, pieces=4, trouble=Cut(after=2)),
    "ends with an error": Reply(_WORDS, pieces=4, trouble=ErrorEvent(after=2)),
    "calls what isn't there": Reply(_CALL % "fly"),
    "takes long": Reply(_WORDS, pieces=4, trouble=Stall(after=2, seconds=600)),
}


class Model:
    """It does what the last message says, as long as it is `ill`."""

    def __init__(self) -> None:
        self.ill = True

    def __call__(self, request: ChatRequest) -> Reply:
        asked = str(request.messages[-1]["content"])
        return REPLIES[asked if self.ill or asked == "takes long" else "well"]
