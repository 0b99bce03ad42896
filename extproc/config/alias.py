"""Another name for a model, or one name for several: each conversation is asked of one of them.

Which one, weighted rendezvous hashing says (Thaler and Ravishankar, "Using name-based mappings to increase hit rates";
with weights, Schindelhauer and Schomaker): every model draws a number from what the conversation begins with, and the
best one wins. So the shares are the weights; a conversation stays with its model, whoever looks and however often; and
when weights change, conversations move to the models that got more, and no others move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import log
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from extproc.config.base import FieldError, Location, Name, Settings

Why: TypeAlias = Literal["failing", "full"]
"""Why a backend isn't asked now."""


class Share(Settings):
    """How much of what an alias gets is one model's."""

    model: Name
    """One of `models`."""
    weight: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    """In proportion to those of the others; 0: none, for one that is to come or to go."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which model is asked for an alias."""

    alias: str
    """As the settings name it, which may end with a `*`."""
    model: str
    instead_of: str | None = None
    """The model whose conversation it is, where that isn't asked."""
    why: Why | None = None
    """Of that model's backend."""


class Alias(Settings):
    """One entry of `aliases`. Written as a name alone, it is that one model, always."""

    split: Annotated[tuple[Share, ...], Field(min_length=1)]
    """The models, and how much each gets."""
    fallback: tuple[Name, ...] = ()
    """Which are asked in its place, in this order, while a model's backend is failing or full."""

    @classmethod
    def written(cls, value: Any) -> Any:
        """What stands for a name alone."""
        return {"split": [{"model": value}]} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _shares_hold(self) -> Self:
        names = [share.model for share in self.split]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise FieldError(("split", index, "model"), f"{name!r} is used twice")
        for index, name in enumerate(self.fallback):
            if name in self.fallback[:index]:
                raise FieldError(("fallback", index), f"{name!r} is used twice")
        if not any(share.weight for share in self.split):
            raise FieldError(("split",), "expected a weight above 0 for one of them at least")
        return self

    @property
    def is_plain(self) -> bool:
        """Whether it is nothing but another name for one model."""
        return len(self.split) == 1 and not self.fallback

    @property
    def models(self) -> tuple[str, ...]:
        """All that it may lead to, the one with the largest share first."""
        largest = sorted(self.split, key=lambda share: -share.weight)
        return tuple(dict.fromkeys((*(share.model for share in largest), *self.fallback)))

    def places(self) -> Iterator[tuple[Location, str]]:
        """Where in it the name of a model stands, and which."""
        for index, share in enumerate(self.split):
            yield ("split", index, "model"), share.model
        for index, name in enumerate(self.fallback):
            yield ("fallback", index), name

    def model_of(self, conversation: bytes) -> str:
        """Whose a conversation is, by what it begins with."""
        if len(self.split) == 1:
            return self.split[0].model
        return max((_drawn(share, conversation), share.model) for share in self.split if share.weight)[1]


def choose(name: str, alias: Alias, conversation: bytes, backends: Mapping[str, str], out: Mapping[str, Why]) -> Choice:
    """Which model is asked for a conversation. `backends` are those of the models; those that are `out` are asked only
    where no other is left."""
    own = alias.model_of(conversation)
    why = out.get(backends[own])
    if why is not None:
        for other in alias.fallback:
            if backends[other] not in out:
                return Choice(name, other, own, why)
    return Choice(name, own)


def _drawn(share: Share, conversation: bytes) -> float:
    """The model's number: of two with one weight each is larger half of the time."""
    digest = blake2b(conversation, key=blake2b(share.model.encode()).digest(), digest_size=8).digest()
    drawn = (int.from_bytes(digest, "big") + 0.5) / 2**64  # above 0, below 1 but for rounding
    return share.weight / -log(min(drawn, 1 - 2**-53))
