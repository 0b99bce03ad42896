"""What the hosts do that an Envoy of ours needs no asking about: whether they follow a `mode_override`.

The processor asks for an answer's body by an override. A host that is configured otherwise (`allow_mode_override` is
off by default, in Envoy Gateway too) ignores it without a word: the call just ends, and a model's raw text has gone to
the client as if it were the answer. Nothing tells that beforehand. So as long as no host is known to follow, answers
that have to be rewritten go out under a status of their own, a 502, that only their body's reply makes good; and a host
that is seen to ignore overrides gets no more of them: requests that need one are refused. Whole answers go out like
that always, because it costs nothing; streams can't, or they would come in one piece.

A client that leaves in that moment ends the call in the same way. So it takes more than one to condemn a host, and
every body that comes makes all of it good. Now and then one request is let through, to see whether the host was mended.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from extproc.openai.errors import ApiError

ADVICE = (
    "Envoy ignores this processor's mode_override, and sends answers past it. Set allow_mode_override: true and no "
    "allowed_override_modes in its ext_proc filter, with processing_mode request_header_mode SEND, "
    "request_body_mode BUFFERED, response_header_mode SEND, response_body_mode NONE, and nothing else on its routes"
)
"""What the log says."""

UNSURE = 502
"""The status of an answer until its body has come."""
STRIKES = 2
"""Calls that end one after the other where an answer's body should have come. By so many a host that was seen to follow
becomes one of which nothing is known, and one of which nothing is known is condemned."""
AT_ONCE = 0.5
"""Seconds. A host that ignores an override ends the call within some milliseconds; a body may take as long as the
model does."""
TRY_AGAIN = 10.0
"""Seconds between two requests that are let through nevertheless."""


class Host:
    """All hosts of a processor that aren't of our own layout, taken together."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._strikes = 0
        self._last_try = 0.0
        self.known = False
        """It was seen to follow an override, and not to ignore one since."""
        self.ignores = False
        """It ignores them."""

    def followed(self) -> None:
        """A body has come that was asked for by an override."""
        self._strikes = 0
        self.known, self.ignores = True, False

    def ended(self, since_reply: float) -> bool:
        """A call has ended where what an override asks for should have come.

        `since_reply` is how many seconds ago the override was sent. Returns whether it was ignored, as far as one can
        tell.
        """
        if since_reply > AT_ONCE:
            return False  # a client, or a backend, went
        self._strikes += 1
        if self._strikes >= STRIKES:
            self._strikes = 0
            self.known, self.ignores = False, not self.known
            self._last_try = self._clock()
        return True

    def refuses(self) -> bool:
        """Whether a request is to be refused whose answer would have to be rewritten."""
        if not self.ignores:
            return False
        now = self._clock()
        if now - self._last_try < TRY_AGAIN:
            return True
        self._last_try = now
        return False


def ignores_overrides() -> ApiError:
    """What clients get then."""
    return ApiError(
        503,
        "This gateway can't rewrite answers, and so offers no tools: its Envoy ignores the external processor's "
        "mode_override. Those who run it find in its log what to change. Requests without tools are answered.",
        "server_error",
        code="host_ignores_overrides",
    )
