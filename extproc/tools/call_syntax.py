"""How a call is written in a format: for what prompt mode shows to a model, and for forced decoding.

Pure data and pure functions. What is written here the parser of the same format reads back as the same call, as far as
the format can say it (`syntax.arguments` names what can't be). Sources: the models' chat templates, the tests of vLLM
and SGLang, and the notations of xgrammar 0.2.8, whose structural tags accept what is written with a `style`.
"""

from __future__ import annotations

from types import MappingProxyType

from extproc.toolcalls import get_format
from extproc.tools.syntax import json_calls, literal_calls, tagged_calls
from extproc.tools.syntax.arguments import Style
from extproc.tools.syntax.table import CallSyntax

__all__ = ["SYNTAXES", "CallSyntax", "Style", "call_syntax"]

SYNTAXES = MappingProxyType(
    {syntax.format: syntax for syntax in (*json_calls.SYNTAXES, *tagged_calls.SYNTAXES, *literal_calls.SYNTAXES)}
)
"""By the name that the parser knows; an alias is here only where it is written in another way."""


def call_syntax(name: str) -> CallSyntax | None:
    """How calls are written in the format of this name or alias; None when nobody here knows.

    Raises UnknownFormatError.
    """
    return SYNTAXES.get(name) or SYNTAXES.get(get_format(name).name)
