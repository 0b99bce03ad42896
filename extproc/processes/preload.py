"""What every worker has from the beginning: workers are forks of a process that has imported this, and does nothing.

No code of gRPC's is in it, which has threads and can't be forked. It is imported once for all, which takes a
second, and its memory is there once.
"""

from __future__ import annotations

import gc
import signal

import extproc.processes.worker
import extproc.recording.recorder
import extproc.transport.lean.server  # noqa: F401 - all of these are for those who come after

for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(_number, signal.SIG_IGN)  # a whole group of processes may get them: the fleet says when it is time
gc.collect()
gc.freeze()
