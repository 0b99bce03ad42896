"""A client's request as the plan of a run: what the model is asked, which tools are ours, how the answer is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from extproc.config import Config, Model
from extproc.contract.errors import ApiError, invalid_value, model_not_found, quoted
from extproc.contract.json_body import decode
from extproc.contract.model_name import model_problems
from extproc.contract.tool_choice import NamedTool
from extproc.names import CHARACTER
from extproc.runner.steps import Offered
from extproc.runner.tools import ToolSource
from extproc.surfaces import is_character, read_for_run
from extproc.turn.limits import limit_problems
from extproc.turn.spec import ResponseSpec
from extproc.turn.turn import Turn
from extproc.turn.usage import Sent

Json: TypeAlias = dict[str, Any]

_NOT_IN_RUNS = ("logprobs", "top_logprobs", "prompt_logprobs", "echo", "return_token_ids", "return_prompt_text")
"""What is said of one round's tokens makes no sense of an answer of several."""
_OF_THE_STREAM = ("stream", "stream_options", "n")
_TOKENS = ("max_completion_tokens", "max_tokens")


class Character(ToolSource, Protocol):
    """A source of tools that also has words of its own, and a model that plays it."""

    @property
    def system_prompt(self) -> str | None: ...

    @property
    def model(self) -> str | None: ...

    @property
    def tool_servers(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a run goes by."""

    model: str
    """As the client named it."""
    label: str
    """As the configuration names it, for metrics and logs: there are only so many."""
    turn: Turn
    body: Json
    """What every round asks, besides the conversation and how long the answer may be."""
    messages: list[Json]
    offered: Mapping[str, Offered]
    """Our tools, by the names that the model knows."""
    sources: Mapping[str, ToolSource]
    spec: ResponseSpec
    """How the answer is written."""
    tokens: int | None
    """The most that the answer may have,"""
    tokens_name: str
    """and what the client calls that."""
    dropped: tuple[str, ...]
    """What of the request no round asks."""

    @property
    def begun(self) -> bool:
        """The last message is the beginning of the answer, in words that the answer goes on with."""
        last = self.messages[-1]
        if not self.body.get("continue_final_message") or not isinstance(last.get("content"), str):
            return False
        return last["role"] == "assistant" and not last.get("tool_calls")

    @property
    def prompt_tokens(self) -> int:
        """How many the first round has, by estimate."""
        return Sent.read({**self.body, "messages": self.messages}).prompt_tokens()


def plan(
    body: bytes,
    path: str,
    config: Config,
    characters: Mapping[str, Character],
    servers: Mapping[str, ToolSource],
) -> Plan:
    """Read a request that came to `path`, as the gateway knows it. Raises ApiError.

    `characters` are those that can be used, by their names without the prefix; `servers` by theirs.
    """
    fields = decode(body)
    for problem in model_problems(fields):
        raise problem
    name: str = fields["model"]
    model, character = _cast(name, config, characters)
    turn = read_for_run(fields, path, model if character is None else None, config)
    for problem in limit_problems(turn, model):
        raise problem
    named = character.tool_servers if character is not None else model.tool_servers
    sources: list[ToolSource] = [servers[server] for server in named if server in servers]
    if character is not None:
        sources.insert(0, character)
    if turn.tool_choice == "none" and not turn.offered and not _wants_no_calls(fields):
        turn = replace(turn, tool_choice="auto")  # it said so of the client's tools, and there are none
    tools, offered = _offered(turn, sources)
    messages = list(turn.messages)
    if character is not None and character.system_prompt:
        messages = _with_system_prompt(messages, character.system_prompt)
    parameters = {key: value for key, value in turn.parameters.items() if value is not None}
    dropped = [turn.asked_as.get(key, key) for key in _NOT_IN_RUNS if parameters.pop(key, False) is not False]
    dropped += [f"tools.{tool}.format" for tool in turn.texts]
    if ((parameters.get("stream_options") or {}).get("continuous_usage_stats")) is True:
        dropped.append("stream_options.continuous_usage_stats")
    asked: Json = {key: value for key, value in parameters.items() if key not in (*_OF_THE_STREAM, *_TOKENS)}
    asked |= {"model": model.name, "stream": True, "stream_options": {"include_usage": True}}
    if tools:
        asked["tools"] = tools
        asked["tool_choice"] = _choice(turn)
        if not turn.parallel_tool_calls or turn.legacy:
            asked["parallel_tool_calls"] = False
    if turn.begun:
        asked |= {"add_generation_prompt": False, "continue_final_message": True}
    tokens_name = next((key for key in _TOKENS if isinstance(parameters.get(key), int)), _TOKENS[0])
    tokens: int | None = parameters.get(tokens_name)
    return Plan(
        name,
        model.name if character is None else name,
        turn,
        asked,
        messages,
        offered,
        {source.name: source for source in sources},
        _spec(name, turn, model),
        tokens,
        tokens_name,
        tuple(sorted({*dropped, *turn.withheld})),
    )


def _wants_no_calls(fields: Json) -> bool:
    """Whether the client says so itself, in any dialect's words."""
    match fields.get("tool_choice"):
        case "none" | {"type": "none"}:
            return True
        case _:
            return fields.get("function_call") == "none"


def _cast(name: str, config: Config, characters: Mapping[str, Character]) -> tuple[Model, Character | None]:
    """Who answers to this name: a model, and the character that it plays."""
    if not is_character(name, config):
        model = config.model_of(name)
        if model is None:
            raise model_not_found(name, config.models_by_name)
        return model, None
    character = characters.get(name.removeprefix(CHARACTER))
    if character is None:
        # Where there are teams, not everybody may know of all.
        raise model_not_found(name, [] if config.teams else [f"{CHARACTER}{known}" for known in characters])
    model = model_of(character, config)
    if model is None:  # its file, or the configuration, has just changed
        raise ApiError(503, f"The character {quoted(name)} has no model.", "server_error", code="character_unavailable")
    return model, character


def model_of(character: Character, config: Config) -> Model | None:
    """The model that plays a character: the one that it names, or the only one that there is."""
    if character.model is not None:
        return config.model_of(character.model)
    return config.models[0] if len(config.models) == 1 else None


def problems_of(character: Character, config: Config) -> list[str]:
    """What keeps a character that is well in itself from being played."""
    found = []
    if model_of(character, config) is None:
        known = ", ".join(config.models_by_name)
        found.append(
            f"MODEL: no model is named {character.model!r}; there are: {known}"
            if character.model is not None
            else f"MODEL: there are several models, so it has to name one: {known}"
        )
    servers = [server.name for server in config.tool_servers]
    found += [
        f"TOOL_SERVERS: no tool server is named {name!r}" for name in character.tool_servers if name not in servers
    ]
    return found


def _offered(turn: Turn, sources: Sequence[ToolSource]) -> tuple[list[Json], dict[str, Offered]]:
    """All the tools that the model is shown, and which of them are ours.

    A call that the client demands is one of its own tools: ours aren't shown then, nor where it wants no calls.
    """
    if turn.tool_choice != "auto":
        return list(turn.tools), {}
    places = {tool["function"]["name"]: place for tool, place in zip(turn.offered, turn.places, strict=True)}
    ours: dict[str, Offered] = {}
    definitions: list[Json] = []
    for source in sources:
        for definition in source.definitions:
            name = definition["function"]["name"]
            if name in places:
                raise invalid_value(
                    places[name], f"{quoted(name)} is the name of a tool that the gateway offers; use another."
                )
            if name in ours:
                continue  # of two characters' or servers' tools the first
            ours[name] = Offered(source.name, name.removeprefix(f"{source.name}__"), source.runs(name))
            definitions.append(definition)
    return [*definitions, *turn.tools], ours


def _choice(turn: Turn) -> Any:
    match turn.tool_choice:
        case NamedTool(name):
            return {"type": "function", "function": {"name": name}}
        case choice:
            return choice


def _with_system_prompt(messages: list[Json], prompt: str) -> list[Json]:
    """Before whatever the client says, in one system message: many templates take no second one."""
    if not messages or messages[0]["role"] not in ("system", "developer"):
        return [{"role": "system", "content": prompt}, *messages]
    first, *others = messages
    content = first["content"]
    joined = f"{prompt}\n\n{content}" if isinstance(content, str) else [{"type": "text", "text": prompt}, *content]
    return [{**first, "content": joined}, *others]


def _spec(name: str, turn: Turn, model: Model) -> ResponseSpec:
    return ResponseSpec(
        model.format_name,
        list(turn.tools) if turn.offers_tools else [],
        parallel_tool_calls=turn.parallel_tool_calls,
        include_usage=turn.include_usage or not turn.passes_answers,
        dialect=turn.dialect,
        legacy=turn.legacy,
        native=True,
        model=name,
        shows_thinking=turn.shows_thinking,
        names=turn.names,
        echo=turn.echo,
        stop=turn.stop,
        counts=turn.counts,
        reasoning_content=model.reasoning_content,
    )
