"""What a server is asked, and how its answers are to be understood.

Each function puts one question by a small request or two and returns what was found. What can't be told is None or
`UNDECIDED`, and never a guess. Only `version`, `served` and `chat` give up, because without them there is nothing to
ask.

What is asked for in another way of another server is in `contract.servers`. The facts are measured on vLLM 0.32 and
read in its source:

- tools with `tool_choice: "auto"` are a 400 unless a tool parser is configured. Models with a tokenizer of Mistral's
  and gpt-oss are let through even so, so only a call that arrives as one shows that calls are found;
- with `tool_choice: "none"` the tools are in the prompt all the same, through the chat template, unless the server was
  started with `--exclude-tools-when-tool-choice-none`. `/tokenize` doesn't heed that option, so the two together tell
  it from a chat template that shows no tools;
- a server with a reasoning parser counts reasoning tokens in `usage`, even when there are none. The constraint of
  `structured_outputs` then holds only behind the reasoning, and never for a model that doesn't think;
- vLLM ignores fields that it doesn't know, so only an answer that is what was demanded shows that it was forced.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from extproc.contract.servers import SERVERS
from extproc.contract.servers import Server as Kind
from extproc.diagnosis.notation import CITY, WEATHER
from extproc.probe.server import Answer, Json, NoAnswerError, Server

_WORD = 16
"""Tokens for an answer that only has to begin."""
_CALL = 256
"""Tokens for a call and a few words around it."""
_THOUGHT = 1024
"""Tokens for a model that thinks first; what takes it longer stays open."""

_HELLO = [{"role": "user", "content": "Say: ready"}]
_QUESTION = f"What is the weather in {CITY} right now?"
_RESULT = "17 degrees and drizzle"
_CALL_ID = "a1b2c3d4e"
"""Nine letters and digits: Mistral's chat templates refuse anything else."""
_HISTORY = [
    {"role": "user", "content": _QUESTION},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": _CALL_ID,
                "type": "function",
                "function": {"name": WEATHER["function"]["name"], "arguments": json.dumps({"city": CITY})},
            }
        ],
    },
    {"role": "tool", "tool_call_id": _CALL_ID, "content": _RESULT},
]
_OPEN_THINKING = re.compile(r"(<[^<>/]*think[^<>/]*>|\[THINK\])\s*$")
"""What a chat template leaves open at the end of a prompt: `<think>` and its kin."""

_TAG = "<forced>"
_FORCED = f'{_TAG}{{"word"'
_STRUCTURAL_TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": _TAG,
        "content": {
            "type": "json_schema",
            "json_schema": {
                "type": "object",
                "properties": {"word": {"const": "zebra"}},
                "required": ["word"],
                "additionalProperties": False,
            },
        },
        "end": "</forced>",
    },
}
_CHOICE = "zebra-zebra"
"""Nothing that a model answers to a greeting."""


class ProbeError(Exception):
    """The server can't be probed; the text is one line that says why, ready to be shown to a person."""


class NoModelsError(ProbeError):
    """Nothing that OpenAI's clients could ask is where they ask it."""


@dataclass(frozen=True, slots=True)
class Card:
    """One entry of `/v1/models`."""

    name: str
    root: str
    """The path or the repository that it was loaded from, or an empty text."""
    parent: str | None
    """The model that this is an adapter of."""
    context_length: int | None
    owner: str


@dataclass(frozen=True, slots=True)
class Chat:
    """What a plain answer shows."""

    reasoning_parser: bool
    reasoning_field: Literal["reasoning", "reasoning_content"] | None
    """Where reasoning arrived, if any did."""
    swallowed: bool
    """All of the answer is taken for reasoning, although the model is done."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What became of a request that offers a tool and is best answered by calling it."""

    accepted: bool | None
    """None: neither a completion nor a refusal came back."""
    complaint: str
    prompt_tokens: int | None = None
    called: bool = False
    """A call came, in the field for calls."""
    text: str = ""
    complete: bool = False
    """The model ended its answer by itself."""


@dataclass(frozen=True, slots=True)
class Rendering:
    """What the chat template makes of a conversation with tools."""

    shows_tools: bool
    call: str | None
    """The text of a turn of the assistant that called the tool, with what stands around it."""
    opens_thinking: bool
    """The prompt ends with the beginning of the answer's thinking."""


class Forcing(enum.Enum):
    """What `structured_outputs` does to an answer."""

    BINDS = enum.auto()
    BINDS_REASONING = enum.auto()
    """It binds from the first token, and what it binds is taken for reasoning."""
    LIFTED = enum.auto()
    """The reasoning parser waits for an end of thinking that never comes, and so does the constraint."""
    ABSENT = enum.auto()
    """Such a server takes no structural tag."""
    CHOICE_ONLY = enum.auto()
    """A choice binds, a structural tag doesn't: the server is too old for it."""
    IGNORED = enum.auto()
    UNDECIDED = enum.auto()


def version(server: Server) -> str | None:
    """What vLLM says at `/version`; None when nothing is said there. Raises ProbeError if there is no answer."""
    try:
        answer = server.get("/version")
    except NoAnswerError as error:
        raise ProbeError(f"{server.origin}: {error}") from error
    return answer.text("version") or None if answer.status == 200 else None


def served(server: Server) -> list[Card]:
    """The models that the server lists, at least one. Raises ProbeError."""
    try:
        answer = server.get("/v1/models")
    except NoAnswerError as error:
        raise ProbeError(f"{server.origin}: {error}") from error
    if answer.status in (401, 403):
        told = "refuses this API key" if server.has_key else "asks for an API key: put it in a file for --api-key-file"
        raise ProbeError(f"{server.origin}: it {told} ({answer.complaint})")
    listed = answer.at("data")
    if answer.status != 200 or not isinstance(listed, list):
        raise NoModelsError(f"{server.origin}: this is no vLLM: it lists no models at /v1/models ({answer.complaint})")
    cards = {card.name: card for card in map(_card, listed) if card is not None}
    if not cards:
        raise ProbeError(f"{server.origin}: it serves no models")
    return list(cards.values())


def chat(server: Server, model: str) -> Chat:
    """Raises ProbeError when the model can't even do this."""
    try:
        answer = _complete(server, model, _WORD, messages=_HELLO)
    except NoAnswerError as error:
        raise ProbeError(f"{server.origin}: the model {model} can't be asked: {error}") from error
    if not _is_completion(answer):
        raise ProbeError(f"{server.origin}: the model {model} doesn't chat ({answer.complaint})")
    field = _reasoning_field(answer)
    counted = answer.number("usage", "completion_tokens_details", "reasoning_tokens") is not None
    swallowed = field is not None and not _content(answer) and _finish(answer) == "stop"
    return Chat(counted or field is not None, field, swallowed)


def offered(
    server: Server,
    model: str,
    choice: Literal["auto", "none"],
    kind: Kind = SERVERS["vllm"],
    *,
    trial: bool = True,
    thinks: bool = False,
) -> Offer:
    """Offer the tool. With `trial` the model gets enough tokens for a call; else it is the prompt that matters."""
    budget = (_THOUGHT if thinks else _CALL) if trial else 1
    written = kind.as_written if choice == kind.unread else {}
    messages = _HISTORY[:1]
    try:
        answer = _complete(server, model, budget, messages=messages, tools=[WEATHER], tool_choice=choice, **written)
    except NoAnswerError as error:
        return Offer(None, str(error))
    if not _is_completion(answer):
        return Offer(False if 400 <= answer.status < 429 else None, answer.complaint)
    return Offer(
        accepted=True,
        complaint="",
        prompt_tokens=answer.number("usage", "prompt_tokens"),
        called=bool(answer.at("choices", 0, "message", "tool_calls")),
        text=_content(answer),
        complete=_finish(answer) != "length",
    )


def prompt_without_tools(server: Server, model: str) -> int | None:
    """The tokens of the prompt of `offered` when nothing is offered; None when they aren't counted."""
    try:
        return _complete(server, model, 1, messages=_HISTORY[:1]).number("usage", "prompt_tokens")
    except NoAnswerError:
        return None


def rendering(server: Server, model: str, kind: Kind = SERVERS["vllm"]) -> Rendering | None:
    """What the model gets to see; None when the server doesn't show it."""
    conversation = {"model": model, "messages": _HISTORY, "tools": [WEATHER]}
    try:
        if kind.renders is not None:
            prompt = server.post(kind.renders, conversation).text("prompt")
        else:
            tokens = server.post("/tokenize", conversation).at("tokens")
            if not isinstance(tokens, list):
                return None
            prompt = server.post("/detokenize", {"model": model, "tokens": tokens}).text("prompt")
    except NoAnswerError:
        return None
    before, question, after = prompt.partition(_QUESTION)
    if not question:
        return None
    call, result, _ = after.partition(_RESULT)
    return Rendering(
        shows_tools=WEATHER["function"]["description"] in before + after,
        call=call if result else None,
        opens_thinking=_OPEN_THINKING.search(prompt) is not None,
    )


def forcing(server: Server, model: str, kind: Kind = SERVERS["vllm"], *, thinks: bool) -> Forcing:
    """Demand what no model says by itself."""
    if kind.forced_by is None:
        return Forcing.ABSENT
    in_vllm = kind.forced_by == "structured_outputs"
    demand: Json = {"structural_tag": json.dumps(_STRUCTURAL_TAG)} if in_vllm else _STRUCTURAL_TAG
    budget = _THOUGHT if thinks else 2 * _WORD
    try:
        answer = _complete(server, model, budget, messages=_HELLO, **{kind.forced_by: demand})
        if answer.status >= 429 or (answer.status == 200 and not _is_completion(answer)):
            return Forcing.UNDECIDED
        if _content(answer).strip().startswith(_FORCED):
            return Forcing.BINDS
        if _reasoning(answer).strip().startswith(_FORCED):
            return Forcing.BINDS_REASONING
        if thinks and answer.status == 200 and not _content(answer):
            return Forcing.UNDECIDED if _finish(answer) == "length" else Forcing.LIFTED
        if not in_vllm:
            return Forcing.IGNORED
        answer = _complete(server, model, budget, messages=_HELLO, structured_outputs={"choice": [_CHOICE]})
    except NoAnswerError:
        return Forcing.UNDECIDED
    return Forcing.CHOICE_ONLY if _content(answer).strip() == _CHOICE else Forcing.IGNORED


def _complete(server: Server, model: str, max_tokens: int, **fields: Json) -> Answer:
    settings = {"max_tokens": max_tokens, "temperature": 0, "stream": False}
    return server.post("/v1/chat/completions", {"model": model, **settings, **fields})


def _is_completion(answer: Answer) -> bool:
    return answer.status == 200 and isinstance(answer.at("choices", 0, "message"), dict)


def _content(answer: Answer) -> str:
    return answer.text("choices", 0, "message", "content")


def _finish(answer: Answer) -> str:
    return answer.text("choices", 0, "finish_reason")


_REASONING_FIELDS: Sequence[Literal["reasoning", "reasoning_content"]] = ("reasoning", "reasoning_content")
"""What newer and older servers call it."""


def _reasoning_field(answer: Answer) -> Literal["reasoning", "reasoning_content"] | None:
    return next((field for field in _REASONING_FIELDS if answer.text("choices", 0, "message", field)), None)


def _reasoning(answer: Answer) -> str:
    field = _reasoning_field(answer)
    return answer.text("choices", 0, "message", field) if field is not None else ""


def _card(listed: Json) -> Card | None:
    entry = Answer(200, listed)
    name, length = entry.text("id"), entry.number("max_model_len") or entry.number("meta", "n_ctx")
    if not 0 < len(name) <= 256:
        return None
    return Card(
        name=name,
        root=entry.text("root"),
        parent=entry.text("parent") or None,
        context_length=length if length is not None and length > 0 else None,
        owner=entry.text("owned_by"),
    )
