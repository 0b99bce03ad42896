"""What traces and metrics have in common on their way to a collector, by OpenTelemetry's SDK.

What the SDK reads of its own environment variables (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`) holds. It is
imported when it is needed: most never ask for it.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

PROCESSOR, RUNNER = "extproc", "extproc-runner"
"""What our processes are called, unless their environment says otherwise (`OTEL_SERVICE_NAME`)."""

EXPORT_SECONDS = 5.0
"""For a batch to be taken."""
LEAVING_SECONDS = 2.0
"""For what is left when a process ends."""


def is_installed() -> bool:
    """Whether the SDK is there, and what sends."""
    return all(map(find_spec, ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter")))


@lru_cache
def resource_of(service: str) -> Resource:
    """Who tells: `service`, unless the environment says otherwise, and which of them (`service.instance.id`)."""
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource

    resource = Resource({SERVICE_NAME: service}).merge(Resource.create())
    if resource.attributes.get(SERVICE_NAME, "").startswith("unknown_service"):  # type: ignore[union-attr]
        resource = resource.merge(Resource({SERVICE_NAME: service}))
    return resource


class Reception:
    """Tells once when a collector doesn't take what it is sent, and once when it does again."""

    def __init__(self, log: logging.Logger, fails: str, works: str) -> None:
        """What is logged then, as an error and for information."""
        for library in ("opentelemetry.exporter", "opentelemetry.sdk"):  # which would tell each time, at length
            logging.getLogger(library).setLevel(logging.CRITICAL)
        self._log = log
        self._words = {True: fails, False: works}
        self._fails = False

    def tell(self, *, taken: bool) -> None:
        """Something was sent."""
        if self._fails is taken:
            self._fails = not taken
            self._log.log(logging.INFO if taken else logging.ERROR, "%s", self._words[self._fails])
