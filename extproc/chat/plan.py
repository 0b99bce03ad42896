"""The way of one request: which backend gets it, in which words, and how the answer has to be read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from extproc.chat.affinity import conversation_hash
from extproc.chat.limits import limit_problems
from extproc.chat.modes import BODY_OF_MODE, escaper_of, wants_json
from extproc.chat.second_try import SecondTry
from extproc.chat.usage import Sent
from extproc.config import Config, InvalidCalls, Model
from extproc.openai.errors import ApiError, model_not_found
from extproc.openai.json_body import decode, encode
from extproc.openai.parameters import split
from extproc.openai.request import ChatRequest, Rules, model_problems, problems, read_request
from extproc.toolcalls import TEMPLATE_TOKENS, call_syntax
from extproc.tools.prompt import demanded
from extproc.tools.wording import must_call_by_name

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """How the model's answer becomes the answer that the client expects."""

    format: str
    tools: list[Json]
    """Those that the model may call: none where the client wants words, or offers no tools any more."""
    parallel_tool_calls: bool
    include_usage: bool
    """The client asked for the usage chunk of a stream (the backend always is)."""
    choices: int = 1
    """How many the answer has to have."""
    invalid_calls: InvalidCalls = "pass"
    demanded: str | None = None
    """The tool that has to be called: its name, "" for any of them, None when the model may do without."""
    legacy: bool = False
    """The client speaks of functions, not of tools: it gets `function_call`."""
    native: bool = False
    """The backend's answer has calls of its own."""
    repair: bool = False
    """What goes wrong with those is mended, and the text is read for calls too."""
    hidden: frozenset[str] = frozenset()
    """Tokens that are no text."""
    openers: str = ""
    """Behind which characters the escape of what the model was shown is undone; none if nothing was escaped."""
    thinking: Literal["open"] | None = None
    """The text begins inside the model's thinking."""
    text_schema: Json | None = None
    """What the text has to fit where there is no call, as the backend doesn't know of it; `{}` for any object."""
    model: str = ""
    """What the answer calls the model; empty for what the backend says."""
    reasoning_content: bool = False
    """Reasoning is sent under its older name as well."""

    @property
    def callable_tools(self) -> list[Json]:
        """The tools that the model may call: where one is demanded by name, no other."""
        return [tool for tool in self.tools if not self.demanded or tool["function"]["name"] == self.demanded]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request, ready for its backend."""

    model: str | None
    """The model as the client named it; None where it needn't, and hasn't."""
    backend: str
    body: bytes | None
    """The body to send instead of the client's; None sends the client's own bytes."""
    answer: AnswerPlan | None
    """None: the answer goes to the client as it comes."""
    dropped: tuple[str, ...] = ()
    """The parameters that the backend doesn't get, in alphabetical order."""
    repaired: int = 0
    """How many malformed arguments of earlier turns were mended."""
    affinity: str | None = None
    """What the conversation's requests have in common, where its backend is to be chosen by it."""
    sent: Sent | None = None
    """What the answer's count depends on, where the client is to get one."""
    again: SecondTry | None = None
    """How the backend is asked once more for a demanded call, if it is."""


def prepare(body: bytes, config: Config) -> Prepared:
    """Read a request and decide. Raises ApiError for a request that can't be served."""
    fields = decode(body)
    for problem in model_problems(fields):
        raise problem
    model = config.models_by_name.get(fields["model"])
    if model is None:
        raise model_not_found(fields["model"], config.models_by_name)
    request = read_request(fields, _rules(model, config))
    for problem in limit_problems(request, model):
        raise problem
    backend = config.backends_by_name[model.backend]
    request = replace(request, fields=_with_defaults(request.fields, model))
    forwarded, dropped = split(request.fields, backend.parameters)
    dropped = tuple(sorted({*dropped, *request.withheld}))
    forwarded |= {"model": model.upstream_name, "messages": request.messages}
    if demanded(request) is not None:
        # The call is the whole answer then: what is asked of its text has no place in it, and would rule the call out.
        given_way = [name for name in _OF_THE_TEXT if _binds(forwarded.pop(name, None))]
        dropped = tuple(sorted({*dropped, *given_way}))
    answer = sent = None
    if request.offered or request.has_tool_history:
        forwarded |= BODY_OF_MODE[model.tools](request, model, backend)
        answer = _answer_plan(request, model, choices=forwarded.get("n") or 1)
        if answer is not None and wants_json(request) and not forwarded.get("structured_outputs"):
            answer = replace(answer, text_schema=request.text_schema)
        if answer is not None and request.stream:
            forwarded["stream_options"] = {**(fields.get("stream_options") or {}), "include_usage": True}
        forwarded = {name: value for name, value in forwarded.items() if value is not None}
        if answer is not None and (request.include_usage or not request.stream):
            sent = Sent.read(forwarded)
    again = None
    if model.retry and answer is not None and answer.demanded is not None and (request.fields.get("n") or 1) == 1:
        syntax = None if model.tools == "native" else call_syntax(model.format_name)
        names = [answer.demanded] if answer.demanded else [tool["function"]["name"] for tool in request.tools]
        again = SecondTry.of(forwarded, must_call_by_name(names, syntax), escaper_of(model))
    # 10 equals 10.0: what was read may be what was sent, and yet be written in another way.
    new_body = None if request.fields is fields and forwarded == fields else encode(forwarded)
    affinity = conversation_hash(request.messages) if backend.affinity else None
    return Prepared(model.name, backend.name, new_body, answer, dropped, request.repaired, affinity, sent, again)


def find_problems(body: bytes, config: Config) -> list[ApiError]:
    """Everything that is wrong with a request, in the contract's order; `prepare` raises the first."""
    try:
        fields = decode(body)
    except ApiError as error:
        return [error]
    name = fields.get("model")
    model = config.models_by_name.get(name) if isinstance(name, str) else None
    found = list(problems(fields, _rules(model, config) if model is not None else Rules()))
    if model is None and isinstance(name, str) and name:
        found.insert(0, model_not_found(name, config.models_by_name))
    return found


def _rules(model: Model, config: Config) -> Rules:
    return Rules(
        withheld=config.withheld_from(config.backends_by_name[model.backend]),
        media_urls=config.media_urls,
        malformed_history=model.malformed_history,
    )


_OF_THE_TEXT = ("response_format", "structured_outputs")


def _binds(value: Json | None) -> bool:
    return value is not None and value.get("type") != "text"


_SAME = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


def _with_defaults(fields: Json, model: Model) -> Json:
    """With the model's own values for what the client left out."""
    given = {name for name, value in fields.items() if value is not None}
    missing = {
        name: value for name, value in model.defaults.items() if name not in given and _SAME.get(name) not in given
    }
    return {**fields, **missing} if missing else fields


def _answer_plan(request: ChatRequest, model: Model, *, choices: int) -> AnswerPlan | None:
    native = model.tools == "native"
    if native and not request.offers_tools:
        return None
    policy = model.invalid_calls
    if not request.offers_tools and policy == "pass":
        policy = "text"  # a call that is ruled out goes to no client
    tokens = TEMPLATE_TOKENS if model.special_tokens is None else frozenset(model.special_tokens)
    return AnswerPlan(
        format=model.format_name,
        tools=request.tools if request.offers_tools else [],
        parallel_tool_calls=request.parallel_tool_calls,
        include_usage=request.include_usage,
        choices=choices,
        invalid_calls=policy,
        demanded=demanded(request),
        legacy=request.legacy,
        native=native,
        repair=model.repair,
        hidden=frozenset() if native else tokens,
        openers=escaper_of(model).openers if model.escapes_markers else "",
        thinking="open" if model.thinking == "open" else None,
        model=model.name,
        reasoning_content=model.reasoning_content,
    )
