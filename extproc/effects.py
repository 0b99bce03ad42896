"""What an exchange needs done that takes time: it leaves `Exchange` as a value, and comes back by `Exchange.resume`.

Whoever carries an exchange performs its effects in any way that suits: the server in a thread and over the network, a
test or a replay from what it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from extproc.chat import Prepared, prepare
from extproc.config import Backend, Config
from extproc.openai.errors import ApiError


@dataclass(frozen=True, slots=True)
class Prepare:
    """A large request has to be read, which no other exchange should wait for."""

    body: bytes
    config: Config

    def perform(self) -> Prepared | ApiError:
        """Pure; takes up to seconds."""
        try:
            return prepare(self.body, self.config)
        except ApiError as error:
            return error.caught()


@dataclass(frozen=True, slots=True)
class AskBackend:
    """A chat completion has to be asked of a backend once more. Its result is None when none came."""

    backend: Backend
    body: bytes
    request_id: str
    timeout: float
    """Seconds, for the whole answer."""


@dataclass(frozen=True, slots=True)
class BackendSaid:
    """A backend's whole answer."""

    status: int
    body: bytes
    """Without any content coding."""


Effect: TypeAlias = Prepare | AskBackend
Result: TypeAlias = Prepared | ApiError | BackendSaid | None
