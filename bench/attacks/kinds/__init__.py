"""All attacks, by name."""

from __future__ import annotations

from collections.abc import Mapping

from bench.attacks.attack import Attack
from bench.attacks.kinds import connections, frames, uploads

ATTACKS: Mapping[str, type[Attack]] = {
    attack.name: attack for module in (frames, connections, uploads) for attack in module.ATTACKS
}
