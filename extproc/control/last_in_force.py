"""A copy of the configuration that was last in force, for a processor that is started again while the file is broken.

It lies beside Envoy's files, where it lives as long as they do: in a pod, as long as the pod. What the configuration
only names, keys and certificates, is never copied.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)


class LastInForce:
    """The copy in a directory that is there, readable by nobody else."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / ".last-in-force.yaml"

    def keep(self, content: bytes) -> None:
        """Have this in the place of what was there before. Without room for it all goes on as well."""
        new = self.path.with_suffix(".new")
        try:
            new.unlink(missing_ok=True)  # a file that is there would keep its mode
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
            new.replace(self.path)
        except OSError as error:
            log.warning("no copy can be kept of the configuration in force: %s", error)
            with suppress(OSError):
                new.unlink()  # half of it, on a disk that is full
