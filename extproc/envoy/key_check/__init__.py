"""Clients' keys, checked by Envoy itself: whoever has none costs the processor nothing.

Envoy has no filter that knows keys by their hashes, but runs Lua: `key_check.lua` hashes what a request offers (2.5 us)
and puts the client's name, or why there is none, into a header, by which the filters behind it refuse the request, or
count it against the client's limits (extproc.envoy.clients). It comes to Envoy as a file of its own, so that a key that
comes or goes changes nothing else and closes no connection.

The processor checks each key again (extproc.exchange.admission). So it doesn't matter who is the first to learn of a
change, and where Envoy has no such file, nobody comes in without a key either.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

from extproc.exchange.api_keys import ApiKeys

FILE = "keys.yaml"
"""The file's name, among those that Envoy reads (extproc.envoy.dynamic)."""

FILTER = "extproc.key_check"
"""The filter's name, in Envoy's configuration and its statistics."""

LUA = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua"

_PROGRAM = Path(__file__).with_name("key_check.lua")


def keys_file(keys: ApiKeys) -> str:
    """The text of the file, for Envoy to check by these keys. Nothing in it opens a door: it has hashes only."""
    owners = "\n".join(f'  ["{digest.hex()}"] = "{name}",' for name, digest in keys.entries)
    program = f"local OWNERS = {{\n{owners}\n}}\n{_PROGRAM.read_text(encoding='utf-8')}"
    resource = {
        "@type": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
        "name": FILTER,
        "typed_config": {"@type": LUA, "default_source_code": {"inline_string": program}},
    }
    # Which is YAML too. All exchanges wait while it is made, and the YAML of 200 keys would take 30 ms.
    text = f"resources: {json.dumps([resource])}\n"
    return f"version_info: {sha256(text.encode()).hexdigest()[:16]}\n{text}"
