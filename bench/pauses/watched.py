"""The processor under a watch: `python -m bench.pauses.watched REPORT serve --config FILE ...`.

It is the real command, whose event loop is measured as it always is (extproc/server/loop_lag.py). Of each round that
takes longer than `LONG` the report has a JSON line:

    seconds   how long it took
    ours      of that, the processor time of the loop's own thread: the rest of it, it had to wait
    others    the processor time of the process's other threads meanwhile, which may have had Python's lock
    garbage   seconds of it that the collector took, and `generation`, which
    stack     where the loop stood when it was late, from the innermost call: what was sampled last

A round without processor time of the process is the machine's: somebody else had the core.
"""

from __future__ import annotations

import gc
import json
import selectors
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from extproc.cli import main
from extproc.server import loop_lag

LONG = 0.008
_EACH = 0.002
_DEEPEST = 14


class Watch:
    """Over the rounds of one loop."""

    def __init__(self) -> None:
        self.long: list[dict[str, Any]] = []
        self._began: float | None = None
        """When the round began that goes on; None while the loop waits."""
        self._thread = threading.get_ident()
        self._clocks = (0.0, 0.0)
        self._stack: list[str] = []
        self._garbage = 0.0
        self._generation = -1
        self._collecting = 0.0
        gc.callbacks.append(self._collected)
        threading.Thread(target=self._watch, daemon=True).start()

    def begin(self) -> None:
        self._clocks = time.thread_time(), time.process_time()
        self._stack, self._garbage, self._generation = [], 0.0, -1
        self._began = time.monotonic()

    def end(self) -> None:
        began, self._began = self._began, None
        if began is None or (seconds := time.monotonic() - began) < LONG:
            return
        ours = time.thread_time() - self._clocks[0]
        others = time.process_time() - self._clocks[1] - ours
        numbers = {"seconds": seconds, "ours": ours, "others": others, "garbage": self._garbage}
        rounded = {name: round(number, 4) for name, number in numbers.items()}
        self.long.append({**rounded, "generation": self._generation, "stack": self._stack})

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.monotonic()
        else:
            self._garbage += time.monotonic() - self._collecting
            self._generation = max(self._generation, info["generation"])

    def _watch(self) -> None:
        while True:
            time.sleep(_EACH)
            began = self._began
            if began is not None and time.monotonic() - began > LONG:
                frame = sys._current_frames().get(self._thread)
                if frame is not None and began == self._began:
                    self._stack = _told(frame)


def _told(frame: FrameType | None) -> list[str]:
    told: list[str] = []
    while frame is not None and len(told) < _DEEPEST:
        place = Path(frame.f_code.co_filename)
        told.append(f"{'/'.join(place.parts[-2:])}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return told


class _WatchedSelector(loop_lag._TimedSelector):
    def __init__(self, lag: loop_lag.LoopLag) -> None:
        super().__init__(lag)
        self._watch = Watch()
        watches.append(self._watch)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._watch.end()
        ready = super().select(timeout)
        self._watch.begin()
        return ready


watches: list[Watch] = []

if __name__ == "__main__":
    report, *words = sys.argv[1:]
    loop_lag._TimedSelector = _WatchedSelector  # type: ignore[misc]
    status = main(words)
    Path(report).write_text("".join(f"{json.dumps(one)}\n" for watch in watches for one in watch.long))
    sys.exit(status)
