"""Which tools the model may, must or must not call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class NamedTool:
    """The model must call this one."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool
