"""What stands between a processor and its exchanges: nothing, until somebody wants them recorded, or looks on. Hardly
anybody ever does, so what records or shows them is imported then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extproc.config import Config
from extproc.config.recording import Recording
from extproc.exchange.machine import Exchange, Inputs

if TYPE_CHECKING:
    from extproc.recording.feed import Feed
    from extproc.recording.recorder import Recorder
    from extproc.recording.tap import Notes


class Recordings:
    """Those of one processor."""

    def __init__(self, always: Recording | None, *, watched: bool = False) -> None:
        """`always` and `watched` stand above what configurations say."""
        self._always = always
        self._watched = watched
        self._recorder: Recorder | None = None
        self._feed: Feed | None = None

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
        config = exchange.context.config
        if self._recorder is None:
            self.open(config)
        kept = self._recorder.notes(exchange) if self._recorder is not None else None
        shown = self._shown(exchange, config) if self._watched or config.watch or self._feed is not None else None
        notes = [each for each in (kept, shown) if each is not None]
        if not notes:
            return exchange
        from extproc.recording.tap import Tap

        return Tap(exchange, notes)

    def close(self) -> None:
        """Show nothing any more."""
        if self._feed is not None:
            self._feed.close()

    def _shown(self, exchange: Exchange, config: Config) -> Notes | None:
        from extproc.recording.feed import Feed

        if not (self._watched or config.watch):
            if self._feed is not None:
                self._feed.close()
            self._feed = None
            return None
        if self._feed is None or self._feed.path != config.watch_socket:
            if self._feed is not None:
                self._feed.close()
            self._feed = Feed(config.watch_socket)
        return self._feed.notes(exchange)
