"""What the grammars of custom tools accept, by the xgrammar that vLLM uses. No model is needed for it."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extproc.prompts.text_grammar import UnsupportedGrammarError, ebnf
from tests import patches
from tests.ebnf import Ebnf
from tests.pattern_strategies import CHARACTERS, PATTERNS
from tests.real_vllm.matcher import Matcher, json_text

pytestmark = pytest.mark.vllm

TEXT_GRAMMARS = [
    ("lark", patches.GRAMMAR, patches.VALID, patches.BROKEN),
    ("lark", 'start: start "+" N | N\nN: /[0-9]+/', ["1", "1+22+3"], ["", "1+", "+1"]),
    ("lark", 'start: x start "y" | "z"\nx: "a"?', ["z", "zy", "azyy"], ["y", "aaz"]),
    ("lark", 'start: "(" start ")" start |', ["", "()(())"], ["(", ")("]),
    ("lark", 'start: start | "a"', ["a"], ["", "aa"]),
    ("lark", 'start: true root\ntrue: "a"\nroot: "b"', ["ab"], ["a", "aba"]),
    ("lark", 'start: A ("," A)*\nA: "a"\n%import common.WS\n%ignore WS', ["a", " a ,\n\ta "], ["", "a a", " "]),
    ("lark", 'start: ("a"? "b"*)~2..3 "c"', ["c", "abbc", "ababac"], ["ababababc", "ab"]),
    (
        "regex",
        "[\u0080-\ud7ff\ue000-\U0010ffff]+",
        ["é\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"],
        ["a", "\x7f"],
    ),
    ("regex", ".*", ["", '"\\ \t\b\f\r\0\x01\x1f\x7f é😀'], ["\n", "a\n"]),
    ("regex", r"\w{1,64}\s", ["Zürich\u3000", "x" * 64 + "\n"], ["x" * 65 + " ", "-\n"]),
    ("regex", r".{2,64}", ['"\\', "\t" * 64], ["\t" * 65, "a"]),
    (
        "regex",
        r"[\]\[^\\\-\"]{2}(?i:Straße)",
        ["]^straße", '-"STRASSE'[:-3] + "ẞE", "[\\Straße"],
        ["a]straße", "]]strasse"],
    ),
]


class TestTextGrammars:
    """What a custom tool's grammar allows can be written into its input, and nothing else."""

    @pytest.mark.parametrize(("syntax", "definition", "allowed", "refused"), TEXT_GRAMMARS)
    @pytest.mark.parametrize("in_json", [True, False])
    def test_language(
        self, matcher: Matcher, syntax: str, definition: str, allowed: list[str], refused: list[str], in_json: bool
    ) -> None:
        texts = [*allowed, *refused]
        found = matcher.accepted_texts(ebnf(syntax, definition, in_json_string=in_json), *texts, in_json=in_json)
        assert [text for text, is_ in zip(texts, found, strict=True) if is_] == allowed

    @pytest.mark.parametrize("text", ['"', "\n", "\\", "\x01"])
    def test_what_json_escapes_is_never_raw(self, matcher: Matcher, text: str) -> None:
        grammar = ebnf("regex", r"[\s\S]*", in_json_string=True)
        assert matcher.accepted_texts(grammar, f"a{text}x", in_json=False) == [False]

    @settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(PATTERNS, st.lists(st.text(CHARACTERS, max_size=4), max_size=5), st.data())
    def test_patterns(self, matcher: Matcher, pattern: str, texts: list[str], data: st.DataObject) -> None:
        texts.append(data.draw(st.from_regex(pattern, fullmatch=True, alphabet=CHARACTERS) | st.just("")))
        expected = [re.fullmatch(pattern, text) is not None for text in texts]
        for in_json in (True, False):
            try:
                grammar = ebnf("regex", pattern, in_json_string=in_json)
            except UnsupportedGrammarError as error:
                if "may be empty" not in str(error):
                    raise
                return
            assert matcher.accepted_texts(grammar, *texts, in_json=in_json) == expected
            assert [Ebnf(grammar).accepts(json_text(text) if in_json else text) for text in texts] == expected
