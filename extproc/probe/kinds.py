"""Which server it is, by what it says of itself.

A model's card names its owner, which in most of them is the server; what isn't told so is asked for at the paths that
only one of them has. Sources: those of `contract.servers`, and of the routers vllm-project/production-stack 069f4fee
(`src/vllm_router/routers/main_router.py`) and kserve/kserve (`protocol/rest/openai/endpoints.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extproc.contract.servers import SERVERS, ServerName
from extproc.probe.questions import Card
from extproc.probe.server import Answer, NoAnswerError, Server, one_line


@dataclass(frozen=True, slots=True)
class Kind:
    """What a server is."""

    server: ServerName
    """As which it is to be asked."""
    identity: str
    """In words, with its version if it tells that."""


_OWNERS: Mapping[str, ServerName] = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp", "library": "ollama"}


def recognized(server: Server, cards: Sequence[Card], version: str | None) -> Kind:
    """What it is; `version` is what it says at `/version`, as vLLM and its routers do."""
    if any(isinstance(_asked(server, "/engines").at(0, name), list | str) for name in ("serving_models", "engine_id")):
        behind = f" {one_line(version, 40)}" if version is not None else ""
        return Kind("vllm", f"the router{behind} of vLLM's production-stack")
    owned = next((_OWNERS[card.owner] for card in cards if card.owner in _OWNERS), None)
    if owned == "vllm" or (owned is None and version is not None):
        return Kind("vllm", f"vLLM {one_line(version, 40)}" if version else "a vLLM that doesn't tell its version")
    candidates: Sequence[ServerName] = (owned,) if owned is not None else ("llama.cpp", "sglang", "tgi", "ollama")
    for name in candidates:
        if (told := _version(server, name)) is not None:
            return Kind(name, f"{SERVERS[name].title} {one_line(told, 40)}")
    if owned is not None:
        return Kind(owned, f"{SERVERS[owned].title} that doesn't tell its version")
    return Kind("vllm", "a server that doesn't say it is vLLM")


def _version(server: Server, name: ServerName) -> str | None:
    """The version that such a server would tell; None where it tells none, and so isn't one."""
    match name:
        case "llama.cpp":
            props = _asked(server, "/props")
            return props.text("build_info") or None if props.number("total_slots") is not None else None
        case "sglang":
            # The second is the older path.
            answers = (_asked(server, path) for path in ("/server_info", "/get_server_info"))
            return next((told for info in answers if (told := info.text("version")) and info.text("model_path")), None)
        case "tgi":
            info = _asked(server, "/info")
            is_router = info.text("model_id") and info.number("max_concurrent_requests") is not None
            return info.text("version") or None if is_router else None
        case _:
            return _asked(server, "/api/version").text("version") or None


def is_behind_a_prefix(server: Server) -> bool:
    """Whether it is KServe's own runtime, with its API where KServe puts it unless told otherwise."""
    return isinstance(_asked(server, "/openai/v1/models").at("data"), list)


def _asked(server: Server, path: str) -> Answer:
    try:
        answer = server.get(path)
    except NoAnswerError:
        return Answer(0, None)
    return answer if answer.status == 200 else Answer(answer.status, None)
