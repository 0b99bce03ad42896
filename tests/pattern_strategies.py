"""Regular expressions for tests with generated examples, of characters that JSON escapes and that it doesn't."""

from __future__ import annotations

import re

from hypothesis import strategies as st

ALPHABET = 'ab"\\\n\té\x01 -]'
CHARACTERS = st.sampled_from(ALPHABET)


def in_class(characters: list[str], negated: bool) -> str:
    return f"[{'^' if negated else ''}{''.join(map(re.escape, characters))}]"


ATOMS = st.one_of(
    CHARACTERS.map(re.escape),
    st.sampled_from([".", r"\s", r"\w", r"\W", r"\D", r"[^\s\"]", "[a-é]"]),
    st.builds(in_class, st.lists(CHARACTERS, min_size=1, max_size=3), st.booleans()),
)
QUANTIFIERS = st.sampled_from(["?", "*", "+", "{2}", "{1,2}", "{0,2}", "{2,}", "*?", ""])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.builds(lambda part, quantifier: f"({part}){quantifier}", inner, QUANTIFIERS),
    ),
    max_leaves=5,
)
