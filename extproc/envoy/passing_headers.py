"""Which header fields pass between clients and backends: those that are named here, in either direction, and no other.

What else there is nobody can list. A client may name the server that is to prefill its prompt (`x-prefiller-host-port`
of llm-d), the one to take its cache from (`x-kv-cache-source-host-port`), a worker (`x-worker-instance-id` of Dynamo),
an engine (`x-data-parallel-rank` of vLLM), or be known by its cookies, its keys and its address. A backend, or a proxy
before it, tells what it runs (`server`, `via`, `x-powered-by`), which machine it is, what is left of the quota of the
gateway's own account, or where it is (`location`); and Envoy itself obeys some of a backend's (`x-envoy-*`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

TO_BACKENDS = (
    "host",
    "content-type",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "accept",
    "accept-encoding",
    "user-agent",
    # By these a request is followed through the logs.
    "x-request-id",
    "traceparent",
    "tracestate",
)
"""Of requests. A backend's settings may name more (`headers`). The key that a backend asks for comes after this."""

TO_CLIENTS = (
    "content-type",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "cache-control",  # by which what lies between knows not to store or hold a stream
    "allow",  # beside a 405
    # When to try again; the last two are what OpenAI's own clients look for.
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
)
"""Of answers. What the gateway says itself (`x-request-id`, `date`, `x-extproc-*`, `access-control-*`) comes after."""

_LETTER = "[!-~]"
"""Any of ASCII, of which all names are: RE2 takes ten times as much for any of Unicode."""
_Tree: TypeAlias = dict[str, "_Tree"]
_END = ""


def all_but(names: Iterable[str]) -> str:
    """A regular expression that matches every name but these, as a whole, and but those that begin with a colon.

    Envoy removes what matches an expression, and its RE2 has no way to say "not": so this one says at each letter how
    a name can go on otherwise.
    """
    tree: _Tree = {":": {}}
    for name in names:
        node = tree
        for letter in name:
            node = node.setdefault(letter, {})
        node[_END] = {}
    return _otherwise(tree, begun=False)


def _otherwise(node: _Tree, *, begun: bool = True) -> str:
    """What may follow the letters that lead to this node, so that the whole is none of the names."""
    letters = sorted(node.keys() - {_END})
    if begun and not letters:
        return f"{_LETTER}+"
    # Behind a colon anything is a name of HTTP's own.
    ways = [re.escape(letter) + _otherwise(node[letter]) for letter in letters if letter != ":"]
    ways.append(f"[{''.join(_between(letters))}]{_LETTER}*")
    return f"(?:{'|'.join(ways)}){'?' if begun and _END not in node else ''}"


def _between(letters: list[str]) -> Iterator[str]:
    """The ranges of letters that aren't these, which are sorted."""
    first = ord("!")
    for code in [*map(ord, letters), ord("~") + 1]:
        if first < code:
            yield f"{re.escape(chr(first))}-{re.escape(chr(code - 1))}"
        first = code + 1
