"""What is kept of an exchange while it runs, as the bytes that it is on the wire; and the document that comes of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.metadata import version
from typing import Any

from extproc.contract.errors import ApiError
from extproc.contract.json_body import decode
from extproc.exchange.protocol import fields_of
from extproc.recording.document import Document, Entry, Kind
from extproc.recording.envoy_json import as_json, bytes_as_json
from extproc.recording.private import hide, without_addresses
from extproc.wire import ProcessingRequest, ProcessingResponse

MOST_BYTES = 8 * 1024 * 1024
"""What is kept of one exchange. Requests are in it twice: the client's, and the backend's."""
ENTRY_BYTES = 200
"""What an entry takes besides its bytes."""


@dataclass(slots=True)  # not frozen: two are made for each token
class Kept:
    """An entry as it was kept while the exchange ran."""

    at: float
    """Milliseconds after the beginning."""
    kind: Kind
    data: bytes
    """A serialised message; the body of what was asked or said."""
    beside: Mapping[str, str | int]

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self.data) + ENTRY_BYTES


def document_of(
    kept: Iterable[Kept],
    began: datetime,
    settings: Callable[[str | None], dict[str, Any]],
    addresses: re.Pattern[str],
    *,
    complete: bool,
) -> tuple[Document, str | None, str]:
    """The recording of an exchange without anything private; the model that it names; its id.

    `settings` are those for a model, and `addresses` finds those of backends (`recording.private`).
    """
    entries, model, identity = [], None, ""
    for each in kept:
        match each.kind:
            case Kind.ENVOY:
                message = ProcessingRequest.FromString(each.data)
                if message.HasField("request_headers"):
                    fields = fields_of(message.request_headers.headers, "x-request-id")
                    identity = fields.get("x-request-id", "")
                elif message.HasField("request_body"):
                    model = _model(message.request_body.body)
                hide(message)
                what = as_json(message)
            case Kind.PROCESSOR:
                reply = ProcessingResponse.FromString(each.data)
                hide(reply)
                what = as_json(reply)
            case Kind.ASKED | Kind.SAID:
                what = {**each.beside, "body": bytes_as_json(each.data)}
            case Kind.BROKE_OFF | Kind.IDLE_TIMEOUT:
                what = dict(each.beside)
        entries.append(Entry(round(each.at, 3), each.kind, without_addresses(what, addresses)))
    document = Document(
        extproc=_version(),
        began=f"{began:%Y-%m-%dT%H:%M:%S}Z",
        complete=complete,
        settings=settings(model),
        entries=tuple(entries),
    )
    return document, model, identity


@cache
def _version() -> str:
    return version("extproc")  # reads a file, and takes longer than all the rest


def _model(body: bytes) -> str | None:
    """The model that a request names."""
    try:
        name = decode(body).get("model")
    except ApiError:
        return None
    return name if isinstance(name, str) else None
