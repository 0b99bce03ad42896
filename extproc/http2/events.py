"""What a connection tells of its streams. Bytes are the peer's own; nothing is copied that needn't be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Fields: TypeAlias = list[tuple[bytes, bytes]]
"""A header section, in the order in which it came; names are in lower case."""


@dataclass(slots=True)
class RequestBegun:
    """A stream was opened by a well-formed request."""

    stream_id: int
    fields: Fields
    ended: bool
    """Nothing follows."""


@dataclass(slots=True)
class DataCame:
    """A part of a request's body. The peer gets no new room for its stream before it is said to be `consumed`."""

    stream_id: int
    data: bytes
    ended: bool


@dataclass(slots=True)
class TrailersCame:
    """The request has ended, with fields that nobody needs."""

    stream_id: int


@dataclass(slots=True)
class StreamReset:
    """The stream is over, by the peer's word or because it broke a rule. Nothing more can be sent."""

    stream_id: int
    code: int


Event: TypeAlias = RequestBegun | DataCame | TrailersCame | StreamReset
