"""The grammars that OpenAI's custom tools bring for their input, as the EBNF that xgrammar enforces.

A client's grammar is not to be trusted: what is read of it is bounded in size, in depth and in work, and what can't be
kept is refused by name.
"""

from __future__ import annotations

from extproc.prompts.text_grammar.lark import read_lark
from extproc.prompts.text_grammar.nodes import ROOT, UnsupportedGrammarError
from extproc.prompts.text_grammar.regex import read_regex
from extproc.prompts.text_grammar.writer import write_ebnf

__all__ = ["UnsupportedGrammarError", "ebnf"]

_LARGEST = 32 * 1024
"""Bytes. Codex's grammar of a patch has some 700."""


def ebnf(syntax: str, definition: str, *, in_json_string: bool) -> str:
    """xgrammar's EBNF, with the root rule `root`, of the texts that the grammar allows.

    `syntax` is `lark` or `regex`, as in a custom tool's `format`; a regex has to match the whole text. With
    `in_json_string` the texts are as they stand in a JSON string, without its quotes: each in one spelling, that of
    `json.dumps(text, ensure_ascii=False)`. Raises UnsupportedGrammarError with the feature, and the rule that has it.

    A Lark grammar is read as one of characters: wherever a terminal may match, it may end anywhere that it matches.
    """
    try:
        size = len(definition.encode())
    except UnicodeEncodeError:
        raise UnsupportedGrammarError("the grammar has half of a surrogate pair, which is no character") from None
    if size > _LARGEST:
        raise UnsupportedGrammarError(f"the grammar has {size} bytes, and {_LARGEST} are the most")
    match syntax:
        case "lark":
            rules = read_lark(definition)
        case "regex":
            rules = {ROOT: read_regex(definition, is_whole_text=True)}
        case _:
            raise UnsupportedGrammarError(f"the syntax {syntax!r}; there are lark and regex")
    return write_ebnf(rules, in_json_string=in_json_string)
