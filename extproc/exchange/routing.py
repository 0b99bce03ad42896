"""Which backend a request goes to that is routed by the model it names, and otherwise left as it is.

Chat completions are read whole (extproc.turn); of all other requests only the name counts, and is replaced where a
backend has another one for the model. Pure.
"""

from __future__ import annotations

from extproc.config import Config, Team
from extproc.contract.errors import missing_parameter, model_not_found
from extproc.contract.named_model import named_model
from extproc.surfaces.choosing import NOBODY, Out, choice_for_body
from extproc.turn.upstream import UpstreamRequest


def route_by_model(
    body: bytes, content_type: str, config: Config, team: Team | None = None, out: Out = NOBODY
) -> UpstreamRequest:
    """Raises ApiError for a request that can't be read, or whose model isn't served, or not to this team.

    One that names none goes to the only backend that models have, which may have a model of its own for that; not where
    the team may ask some alone.
    """
    named = named_model(body, content_type)
    if named is None:
        if config.only_backend is None or (team is not None and team.is_bounded):
            raise missing_parameter("model", "Name the model to use; GET /v1/models lists them.")
        return UpstreamRequest(None, config.only_backend, None, None)
    choice = choice_for_body(named.name, body, config, out)
    model = config.model_for(team, named.name, choice)
    if model is None:
        raise model_not_found(named.name, config.names_for(team))
    new_body = named.renamed(body, model.upstream_name) if model.upstream_name != named.name else None
    return UpstreamRequest(model.name, model.backend, new_body, None, choice=choice)
