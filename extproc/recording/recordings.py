"""What stands between a processor and its exchanges: nothing, until somebody wants them recorded. Hardly anybody ever
does, so what records is imported then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extproc.config import Config
from extproc.config.recording import Recording
from extproc.exchange.machine import Exchange, Inputs

if TYPE_CHECKING:
    from extproc.recording.recorder import Recorder


class Recordings:
    """Those of one processor."""

    def __init__(self, always: Recording | None) -> None:
        """`always` stands above what configurations say."""
        self._always = always
        self._recorder: Recorder | None = None

    def open(self, config: Config) -> None:
        """Tell what will be recorded by it."""
        settings = self._always or config.recording
        if self._recorder is None and settings is not None:
            from extproc.recording.recorder import Recorder

            self._recorder = Recorder(self._always)
        if self._recorder is not None:
            self._recorder.open(settings)

    def of(self, exchange: Exchange) -> Inputs:
        """What takes the inputs of this exchange."""
        if self._recorder is None:
            self.open(exchange.context.config)
        return exchange if self._recorder is None else self._recorder.record(exchange)
