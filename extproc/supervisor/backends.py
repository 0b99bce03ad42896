"""A look at the backends: do they answer, and which models do they serve?"""

from __future__ import annotations

import asyncio
import json
import socket

from extproc.config import Address, Config
from extproc.supervisor.errors import GatewayError
from extproc.supervisor.fetch import fetch

_TIMEOUT = 3.0


async def only_model(address: Address) -> str:
    """The model that the backend at `address` serves. Raises GatewayError when that isn't exactly one."""
    try:
        models = await _models(address)
    except OSError as error:
        raise GatewayError(
            f"the backend at {address} can't be asked for its models: {_reason(error)}; "
            "start it first, or name the model with --model"
        ) from error
    if models is None:
        raise GatewayError(f"the backend at {address} doesn't tell which models it serves; name one with --model")
    if len(models) != 1:
        there_are = ", ".join(models) or "none"
        raise GatewayError(f"the backend at {address} serves {there_are}; choose one with --model")
    return models[0]


async def complaints(config: Config) -> list[str]:
    """A sentence for each backend that doesn't answer, and each model that its backend doesn't know."""
    answers = await asyncio.gather(*(_models(backend.endpoint) for backend in config.backends), return_exceptions=True)
    found = []
    for backend, models in zip(config.backends, answers, strict=True):
        if isinstance(models, OSError):
            found.append(
                f"the backend {backend.name!r} at {backend.address} is unreachable: {_reason(models)}; "
                "requests for it get a 503 until it is up"
            )
        elif isinstance(models, BaseException):
            raise models
        elif models is not None:
            found += [
                f"the backend {backend.name!r} at {backend.address} doesn't serve the model {model.upstream_name!r}; "
                f"it serves {', '.join(models) or 'none'}"
                for model in config.models
                if model.backend == backend.name and model.upstream_name not in models
            ]
    return found


async def _models(address: Address) -> list[str] | None:
    """The names that `GET /v1/models` lists; None when the answer is no such list. Raises OSError."""
    opening = asyncio.open_connection(address.host, address.port)
    answer = await fetch(opening, "GET", "/v1/models", host=str(address), timeout=_TIMEOUT)
    try:
        return [model["id"] for model in json.loads(answer.body)["data"]] if answer.status == 200 else None
    except (ValueError, KeyError, TypeError):
        return None


def _reason(error: OSError) -> str:
    match error:
        case TimeoutError():
            return f"no answer within {_TIMEOUT:g} seconds"
        case ConnectionRefusedError():
            return "connection refused"
        case socket.gaierror():
            return "its name can't be resolved"
        case _:
            return error.strerror or str(error)
