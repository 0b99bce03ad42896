"""The hosts that call the processor, each a row: how its filter is configured, and what it says of itself.

Our own Envoy says which of its listeners a request came by. Of any other host nothing is known, but where it calls
from.
"""

from __future__ import annotations

from dataclasses import dataclass

from extproc.conformance.host.settings import BodyMode, HeaderMode, HostSettings
from extproc.names import INNER_LAYOUT, LAYOUT, LAYOUT_METADATA

_SKIP, _SEND = HeaderMode.SKIP, HeaderMode.SEND
_DUPLEX = BodyMode.FULL_DUPLEX_STREAMED


@dataclass(frozen=True, slots=True)
class Layout:
    """A row."""

    name: str
    settings: HostSettings
    metadata: tuple[tuple[str, str], ...] = ()
    peer: tuple[str, int] | None = None
    """Where it calls from; None: by the socket."""
    rewrites: bool = True
    """Answers can be rewritten for it; else who wants that is refused, or gets an error."""

    @property
    def ours(self) -> bool:
        return bool(self.metadata)


_OURS = HostSettings(
    request_body=BodyMode.BUFFERED,
    response_body=BodyMode.NONE,
    request_trailers=_SKIP,
    response_headers=_SKIP,
    response_trailers=_SKIP,
)


def _foreign(number: int, name: str, *, rewrites: bool = True, **settings: object) -> Layout:
    host = HostSettings(
        **{"response_body": BodyMode.NONE, "request_trailers": _SKIP, "response_trailers": _SKIP, **settings}  # type: ignore[arg-type]
    )
    return Layout(name, host, peer=(f"10.0.0.{number}", 50_000 + number), rewrites=rewrites)


OWN = Layout("own", _OURS, ((LAYOUT_METADATA, LAYOUT),))
INNER = Layout("inner", _OURS, ((LAYOUT_METADATA, INNER_LAYOUT),))
FOREIGN = (
    _foreign(1, "foreign", response_headers=_SKIP),
    _foreign(2, "foreign that shows heads"),
    _foreign(3, "foreign without protocol_config", protocol_config=False),
    _foreign(4, "foreign that ignores overrides", rewrites=False, allow_mode_override=False),
    _foreign(
        5, "full duplex", request_body=_DUPLEX, response_body=_DUPLEX, request_trailers=_SEND, response_trailers=_SEND
    ),
    _foreign(6, "buffered", response_body=BodyMode.BUFFERED),
    _foreign(7, "buffered that ignores overrides", response_body=BodyMode.BUFFERED, allow_mode_override=False),
    _foreign(8, "buffered, then full duplex", response_body=_DUPLEX, response_trailers=_SEND),
)
"""A layout that becomes supported is one row more."""
