"""Formats that leave out the chat template's own tokens.

To read a format's markers the backend has to show special tokens, and then those of the chat template show too, such
as `<|im_start|>` when the model goes on and plays the user. In free text they are markup; inside a call they stay what
the model wrote.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from extproc.toolcalls.states import StateName
from extproc.toolcalls.table import Format, Prose, Rules, Transition

TEMPLATE_TOKENS = frozenset(
    """
    <|im_start|> <|im_end|> <|endoftext|> <|end_of_text|> <|begin_of_text|> <|start_header_id|> <|end_header_id|>
    <|eot_id|> <|eom_id|> <|end|> <|end_of_turn|> <|end_of_role|> <|start_of_role|> <|user|> <|assistant|> <|system|>
    <|observation|> <start_of_turn> <end_of_turn> <|turn> <turn|>
    <｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜User｜> <｜Assistant｜>
    """.split()
)
"""What chat templates write around turns, and no reader of an answer wants to see. Not among them: `<s>` and `</s>`,
which are HTML as well."""


@lru_cache
def stripping(format_: Format, tokens: frozenset[str]) -> Format:
    """The same format, without the tokens in its free text."""
    states = {state: _stripped(state, rules, tokens) for state, rules in format_.states.items()}
    return replace(format_, states=states)


def _stripped(state: StateName, rules: Rules, tokens: frozenset[str]) -> Rules:
    if not isinstance(rules, Prose):
        return rules
    hidden = {token: Transition(state) for token in tokens if token not in rules.transitions}
    return replace(rules, transitions={**rules.transitions, **hidden})
