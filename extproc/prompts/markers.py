"""What text from outside may not spell: the markers that a model, or the parser of its answers, takes for structure.

Nothing of it is listed by hand that a table knows. A format's markers are those that its parser acts on
(`toolcalls.formats`), those that are written around its calls and results (`tools.syntax`), and the tokens with which
chat templates separate turns. Which model is behind a format isn't known, least of all in prompt mode, where any model
may be asked for any format: so turn tokens are those of all families, and only call markup is the format's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from extproc.toolcalls import NAMED, SYNTAXES, TEMPLATE_TOKENS, call_syntax, get_format
from extproc.toolcalls.table import Body, Format, Marker, Prose

SHAPES = r"/?[|｜][^<>\s]{1,64}+>|[^<>\s]{1,65}+(?<=[|｜])>|\[[^<>\s]{1,65}+(?<=\])>"
"""What follows the `<` of the control tokens of most families: `<|im_end|>`, `<|tool_call>`, `<turn|>`, `<｜User｜>`,
`<[end]>`. A pattern."""

_OF_NO_FORMAT = """
    <s> </s> <bos> <eos> <pad> <unk> <mask> <<SYS>> <</SYS>> <SYS> </SYS> [INST] [/INST] [gMASK] [sMASK] [MASK]
    <SPECIAL_ <extra_id_ <BOS_TOKEN> <EOS_TOKEN> [BOS] [EOS] [EOT] [PAD] [UNK] <think> </think>
    <tools> </tools> <tool> </tool> <tool_call> </tool_call> <tool_calls> </tool_calls> <tool_response> </tool_response>
""".split()
"""Tokens of vocabularies whose models have no format of their own (Llama 2, Gemma 2, Nemotron 4, ...), and the tags
that templates for tools have in common."""


@lru_cache
def markers_of(name: str) -> frozenset[str]:
    """What text may not spell where a format of this name or alias is used, besides `SHAPES`.

    Each begins with its opening character, which is neither a letter nor white space. Raises UnknownFormatError.
    """
    format_ = get_format(name)
    syntax = call_syntax(name)
    spelled = [*_read(format_), *(syntax.markup if syntax is not None else ())]
    return _turn_tokens() | frozenset(map(_from_opening, spelled)) - {""}


@lru_cache
def thinking_of(name: str) -> frozenset[str]:
    """The tags around a format's thinking: a chat template may look for them in an assistant's own words."""
    format_ = get_format(name)
    openings = {"<think>"} | {
        marker.strip()
        for name_, state in format_.states.items()
        if isinstance(state, Prose) and name_ != format_.thinking
        for marker, transition in state.transitions.items()
        if transition.to == format_.thinking
    }
    return frozenset(openings | {f"{opening[0]}/{opening[1:]}" for opening in openings})


@lru_cache
def words_of(name: str) -> frozenset[str]:
    """The plain words that announce a call where a bracket follows."""
    format_ = get_format(name)
    return frozenset(
        marker
        for state in format_.states.values()
        if isinstance(state, Prose)
        for marker, transition in state.transitions.items()
        if marker.isidentifier() and not isinstance(format_.states[transition.to], Prose)
    )


@lru_cache
def unmarked_of(name: str) -> frozenset[type[Body]]:
    """The notations in which a format's calls need no marker: only the tool's name tells them from text."""
    states = get_format(name).states
    return frozenset(
        type(target)
        for state in states.values()
        if isinstance(state, Prose)
        for transition in state.transitions.values()
        if transition.marker is Marker.KEPT and isinstance(target := states[transition.to], Body)
    )


@lru_cache
def opening_characters() -> str:
    """All characters with which a marker of any format begins, and the brackets behind words that announce a call."""
    return "".join(sorted({marker[0] for one in NAMED for marker in markers_of(one.name)} | set("<[{")))


@lru_cache
def _turn_tokens() -> frozenset[str]:
    own = {token for syntax in SYNTAXES.values() for token in syntax.turn_tokens}
    return frozenset(own) | TEMPLATE_TOKENS | frozenset(_OF_NO_FORMAT)


def _read(format_: Format) -> Iterator[str]:
    """The markers that the parser acts on."""
    for state in format_.states.values():
        if not isinstance(state, Body):
            yield from state.transitions


_OPENING = re.compile(r"[^\w\s`].*\w.*|[^\w\s`]{3,}", re.DOTALL)


def _from_opening(marker: str) -> str:
    """A marker from its opening character on; "" for what is no markup by itself: a bracket, a fence, a word."""
    found = _OPENING.search(marker.strip())
    return found.group() if found is not None and "`" not in marker else ""
