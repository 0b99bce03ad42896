"""How a dialect's requests are read when their beginning is known: the tools apart, the conversation item by item.

Only requests that nothing is wrong with are read so, and of these only ordinary ones. For any other a
function here raises UnusualError: it is read in the usual way then, which knows all cases and words all errors.
What comes of both is the same to the byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from extproc.contract.rules import Rules
from extproc.turn.turn import Turn

Json: TypeAlias = dict[str, Any]


class UnusualError(Exception):
    """The request has to be read in the usual way."""


class Reading(Protocol):
    """What is known of a conversation after some of its items. Picklable."""

    def add(self, item: Any, rules: Rules) -> list[Json]:
        """The house's messages that are complete by the next item. Raises UnusualError for what is wrong."""

    def rest(self) -> list[Json]:
        """Those that are complete because no more items come."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of a request: checked, and in the house's words."""

    definitions: list[Json]
    is_as_sent: bool
    """They are the very objects of the request."""
    has_grammars: bool = False
    """The text of some has to follow a grammar, which goes along with each request."""
    details: Any = field(default=None)
    """What else the dialect has to know of them. Picklable."""


@dataclass(frozen=True, slots=True)
class Continued:
    """One dialect."""

    items: str
    """The member that holds the conversation."""
    head: tuple[str, ...]
    """The members on which it depends what any item comes to."""
    offer: Callable[[Json], Offer]
    """Reads the tools, given the members of the head. Raises UnusualError."""
    begin: Callable[[Json, Rules], Reading]
    """The conversation before the first item, given the same. Raises UnusualError."""
    turn: Callable[[Json, Rules, Offer, Any], Turn]
    """The turn, without its messages, given the body: without its conversation, with a ToolArray in the place of its
    tools. Raises UnusualError."""
