"""The simulated host's outcome of an exchange and Envoy's, compared. What differs is a fault of the simulated host."""

from __future__ import annotations

from extproc.conformance.host.likeness import same_but_for_words
from extproc.conformance.host.outcome import Ending, Outcome
from extproc.conformance.host.settings import Headers, HttpMessage

_GOOD = (Ending.COMPLETE, Ending.LEFT)
_ENVOYS_OWN = frozenset(
    "x-forwarded-proto x-request-id x-envoy-internal date server :scheme x-envoy-expected-rq-timeout-ms host "
    "x-envoy-attempt-count".split()
)
"""Headers that Envoy adds or rewrites by itself."""


def difference(simulated: Outcome, seen: Outcome, again: Outcome | None = None) -> str | None:
    """What Envoy did otherwise, if anything. `again` is simulated once more: words of the bodies in which it differs
    from the first time are the server's to choose (ids, times)."""
    if simulated.ending is Ending.CORRUPT:
        # Whether bytes are lost depends on what was on its way, and whether the host notices on what came behind.
        lost = (*_GOOD, Ending.HUNG, Ending.CUT, Ending.ERROR)
        return None if seen.ending in lost else _endings(simulated, seen)
    if simulated.ending is not seen.ending and not (simulated.ending in _GOOD and seen.ending in _GOOD):
        return _endings(simulated, seen)
    if simulated.ending not in (*_GOOD, Ending.IMMEDIATE):
        return None
    for name in ("client", "upstream"):
        messages = [getattr(outcome, name) for outcome in (simulated, seen, again) if outcome is not None]
        if (wrong := _message(*messages)) is not None:
            return f"the {name}'s {wrong}"
    if simulated.ending is Ending.COMPLETE and simulated.sent != seen.sent:
        return f"Envoy sends {_told(seen.sent)}, the simulated host {_told(simulated.sent)}"
    return None


def _endings(simulated: Outcome, seen: Outcome) -> str:
    why = f" ({seen.detail})" if seen.detail else ""
    return f"it ends as {seen.ending.value}{why}, not as {simulated.ending.value}"


def _message(wanted: HttpMessage | None, got: HttpMessage | None, again: HttpMessage | None = None) -> str | None:
    if wanted is None or got is None:
        return None if wanted is got else f"message is {'missing' if got is None else 'there'}"
    if not same_but_for_words(wanted.body, got.body, again.body if again is not None else wanted.body):
        return f"body has {len(got.body)} bytes, not {len(wanted.body)}, or other ones"
    if (wanted.trailers or None) != (got.trailers or None):
        return f"trailers are {_fields(got.trailers)}, not {_fields(wanted.trailers)}"
    names = dict.fromkeys(name for name, _ in (*wanted.headers, *got.headers))
    for name in names:
        if name not in _ENVOYS_OWN and wanted.all(name) != got.all(name):
            return f"header {name} has {_values(got.all(name))}, not {_values(wanted.all(name))}, or another value"
    return None


def _fields(fields: Headers | None) -> str:
    """Names and sizes: a report holds no values, which may be secrets."""
    return ", ".join(f"{name}[{len(value)}]" for name, value in fields or ()) or "none"


def _values(values: list[bytes]) -> str:
    sizes = ", ".join(str(len(value)) for value in values)
    return f"{len(values)} value{'s' if len(values) != 1 else ''} of {sizes} bytes" if values else "no value"


def _told(sent: tuple[tuple[str, int, bool], ...]) -> str:
    return ", ".join(f"{kind}[{size}]{' end' if end else ''}" for kind, size, end in sent) or "nothing"
