"""Asks a running server what it is and can do, and says how it is best served.

`kinds.py` recognizes it; `probe` puts the questions (`questions.py`) over `server.py`, `advice.py` decides, `causes.py`
says what would stand in the way of calls, and the `Report` prints the YAML. It changes nothing at the server, and costs
it a few hundred tokens for each model. `measuring` tries how often calls are right, which costs some 14,000 more in
each way.
"""

from __future__ import annotations

import string
from pathlib import Path

from extproc.config.files import shown
from extproc.contract.servers import SERVERS, ServerName
from extproc.probe import questions
from extproc.probe.advice import Findings, advise
from extproc.probe.kinds import is_behind_a_prefix, recognized
from extproc.probe.measuring import Measured, Measuring, measure
from extproc.probe.questions import Card, ProbeError
from extproc.probe.report import Probed, Report
from extproc.probe.server import Origin, Server

__all__ = ["Measured", "Measuring", "Origin", "ProbeError", "Report", "probe"]

_MOST_MODELS = 8
"""How many are asked at once; a router of many has to be asked for one by name."""
_TIMEOUT = 120.0


def probe(
    origin: Origin,
    model: str | None = None,
    *,
    api_key_file: Path | None = None,
    ca: Path | None = None,
    timeout: float = _TIMEOUT,
    measuring: Measuring | None = None,
) -> Report:
    """Ask about all models of the server at `origin`, or about one; with `measuring` ask the questions too.

    `ca` holds the certificates to trust, `timeout` is in seconds and for one answer. Raises ProbeError, whose text is
    one line, and OSError for files that can't be read.
    """
    key = _key(api_key_file) if api_key_file is not None else None
    server = Server(origin, key=key, ca=ca, timeout=timeout)
    version = questions.version(server)
    try:
        cards = questions.served(server)
    except questions.NoModelsError:
        if not is_behind_a_prefix(server):
            raise
        raise ProbeError(
            f"{origin}: this is KServe's runtime, with its API at /openai/v1 and not at /v1: "
            'start it with KSERVE_OPENAI_ROUTE_PREFIX="" in its environment'
        ) from None
    kind = recognized(server, cards, version)
    probed, refusals = [], []
    for card, aliases, adapters in _choose(cards, model, origin):
        try:
            findings = _ask(server, card, kind.server)
        except ProbeError as error:
            refusals.append(error)
            continue
        advice = advise(findings)
        measured = measure(server, findings, advice, measuring) if measuring is not None else None
        probed.append(Probed(findings, advice, aliases, adapters, measured))
    if not probed:
        raise refusals[0]
    return Report(
        origin=origin,
        kind=kind,
        probed=tuple(probed),
        left_out=tuple(map(str, refusals)),
        api_key=api_key_file.absolute() if api_key_file is not None else None,
        ca=ca.absolute() if ca is not None else None,
    )


def _ask(server: Server, card: Card, name: ServerName) -> Findings:
    """Raises ProbeError when the model doesn't chat."""
    kind = SERVERS[name]
    chat = questions.chat(server, card.name)
    thinks = chat.reasoning_parser
    auto = questions.offered(server, card.name, "auto", kind, thinks=thinks)
    prompt_tokens = questions.prompt_without_tools(server, card.name)
    none = auto  # where no other choice shows the model its tools
    if kind.unread == "none":
        none = questions.offered(server, card.name, "none", kind, trial=auto.accepted is not True, thinks=thinks)
    return Findings(
        card=card,
        server=name,
        chat=chat,
        prompt_tokens=prompt_tokens,
        auto=auto,
        none=none,
        rendering=questions.rendering(server, card.name, kind),
        forcing=questions.forcing(server, card.name, kind, thinks=thinks),
    )


_Choice = tuple[Card, tuple[Card, ...], tuple[Card, ...]]
"""A model to ask, its other names, and its adapters."""


def _choose(cards: list[Card], model: str | None, origin: Origin) -> list[_Choice]:
    """Raises ProbeError when there is no such model, or too many."""
    if model is not None:
        chosen = [card for card in cards if card.name == model]
        if not chosen:
            there_are = ", ".join(card.name for card in cards)
            raise ProbeError(f"{origin}: it serves no model {model!r}; there are: {there_are}")
        return [(chosen[0], (), ())]
    names = {card.name for card in cards}
    models: dict[str, list[Card]] = {}
    adapters: dict[str, list[Card]] = {}
    for card in cards:
        if card.parent is not None and card.parent in names - {card.name}:
            adapters.setdefault(card.parent, []).append(card)
        else:
            models.setdefault(card.root or card.name, []).append(card)
    if len(models) > _MOST_MODELS:
        raise ProbeError(f"{origin}: it serves {len(models)} models; choose one with --model")
    return [
        (first, tuple(others), tuple(adapter for card in (first, *others) for adapter in adapters.get(card.name, ())))
        for first, *others in models.values()
    ]


_IN_KEYS = frozenset(string.ascii_letters + string.digits + string.punctuation)


def _key(path: Path) -> str:
    """Raises ProbeError, which doesn't quote a path that may be a key itself."""
    try:
        key = path.read_text(encoding="utf-8", errors="replace").strip()  # it may be a FIFO: --api-key-file <(...)
    except OSError as error:
        raise ProbeError(f"{shown(path, '--api-key-file')}: can't be read: {error.strerror}") from None
    if not key or not _IN_KEYS.issuperset(key):
        raise ProbeError(f"{path}: expected one API key, without blanks")
    return key
