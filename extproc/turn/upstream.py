"""What a backend is asked for one turn: in which words, and how its answer has to be read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

from extproc.config import Backend, Choice, Config, Model
from extproc.contract.errors import uncounted
from extproc.contract.json_array import tool_names
from extproc.contract.json_body import encode, tool_array
from extproc.contract.parameters import TOOL_PARAMETERS, split
from extproc.contract.withheld import without
from extproc.prompts.wording import CALL_OR_ANSWER, must_call_by_name
from extproc.toolcalls import TEMPLATE_TOKENS, call_syntax
from extproc.turn.affinity import conversation_hash
from extproc.turn.asked import Asked
from extproc.turn.limits import limit_problems
from extproc.turn.memory import Learned
from extproc.turn.modes import BODY_OF_MODE, escaper_of, is_forced, opens_thinking, unforced_texts, wants_json
from extproc.turn.retry import Retry
from extproc.turn.spec import ResponseSpec
from extproc.turn.turn import Turn
from extproc.turn.usage import Sent

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """A request, ready for its backend."""

    model: str | None
    """The model by its own name; None where the client needn't name one, and hasn't."""
    backend: str
    body: bytes | None
    """The body to send instead of the client's; None sends the client's own bytes."""
    answer: ResponseSpec | None
    """None: the answer goes to the client as it comes."""
    dropped: tuple[str, ...] = ()
    """The parameters that the backend doesn't get, in alphabetical order."""
    repaired: int = 0
    """How many malformed arguments of earlier turns were repaired."""
    affinity: str | None = None
    """What the conversation's requests have in common, where its backend is to be chosen by it."""
    sent: Sent | None = None
    """What the answer's count depends on, where the client is to get one."""
    again: Retry | None = None
    """How the backend is asked once more, if it may be: for a demanded call, or instead of one that it made up or is
    unsure of."""
    learned: Learned = field(default=(), compare=False)
    """What is to be remembered of the request (`extproc.turn.memory`)."""
    known: int = field(default=0, compare=False)
    """Bytes of it that were remembered."""
    choice: Choice | None = None
    """Why it is this model, where the client named an alias of several."""
    asked: Asked | None = field(default=None, compare=False)
    """What it was, for who counts; None where no answer of a model is asked for, or the runner asks for it."""

    def with_member(self, name: str, value: int, as_it_came: bytes) -> Self:
        """The same with one more member in its body, in that of a second request too. `as_it_came` is the client's."""
        again = self.again
        if again is not None:
            again = replace(again, after=_with_member(again.after, name, value))
        body = self.body if self.body is not None else as_it_came
        return replace(self, body=_with_member(body, name, value), again=again)


def _with_member(end: bytes, name: str, value: int) -> bytes:
    """The last one of an object's text, or of its end: of two by one name it is the one that counts."""
    brace = end.rindex(b"}")
    return b'%b,"%b":%d%b' % (end[:brace], name.encode(), value, end[brace:])


def ask(turn: Turn, model: Model, config: Config, *, limited: bool = True) -> UpstreamRequest:
    """What the model's backend is asked. Raises ApiError for a turn that the model's settings don't allow, unless its
    tools aren't to be `limited`: clients' are, and what the gateway offers beside them is the operator's."""
    for problem in limit_problems(turn, model) if limited else ():
        raise problem
    backend = config.backends_by_name[model.backend]
    given, withheld = without(turn.parameters, config.withheld_from(backend))
    parameters = _with_defaults(given, model, merge=not turn.passes_answers)
    forwarded, dropped = split(parameters, backend.parameters, backend.kind)
    dropped = tuple(sorted({*dropped, *withheld, *turn.withheld}))
    if not turn.passes_answers:  # whose answers are one choice, in words alone
        beyond = [name for name in _OF_CHAT_ALONE if forwarded.pop(name, None) is not None]
        dropped = tuple(sorted({*dropped, *beyond}))
    forwarded |= {"model": model.upstream_name, "messages": turn.messages}
    if turn.required_tool is not None:
        # The call is the whole answer then: what is asked of its text has no place in it, and would rule the call out.
        given_way = [name for name in _OF_THE_TEXT if _binds(forwarded.pop(name, None))]
        dropped = tuple(sorted({*dropped, *given_way}))
    spec = sent = None
    forced = False
    if turn.offered or turn.has_tool_history or not turn.passes_answers:
        shown = BODY_OF_MODE[model.mode](turn, model, backend)
        forced = is_forced(shown)
        forwarded |= shown
        unforced = (f"tools.{name}.format" for name in unforced_texts(turn, model, forwarded))
        dropped = tuple(sorted({*dropped, *unforced}))
        spec = _response_spec(turn, model, choices=forwarded.get("n") or 1)
        if spec is not None and wants_json(turn) and not forced:
            spec = replace(spec, text_schema=turn.text_schema)
        forwarded = {name: value for name, value in forwarded.items() if value is not None}
    if config.counts_tokens:
        spec = _counted(spec, turn, model)
    if spec is not None and turn.stream:
        options = {**(turn.parameters.get("stream_options") or {}), "include_usage": True}
        if spec.passes and not turn.include_usage:  # without that the backend would tell no running counts
            options.pop("continuous_usage_stats", None)
        forwarded["stream_options"] = options
        spec = replace(spec, running_counts=bool(options.get("continuous_usage_stats")))
    if spec is not None and (spec.counted or turn.include_usage or not turn.stream):
        sent = Sent.read(forwarded)
    if turn.as_sent is not None:  # what may not have changed at all stands where it stood
        order = [name for name in turn.as_sent if name in forwarded and name not in TOOL_PARAMETERS]
        forwarded = {name: forwarded[name] for name in order} | forwarded
    if turn.begun and forwarded["messages"][-1]["role"] == "assistant":  # and no words were put behind it
        forwarded |= {"add_generation_prompt": False, "continue_final_message": True}
    if turn.counts:
        spec, sent = _of_a_count(model, turn, backend), None
        forwarded = _to_count(forwarded)
    step = config.steps.get(model.name)
    again = None
    if model.retry and spec is not None and spec.choices == 1:
        spec = replace(spec, finds_made_up=_may_be_made_up(spec, turn))
        again = _retry(forwarded, turn, model, spec)
        spec, forwarded = _asked_for_confidence(spec, forwarded, model)
    # 10 equals 10.0: what was read may be what was sent, and yet be written in another way.
    as_sent = turn.as_sent is not None and parameters is turn.parameters and forwarded == turn.as_sent
    dropped = tuple(sorted(turn.asked_as.get(name, name) for name in dropped))
    return UpstreamRequest(
        model.name,
        backend.name,
        None if as_sent else encode(forwarded),
        spec,
        dropped,
        turn.repaired,
        _affinity(turn) if backend.affinity else None,
        sent,
        again,
        asked=Asked.of(turn, model, forced=forced, step=step.name if step is not None else ""),
    )


def _may_be_made_up(spec: ResponseSpec, turn: Turn) -> bool:
    """Whether a call of no tool isn't what the client is to get: it may want other JSON, or have begun the answer."""
    free = turn.text_schema is None and not any(_binds(turn.parameters.get(name)) for name in _OF_THE_TEXT)
    return bool(spec.tools) and spec.required_tool is None and free and not turn.begun


def _asked_for_confidence(spec: ResponseSpec, forwarded: Json, model: Model) -> tuple[ResponseSpec, Json]:
    """How sure the model is of its call is to be told with it, where that is wanted."""
    if model.min_confidence is None or not spec.finds_made_up:
        return spec, forwarded
    hides = not forwarded.get("logprobs")  # unless the client asks for them, too
    spec = replace(spec, min_confidence=model.min_confidence, hides_logprobs=hides)
    if hides:  # of those that the model's defaults ask for nothing is seen either
        forwarded = {name: value for name, value in forwarded.items() if name != "top_logprobs"}
    return spec, {**forwarded, "logprobs": True}


def _retry(forwarded: Json, turn: Turn, model: Model, spec: ResponseSpec) -> Retry | None:
    """How the backend is asked once more, if that may be."""
    if spec.required_tool is None and not spec.finds_made_up:
        return None
    names = [spec.required_tool] if spec.required_tool else [*tool_names(turn.tools)]
    syntax = None if model.tools == "native" else call_syntax(model.format_name)
    demand = must_call_by_name(names, syntax) if spec.required_tool is not None else CALL_OR_ANSWER
    asked = {name: value for name, value in forwarded.items() if name not in _OF_ONE_BEGUN}
    return Retry.of(asked, demand, escaper_of(model))


def _of_a_count(model: Model, turn: Turn, backend: Backend) -> ResponseSpec:
    """Raises ApiError where the backend counts nothing."""
    if not backend.kind.counts:
        raise uncounted(backend.kind.title)
    spec = ResponseSpec(model.format_name, [], parallel_tool_calls=True, include_usage=False)
    return replace(spec, dialect=turn.dialect, counts=True)


def _to_count(forwarded: Json) -> Json:
    """What of a request decides how long its prompt is."""
    if (effort := forwarded.get("reasoning_effort")) is not None:  # chat completions hand it to the template
        kwargs = {**(forwarded.get("chat_template_kwargs") or {}), "reasoning_effort": effort}
        forwarded = {**forwarded, "chat_template_kwargs": kwargs}
    return {name: value for name, value in forwarded.items() if name in _OF_THE_PROMPT}


def _affinity(turn: Turn) -> str | None:
    return conversation_hash(turn.messages) if turn.rendered is None else turn.rendered.affinity


_OF_CHAT_ALONE = ("n", "logprobs", "top_logprobs", "prompt_logprobs", "echo", "return_token_ids", "return_prompt_text")
"""What a model's defaults may ask for, and no other dialect can say."""
_OF_THE_PROMPT = frozenset(
    """
    model messages tools chat_template chat_template_kwargs add_generation_prompt continue_final_message
    add_special_tokens mm_processor_kwargs
    """.split()
)
"""What a backend is asked by that is to count."""
_OF_ONE_BEGUN = ("add_generation_prompt", "continue_final_message")
_OF_THE_TEXT = ("response_format", "structured_outputs")


def _binds(value: Json | None) -> bool:
    return value is not None and value.get("type") != "text"


_TOLD = "chat_template_kwargs"
_SAME = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


def _with_defaults(fields: Json, model: Model, *, merge: bool = False) -> Json:
    """With the model's own values for what the client left out. `merge`: what the template is told was not the client's
    own word, so that the model's own stays beside it."""
    given = {name for name, value in fields.items() if value is not None}
    missing = {
        name: value for name, value in model.defaults.items() if name not in given and _SAME.get(name) not in given
    }
    if merge and (told := model.defaults.get(_TOLD)) is not None and fields.get(_TOLD) is not None:
        missing[_TOLD] = {**told, **fields[_TOLD]}
    return {**fields, **missing} if missing else fields


def _counted(spec: ResponseSpec | None, turn: Turn, model: Model) -> ResponseSpec:
    """The same for an answer of which it is to be known what it cost, if it is the client's as it comes, too."""
    if spec is not None:
        return replace(spec, counted=True)
    return ResponseSpec(
        model.format_name,
        [],
        parallel_tool_calls=True,
        include_usage=turn.include_usage,
        dialect=turn.dialect,
        native=True,
        passes=True,
        counted=True,
    )


def _response_spec(turn: Turn, model: Model, *, choices: int) -> ResponseSpec | None:
    native = model.tools == "native"
    if native and not turn.offers_tools and turn.passes_answers:
        return None  # the backend's own answer is the client's
    policy = model.invalid_calls
    if not turn.offers_tools and policy == "pass":
        policy = "text"  # a call that is ruled out goes to no client
    tokens = TEMPLATE_TOKENS if model.special_tokens is None else frozenset(model.special_tokens)
    return ResponseSpec(
        format=model.format_name,
        tools=tool_array(turn.tools) if turn.offers_tools else [],
        parallel_tool_calls=turn.parallel_tool_calls,
        include_usage=turn.include_usage,
        dialect=turn.dialect,
        choices=choices,
        invalid_calls=policy,
        required_tool=turn.required_tool,
        legacy=turn.legacy,
        native=native,
        repair=model.repair,
        hidden=frozenset() if native else tokens,
        openers=escaper_of(model).openers if model.escapes_markers else "",
        thinking="open" if opens_thinking(turn, model) else None,
        model=model.name,
        shows_thinking=turn.shows_thinking,
        stop=turn.stop,
        names=turn.names,
        echo=turn.echo,
        reasoning_content=model.reasoning_content,
    )
