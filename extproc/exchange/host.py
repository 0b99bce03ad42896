"""What the hosts do that an Envoy of ours needs no asking about: whether they follow a `mode_override`.

The processor asks for an answer's head and body by overrides. A host that is configured otherwise
(`allow_mode_override` is off by default, in Envoy Gateway too) ignores them without a word: the call just ends, and a
model's raw text has gone to the client as if it were the answer. Nothing tells that beforehand. So answers that have to
be rewritten go out under a status of their own, a 502, that only their body's reply makes good. Whole answers always
do, because it costs nothing; streams do as long as the host wasn't seen to follow, because they come in one piece then.
A host that is seen to ignore overrides gets no more of them: requests that need one are refused.

A client that leaves looks the same to the processor. So it takes more than one such call, and every body that comes
makes all of it good.
"""

from __future__ import annotations

from collections.abc import Callable

from extproc.contract.errors import ApiError

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
becomes one of which nothing is known, and one that never was is condemned."""
STRIKES_LATER = 5
"""The same for a host that was once seen to follow: in so many, and in LONG without any body."""
LONG = 60.0
HEADLESS_STRIKES = 3
"""Calls that end before an answer's head is shown, by a host that has never shown one."""
AT_ONCE = 0.5
"""Seconds. A host that ignores the override at an answer's head ends the call within some milliseconds; a body may take
as long as the model does."""
TRY_AGAIN = 10.0
"""Seconds between two requests that are let through nevertheless."""
MOST_HOSTS = 256
"""So many are told apart; the one that was heard of longest ago is forgotten."""


class Host:
    """An Envoy that isn't configured by us."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` tells seconds, from any beginning."""
        self._clock = clock
        self._strikes = 0
        self._last_try = 0.0
        self._last_body: float | None = None
        self._shows_heads = False
        self.known = False
        """It follows overrides, as far as was seen lately."""
        self.ignores = False
        """It ignores them."""

    def head_shown(self) -> None:
        """The head of an answer has come, which was asked for by an override."""
        if not self._shows_heads:
            self._shows_heads = True
            self._strikes, self.ignores = 0, False

    def followed(self) -> None:
        """The body of an answer has come, which was asked for by an override."""
        self._strikes, self._last_body = 0, self._clock()
        self._shows_heads = True
        self.known, self.ignores = True, False

    def ended_before_head(self) -> bool:
        """A call has ended before the answer's head. Returns whether the host ignores that it is wanted, as far as one
        can tell: clients may have left.
        """
        if self._shows_heads:
            return False
        self._strike(HEADLESS_STRIKES)
        return True

    def ended_before_body(self, since_reply: float) -> bool:
        """A call has ended between an answer's head and its body, `since_reply` seconds after the override. Returns
        whether that was ignored, as far as one can tell.
        """
        if since_reply > AT_ONCE:
            return False  # a client, or a backend, went
        if self.known:
            self._strikes += 1
            if self._strikes >= STRIKES:
                self._strikes, self.known = 0, False
        elif self._last_body is None:
            self._strike(STRIKES)
        else:
            self._strike(STRIKES_LATER if self._clock() - self._last_body >= LONG else None)
        return True

    def refuses(self) -> bool:
        """Whether a request is to be refused whose answer would have to be rewritten.

        Where heads aren't shown nothing guards an answer, so no such request is let through for a try: any other tells
        as well whether heads are shown now.
        """
        if not self.ignores:
            return False
        now = self._clock()
        if not self._shows_heads or now - self._last_try < TRY_AGAIN:
            return True
        self._last_try = now
        return False

    def _strike(self, most: int | None) -> None:
        self._strikes += 1
        if most is not None and self._strikes >= most:
            self._strikes, self.ignores = 0, True
            self._last_try = self._clock()


class Hosts:
    """All of them that speak to one processor, by where they speak from."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._hosts: dict[str, Host] = {}

    def of(self, peer: str) -> Host:
        """`peer` is gRPC's word for the other side: `ipv4:10.0.0.1:49152`, or `unix:` whoever it is."""
        address = peer if peer.startswith("unix") else peer.rpartition(":")[0]
        host = self._hosts.pop(address, None) or Host(self._clock)
        self._hosts[address] = host
        if len(self._hosts) > MOST_HOSTS:
            del self._hosts[next(iter(self._hosts))]
        return host

    @property
    def any_ignores(self) -> bool:
        """One of them ignores overrides."""
        return any(host.ignores for host in self._hosts.values())


def ignores_overrides() -> ApiError:
    """What clients get then."""
    return ApiError(
        503,
        "This gateway can't rewrite answers, and so offers no tools: its Envoy ignores the external processor's "
        "mode_override. The external processor's log says what to change. Requests without tools are answered.",
        "server_error",
        code="host_ignores_overrides",
    )


LATER = {"retry-after": str(round(TRY_AGAIN))}
