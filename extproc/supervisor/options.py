"""What `extproc up` is asked for, and the configuration that comes of it."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import yaml

from extproc.config import Address, Config, parse
from extproc.config.loading import check_files, read
from extproc.config.recording import Recording
from extproc.supervisor.backends import only_model
from extproc.supervisor.errors import GatewayError


@dataclass(frozen=True, slots=True)
class FromFile:
    """The models and backends of a configuration file."""

    path: Path


@dataclass(frozen=True, slots=True)
class FromBackend:
    """One backend and one model of it, or its only one."""

    address: Address
    model: str | None = None
    format: str = "hermes"


@dataclass(frozen=True, slots=True)
class Scripted:
    """A scripted vLLM of our own, whose model may be given a name."""

    model: str = "qwen2.5-coder"


Source: TypeAlias = FromFile | FromBackend | Scripted


@dataclass(frozen=True, slots=True)
class Options:
    """The whole command line."""

    source: Source
    listen: str | None
    """Instead of the address that the configuration says."""
    metrics: str | None
    """Where the processor's metrics are to be served, if anywhere."""
    envoy: str | None
    """The path of Envoy's binary, unless it is to be looked for."""
    grace: float
    """How many seconds requests get to finish when the gateway is asked to stop."""
    quiet: bool
    """Whether Envoy's access log is kept from stdout."""
    recording: Recording | None = None
    """Where exchanges are to be recorded, whatever the configuration says of it."""
    characters: Path | None = None
    """The directory of characters; a file names its own."""
    workers: int | Literal["auto"] | None = None
    """In how many processes the processor works, instead of what the configuration says."""
    watch: str | None = None
    """Where the page is to be served that shows exchanges, if anywhere."""


async def configuration(source: FromFile | FromBackend, listen: str | None, characters: Path | None = None) -> Config:
    """`characters` is an absolute path, for one that doesn't come from a file.

    Raises ConfigError, and GatewayError when a backend doesn't tell its model.
    """
    if isinstance(source, FromFile):
        text = read(source.path)
        config = parse(text, source=str(source.path))
        check_files(config, text, source=str(source.path), there=True)
        return config if listen is None else config.model_copy(update={"listen": listen})
    model = source.model if source.model is not None else await only_model(source.address)
    settings: dict[str, object] = {
        "models": [{"name": model, "backend": "backend", "tools": "prompt", "format": source.format}],
        "backends": [{"name": "backend", "address": str(source.address)}],
    }
    if listen is not None:
        settings["listen"] = listen
    if characters is not None:
        settings["characters"] = str(characters)
    return parse(yaml.safe_dump(settings), source="command line")


def check_listen(address: Address, option: str = "--listen") -> None:
    """Raises GatewayError when `address`, for which there is the command line's `option`, can't be listened on.

    Envoy wouldn't say so: it shares its port with any other Envoy of the same user, which would then get half of
    the connections.
    """
    try:
        families = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror as error:
        raise GatewayError(
            f"can't listen on {address}: {address.host} is not an IP address; "
            "use 127.0.0.1 for this machine only, 0.0.0.0 for all its networks"
        ) from error
    family, kind, protocol, _, where = families[0]
    with socket.socket(family, kind, protocol) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(where)
            attempt.listen()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                reason = f"port {address.port} is taken by another program"
            else:
                reason = error.strerror or str(error)
            other = Address(address.host, address.port % 65535 + 1)
            raise GatewayError(
                f"can't listen on {address}: {reason}; choose another address, such as {option} {other}"
            ) from error
