"""The files that tell Envoy where a key or a certificate is: their names, and the texts that make it look again."""

from __future__ import annotations

from typing import Any

import yaml

_SECRETS = "secret-"
"""What the names of the files begin with that tell where a key or a certificate is."""


def is_secret(name: str) -> bool:
    """Whether a file of this name is for a secret."""
    return name.startswith(_SECRETS)


def secret_of(name: str) -> str:
    """What Envoy calls the secret that a file is for."""
    return name.removeprefix(_SECRETS).removesuffix(".yaml")


def in_other_words(text: str) -> str:
    """A secret's file in other words: at the same text Envoy wouldn't look again."""
    return yaml.safe_dump(_by_other_paths(yaml.safe_load(text)), sort_keys=False, width=120)


def _by_other_paths(told: Any) -> Any:
    match told:
        case {"filename": str(path), **others}:
            folder, _, name = path.rpartition("/")
            other = folder.removesuffix("/.") if folder.endswith("/.") else f"{folder}/."
            return {"filename": f"{other}/{name}", **others}
        case dict():
            return {key: _by_other_paths(value) for key, value in told.items()}
        case list():
            return [_by_other_paths(each) for each in told]
    return told


def blank(name: str) -> str:
    """A secret's file that says nothing, in the place of one that Envoy couldn't use.

    What refers to it lives on for as long as its connections, and wouldn't look again at the same text.
    """
    kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
    return f"resources:\n- '@type': {kind}\n  name: {secret_of(name)}\n"
