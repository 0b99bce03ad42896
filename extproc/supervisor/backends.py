"""A look at the backends: do they answer, and which models do they serve?"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Collection, Iterator
from pathlib import Path

from extproc.backends.reports import reports_of
from extproc.config import Address, Backend, Config
from extproc.config.files import shown
from extproc.supervisor.errors import GatewayError


async def only_model(address: Address) -> str:
    """The model that the backend at `address` serves. Raises GatewayError when that isn't exactly one."""
    try:
        models = await _models(Backend(name="backend", address=(str(address),)), address)
    except OSError as error:
        raise GatewayError(
            f"can't list the models of the backend at {address}: {_reason(error)}; "
            "start it first, or name the model with --model"
        ) from error
    if models is None:
        raise GatewayError(f"the backend at {address} doesn't say which models it serves; name one with --model")
    if not models:
        raise GatewayError(f"the backend at {address} serves no models")
    if len(models) != 1:
        raise GatewayError(f"the backend at {address} serves {', '.join(models)}; choose one with --model")
    (model,) = models
    return model


async def complaints(config: Config) -> list[str]:
    """A sentence for each server that doesn't answer, and each model that one doesn't know."""
    found = await asyncio.gather(*(_complaints(config, backend) for backend in config.backends))
    return [complaint for of_backend in found for complaint in of_backend]


async def _complaints(config: Config, backend: Backend) -> list[str]:
    asked = await asyncio.gather(*(_answer(backend, address) for address in backend.endpoints))
    reached = [models for models in asked if not isinstance(models, OSError)]
    meanwhile = (
        "requests go to its other replicas"
        if reached
        else "requests for it get a 503 until it is up"
        if len(asked) == 1
        else "requests for it get a 503 until one of its replicas is up"
    )
    found: list[str] = []
    for address, models in zip(backend.endpoints, asked, strict=True):
        who = f"the backend {backend.name!r} at {address}"
        if isinstance(models, OSError):
            url = f"{'http' if backend.tls is None else 'https'}://{address}"
            found.append(f"{who} is unreachable: {_reason(models)}; {meanwhile}; see `extproc probe {url}`")
        elif models is not None:
            found += _missing(config, backend, who, models)
    return found


def _missing(config: Config, backend: Backend, who: str, models: Collection[str]) -> Iterator[str]:
    for model in config.models:
        if model.backend == backend.name and model.upstream_name not in models:
            there_are = ", ".join(models) or "none"
            yield f"{who} doesn't serve the model {model.upstream_name!r}; it serves {there_are}"


async def _answer(backend: Backend, address: Address) -> Collection[str] | OSError | None:
    """What `_models` returns or raises."""
    try:
        return await _models(backend, address)
    except OSError as error:
        return error


async def _models(backend: Backend, address: Address) -> Collection[str] | None:
    """The names that `GET /v1/models` lists; None when the answer is no such list. Raises OSError."""
    try:
        return list(await reports_of(backend, address))
    except ValueError:
        return None


def _reason(error: OSError) -> str:
    match error:
        case TimeoutError():
            return "it didn't answer in time"
        case ConnectionRefusedError():
            return "connection refused"
        case socket.gaierror():
            return "its name can't be resolved"
        case ssl.SSLCertVerificationError():
            return f"its certificate isn't accepted: {error.verify_message}"
        case FileNotFoundError():
            file = "its CA file"
            return f"{shown(Path(error.filename), file) if error.filename else file} doesn't exist"
        case _:
            return error.strerror or str(error)
