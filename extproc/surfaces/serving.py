"""From a client's bytes to a backend's and back, by whichever dialect the client speaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from extproc.config import Choice, Config, Model, Team
from extproc.contract.errors import ApiError, invalid_value, model_not_found
from extproc.contract.json_body import decode
from extproc.contract.model_name import model_problems
from extproc.contract.rules import Rules
from extproc.names import CHARACTER, CHAT_PATH, RUNNER
from extproc.surfaces.beginnings import Beginning, beginning_of, fields_of
from extproc.surfaces.choosing import NOBODY, Out, choice_of
from extproc.surfaces.recalling import upstream_of
from extproc.surfaces.table import ROUTES, SURFACES
from extproc.turn import answer
from extproc.turn.answer import Rewritten, StreamedAnswer
from extproc.turn.answer_stream import AnswerStream
from extproc.turn.memory import Memory
from extproc.turn.passed_answer import PassedStream, passed_completion
from extproc.turn.spec import ResponseSpec
from extproc.turn.tally import Tally
from extproc.turn.turn import Turn
from extproc.turn.upstream import UpstreamRequest, ask
from extproc.turn.usage import Sent


def prepare(
    body: bytes,
    config: Config,
    path: str = CHAT_PATH,
    *,
    inner: bool = False,
    memory: Memory | None = None,
    client: str | None = None,
    team: Team | None = None,
    patience: int | None = None,
    out: Out = NOBODY,
) -> UpstreamRequest:
    """Read a request that came to `path`, and decide what its backend is asked. Raises ApiError for one that can't be
    served, or not to `team`. `inner`: it is one of the gateway's own, of a run whose tools are known by now. Of an
    alias's models those are left out, while there are others, whose backends are `out`.

    With a `memory` only what is new of it is read, as far as `client` has sent the rest before; what comes of it is the
    same. With `patience` it raises TakesTimeError where more than so many characters of arguments are to be repaired.
    """
    if memory is not None:
        beginning = known_of(body, config, path, memory, client, inner=inner, out=out)
        asked = recall(beginning, config, memory, patience, inner=inner, team=team) if beginning is not None else None
        if asked is not None:
            return asked
    fields = decode(body)
    for problem in model_problems(fields):
        raise problem
    name: str = fields["model"]
    if is_character(name, config) and not inner and (team is None or team.may_ask(name)):
        read_for_run(fields, path, None, config)
        return UpstreamRequest(name, RUNNER, None, None)
    choice = choice_of(fields, config, path, out)
    model = config.model_for(team, name, choice)
    if model is None:
        raise model_not_found(name, config.names_for(team))
    if model.tool_servers and not inner:
        read_for_run(fields, path, model, config)
        return UpstreamRequest(model.name, RUNNER, None, None)
    turn = ROUTES[path].read(fields, _rules(model, config, patience))
    return _chosen(ask(turn, model, config, limited=not inner), choice)


def known_of(
    body: bytes,
    config: Config,
    path: str,
    memory: Memory,
    client: str | None,
    *,
    inner: bool = False,
    out: Out = NOBODY,
) -> Beginning | None:
    """What is known of a request, None if none of it could be; its time is bounded, however large the body is."""
    memory.goes_by(config)
    continued = ROUTES[path].continued
    if continued is None:
        return None
    return beginning_of(body, continued, path, memory, client, config, out, inner=inner)


def recall(
    beginning: Beginning,
    config: Config,
    memory: Memory,
    patience: int | None = None,
    *,
    inner: bool = False,
    team: Team | None = None,
) -> UpstreamRequest | None:
    """The same as `prepare`, without reading what is known; None for a request that has to be read in the usual way."""
    if (fields := fields_of(beginning, memory.word)) is None:
        return None
    if any(True for _ in model_problems(fields)) or (is_character(fields["model"], config) and not inner):
        return None
    model = config.model_for(team, fields["model"], beginning.choice)
    if model is None or (model.tool_servers and not inner):
        return None
    asked = upstream_of(beginning, fields, model, _rules(model, config, patience), config, memory, inner=inner)
    return _chosen(asked, beginning.choice) if asked is not None else None


def _chosen(asked: UpstreamRequest, choice: Choice | None) -> UpstreamRequest:
    return replace(asked, choice=choice) if choice is not None else asked


def is_character(name: str, config: Config) -> bool:
    """Whether a client means a character by this name, which there may or may not be."""
    return config.characters is not None and name.startswith(CHARACTER)


def read_for_run(fields: dict[str, Any], path: str, model: Model | None, config: Config) -> Turn:
    """The turn that a decoded request asks for, whose tools run on our side besides the client's own.

    `model` is None for a character. Raises ApiError.
    """
    rules = _rules(model, config) if model is not None else Rules(media_urls=config.media_urls)
    turn = ROUTES[path].read(fields, rules)
    if (turn.parameters.get("n") or 1) != 1:
        raise invalid_value("n", "expected 1: tools run on the gateway's side for this model.")
    return turn


def find_problems(body: bytes, config: Config, path: str = CHAT_PATH) -> list[ApiError]:
    """Everything that is wrong with a request, in the contract's order; `prepare` raises the first."""
    try:
        fields = decode(body)
    except ApiError as error:
        return [error]
    name = fields.get("model")
    model = config.model_of(name) if isinstance(name, str) else None
    found = list(ROUTES[path].problems(fields, _rules(model, config) if model is not None else Rules()))
    if model is None and isinstance(name, str) and name:
        found.insert(0, model_not_found(name, config.models_by_name))
    return found


def _rules(model: Model, config: Config, patience: int | None = None) -> Rules:
    return Rules(
        withheld=config.withheld_from(config.backends_by_name[model.backend]),
        media_urls=config.media_urls,
        malformed_history=model.malformed_history,
        patience=patience,
    )


def streamed_answer(spec: ResponseSpec, sent: Sent | None = None) -> AnswerStream:
    """One that is written in the client's dialect, or passes."""
    read = PassedStream if spec.passes else StreamedAnswer
    return read(spec, SURFACES[spec.dialect].writer(spec), sent)


def rewrite_completion(body: bytes, spec: ResponseSpec, sent: Sent | None = None) -> Rewritten:
    """A whole answer in the client's dialect. Raises ApiError (502), see `answer.rewrite_completion`."""
    surface = SURFACES[spec.dialect]
    if spec.counts:
        assert surface.count is not None  # else nobody could have asked
        return Rewritten(surface.count(body), None, estimated=False, tally=Tally(), called=False)
    if spec.passes:
        return passed_completion(body, spec, sent)
    return answer.rewrite_completion(body, spec, surface.writer(spec), sent)
