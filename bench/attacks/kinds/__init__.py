"""All attacks, by name."""

from __future__ import annotations

from collections.abc import Mapping

from bench.attacks.attack import Attack
from bench.attacks.kinds import bodies, connections, floods, frames, streams, uploads

ATTACKS: Mapping[str, type[Attack]] = {
    attack.name: attack
    for module in (frames, connections, floods, uploads, bodies, streams)
    for attack in module.ATTACKS
}
