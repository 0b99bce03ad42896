"""What a model means by a tool's name that it spells oddly."""

from __future__ import annotations

import re
from collections.abc import Collection

_NAMESPACED = re.compile(r"(?:functions?|default(?:_api|_functions)?|tools?|api)[.:/](?P<name>.+)")
_COUNTED = re.compile(r"(?P<name>.+)_\d+")
_ID = re.compile(r"\d+|call_\w+")


def offered_name(name: str, offered: Collection[str]) -> str:
    """The offered tool that the name surely means; else the name itself."""
    if name in offered:
        return name
    namespace, _, rest = name.partition(".")
    if namespace == rest and rest in offered:
        return rest  # formats with namespaces double a name that has none: `echo.echo`
    spaced = _NAMESPACED.fullmatch(name)
    if spaced and spaced["name"] in offered:
        return str(spaced["name"])
    plain = name.replace(".", "_")
    if plain in offered:
        return plain  # the tools that a model knows by itself have names with dots, which OpenAI's may not have
    counted = _COUNTED.fullmatch(name)
    if counted and counted["name"] in offered:
        return str(counted["name"])
    if _ID.fullmatch(name) and len(offered) == 1:
        return next(iter(offered))
    return name


def decoded(text: str) -> str:
    """The text that stands for itself in an element's attribute."""
    for entity, character in (("&quot;", '"'), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(entity, character)
    return text
