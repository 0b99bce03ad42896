"""Grammars of custom tools become EBNF that allows the same texts, or are refused by name.

What xgrammar makes of the EBNF is tested with the real one, in tests/real_vllm/test_text_grammars.py.
"""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from extproc.prompts.text_grammar import UnsupportedGrammarError, ebnf
from extproc.prompts.text_grammar.characters import class_of, in_any_case, negated, only, union, without
from extproc.prompts.text_grammar.common_terminals import COMMON
from tests import patches
from tests.ebnf import Ebnf
from tests.pattern_strategies import CHARACTERS, PATTERNS


def json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def accepted(syntax: str, definition: str, *texts: str) -> list[bool]:
    """Which of the texts the grammar allows: the same ones in JSON as out of it."""
    raw = Ebnf(ebnf(syntax, definition, in_json_string=False))
    escaped = Ebnf(ebnf(syntax, definition, in_json_string=True))
    found = [raw.accepts(text) for text in texts]
    assert [escaped.accepts(json_text(text)) for text in texts] == found
    return found


def check(syntax: str, definition: str, allowed: list[str], refused: list[str]) -> None:
    assert [t for t in allowed if not accepted(syntax, definition, t)[0]] == []
    assert [t for t in refused if accepted(syntax, definition, t)[0]] == []


class TestLark:
    def test_patches(self) -> None:
        check("lark", patches.GRAMMAR, patches.VALID, patches.BROKEN)

    @pytest.mark.parametrize(
        ("grammar", "allowed", "refused"),
        [
            ('start: "a" "b" | "c"', ["ab", "c"], ["a", "abc", ""]),
            ('start: "a"? "b"* "c"+', ["c", "abbcc"], ["", "ab"]),
            ('start: "a"~2 "b"~1..2', ["aab", "aabb"], ["ab", "aa", "aabbb"]),
            ('start: "a"~0..1 ["b" | "c"]', ["", "a", "ab", "c"], ["aa", "bc"]),
            ('start: ("a" | "b" "c")~2', ["aa", "abc", "bcbc"], ["a", "abcbc"]),
            ('start: "a".."c" | "é"', ["a", "b", "c", "é"], ["d", "", "ab"]),
            ('start: "select"i " "', ["select ", "SeLeCt "], ["selec "]),
            ('start: /[a-c]+/i "x"', ["abx", "ACx"], ["abX"]),
            ("start: /a.b/s /a.b/", ["a\nba-b"], ["a-ba\nb"]),
            (r'start: "\"\\\n\t\r\f\x41\u00e9\U0001F600"', ['"\\\n\t\r\fAé😀'], ["A"]),
            (r"start: /\/[^\/]+\//", ["/a/"], ["//", "/a"]),
            ('start: "//" "#" /[#]/', ["//##"], ["//#"]),
            ('start: "a" // one\n  # two\n\n  | "b"  # three\n', ["a", "b"], ["ab", ""]),
            ('start: (\n  "a"\n  | "b"\n)+', ["ab"], [""]),
            ('start:\n  | "a"', ["", "a"], ["aa"]),
            ('start: "a" |\nb: "b"', ["a", ""], ["b"]),
            ("start:", [""], ["a"]),
            ('?start: sum\n!sum.2: sum "+" A -> add | A\nA.-1: "1"', ["1", "1+1+1"], ["1+", "+1", ""]),
            ('start: "(" start ")" start |', ["", "()(())"], ["(", ")("]),
            ('start: _a _B\n_a: "a"\n_B: "b"', ["ab"], ["a"]),
            ('start: "true" root\nroot: "false"', ["truefalse"], ["true"]),
            ('start: "a"\r\nunused: "b"\r\n', ["a"], ["b"]),
            (
                "%import common.INT\n%import common.LF -> END\n%import common (WS, CNAME)\nstart: INT END",
                ["12\n"],
                ["1"],
            ),
            ('start: (/a+/ | /b*/)* "c"', ["c", "aabac"], ["a"]),
            ('start: ["a" [("b")]] "c"', ["c", "ac", "abc"], ["bc"]),
        ],
    )
    def test_language(self, grammar: str, allowed: list[str], refused: list[str]) -> None:
        check("lark", grammar, allowed, refused)

    def test_what_is_ignored_stands_around_terminals_and_not_in_them(self) -> None:
        rules = 'start: pair ("," pair)*\npair: NAME "=" /[0-9]+/\nNAME: "x" "y"\n'
        grammar = rules + "%import common.WS\n%ignore WS\n%ignore /#[a-z]*;/"
        allowed = ["xy=1", " xy = 1 , xy=22 ", "\n\txy#note;=#;#b; 1 #c;", "  xy=1"]
        check("lark", grammar, allowed, ["x y=1", "xy=1 2", "xy 1", "# ;xy=1", ""])

    @pytest.mark.parametrize(
        ("name", "allowed", "refused"),
        [
            ("DIGIT", ["0", "9"], ["", "10", "a"]),
            ("HEXDIGIT", ["0", "a", "F"], ["g"]),
            ("INT", ["0", "123"], ["-1", ""]),
            ("SIGNED_INT", ["1", "-1", "+12"], ["--1", "+"]),
            ("DECIMAL", ["1.", "1.5", ".5"], ["1", "."]),
            ("FLOAT", ["1e5", "1.", ".5E-3", "1.5e+3"], ["1", "e5", "1e"]),
            ("SIGNED_FLOAT", ["-1e5", "+1."], ["-1", "1"]),
            ("NUMBER", ["1", "1.", ".5", "1e5", "1.5E5"], ["", ".", "-1", "e"]),
            ("SIGNED_NUMBER", ["-1", "+.5", "7"], ["-", "1-"]),
            ("ESCAPED_STRING", ['""', '"a"', r'"\""', r'"\\"', '"é "'], ['"', '"a', '"""', r'"\"', '"\n"', 'a""']),
            ("LCASE_LETTER", ["a"], ["A", "é", "ab"]),
            ("UCASE_LETTER", ["A"], ["a"]),
            ("LETTER", ["a", "Z"], ["1", "_"]),
            ("WORD", ["ab", "Z"], ["", "a1"]),
            ("CNAME", ["_", "a1", "A_b"], ["1a", "", "a-b"]),
            ("WS_INLINE", [" ", "\t "], ["", "\n"]),
            ("WS", [" ", "\t\r\n\f"], ["", "a"]),
            ("CR", ["\r"], ["\n"]),
            ("LF", ["\n"], ["\r\n", ""]),
            ("NEWLINE", ["\n", "\r\n\n"], ["", "\r"]),
            ("SH_COMMENT", ["#", "# a"], ["#\n", "a"]),
            ("CPP_COMMENT", ["//", "// a/"], ["/", "//\n"]),
            ("C_COMMENT", ["/**/", "/* a\n* / **/", "/*/*/"], ["/*/", "/* */ */", "/*"]),
            ("SQL_COMMENT", ["--", "-- a"], ["-", "--\n"]),
        ],
    )
    def test_common_terminals(self, name: str, allowed: list[str], refused: list[str]) -> None:
        check("lark", f"%import common.{name}\nstart: {name}", allowed, refused)
        assert all(re.fullmatch(COMMON[name], text) for text in allowed)

    @pytest.mark.parametrize(
        ("grammar", "reason"),
        [
            ("", "there is no rule start"),
            ('begin: "a"', "there is no rule start"),
            ("start: other", "start refers to other, which isn't defined"),
            ("start: OTHER", "start refers to OTHER, which isn't defined"),
            ('start: "a"\n%ignore WS', "%ignore refers to WS, which isn't defined"),
            ('start: A\nA: b\nb: "x"', "the terminal A refers to b, which is a rule"),
            ('start: "a"\nstart: "b"', "start is defined more than once (in start, line 2"),
            ('start: line*\nline: /[a-z]*/ "\\n"?', "an unlimited repetition of what may be empty, in start"),
            (
                "start: "
                + " ".join(f"r{n}" for n in range(255))
                + "".join(f"\nr{n}: A" for n in range(255))
                + '\nA: "a"',
                "the grammar has 258 rules, and 256 are the most",
            ),
            ("start: a\na: a a | start", "never ends"),
            ('start: "a" | b\nb: "x" b', "the rule b never ends"),
            ('start: pair{"a"}', "the template pair (in start, line 1"),
            ('pair{x}: x\nstart: "a"', "a template (in pair, line 1"),
            ('start[lazy]: "a"', "an attribute (in start"),
            ("%declare A\nstart: A", "the directive %declare"),
            ('%override start: "a"', "the directive %override"),
            ('start: "a"\n%extend start: "b"', "the directive %extend"),
            ('%json {"type": "object"}\nstart: "a"', "the directive %json"),
            ('%import .files.A\nstart: "a"', "an import from a file"),
            ('%import python.NAME\nstart: "a"', "an import from python"),
            ('%import common.NAME\nstart: "a"', "an import of common.NAME"),
            ('%import common.LF "x"\nstart: LF', 'a newline is missing before "x"'),
            ("start: 'a'", "line 1 of the grammar can't be read, from \"'a'\" on"),
            ("\n\nstart: <|x|>", "line 3 of the grammar can't be read"),
            ('start: "a', "can't be read"),
            ('Start: "a"', "a name in upper and lower case"),
            ('start: ("a"', ") is missing before the end"),
            ('start: "a")', "a newline is missing before )"),
            ('start "a"', ': is missing before "a"'),
            ('start: "a"~3..2', "a repetition of at least 3 and at most 2"),
            ('start: "a"~257', "a repetition of 257; from 0 to 256 can be had"),
            ('start: "a"~-1', "a repetition of -1"),
            ('start: "a"~99999999999999999999', "a repetition of 999999999999"),
            ('start: "ab".."c"', 'the range "ab".."c"'),
            ('start: "c".."a"', 'the range "c".."a"'),
            (r'start: "\d"', r"the escape \d in a string"),
            (r'start: "\ud800"', r"\ud800, which is no character"),
            ("start: /a(?=b)/", "a look-ahead, in the regular expression a(?=b) (in start, line 1"),
            ("start: /a.*?b/", "a lazy quantifier"),
            ("start: /^a/", "the anchor ^"),
            ("start: /a$/", "the anchor $"),
            ("start: /a b/x", "the flag x"),
            ("start: /a/m", "the flag m"),
            ("start: " + "(" * 33 + '"a"' + ")" * 33, "more than 32 groups in one another"),
            ("start: " + "(" * 10_000, "more than 32 groups in one another"),
            ("start: ((/a{100}/)~100)~100", "repetitions that come to more than 1024 characters"),
            ("start: " + " ".join(f"/[\\w{chr(0x2600 + n)}-]/" for n in range(40)), "too many large classes"),
            ("start: " + r"/[\w]/i" * 4000, "too many large classes"),
            ('start: "' + "a" * 32_768 + '"', "the grammar has 32777 bytes, and 32768 are the most"),
            ('start: "\ud800"', "half of a surrogate pair"),
        ],
    )
    def test_refusals(self, grammar: str, reason: str) -> None:
        with pytest.raises(UnsupportedGrammarError) as caught:
            ebnf("lark", grammar, in_json_string=True)
        assert reason in str(caught.value)
        assert len(str(caught.value)) < 300


class TestRegex:
    @pytest.mark.parametrize(
        ("pattern", "allowed", "refused"),
        [
            ("", [""], ["a"]),
            ("a|", ["", "a"], ["b"]),
            ("^a|b$", ["a", "b"], ["ab"]),
            (r"\A(?:a|b)+\Z", ["ab"], [""]),
            (r"(?i)^a\z", ["a", "A"], ["b"]),
            ("[]a]+[^]a]", ["]a-"], ["]a", "a]"]),
            (r"[a\-z\]\\^-]+", ["a-z]\\^-"], ["b"]),
            (r"[\n\t\x41\u0042\x{43}\u{44}\U00000045\b\0]+", ["\n\tABCDE\b\0"], ["F"]),
            (r"\d+\D\w+\W\s\S", ["12-éa_ \n."], ["12-- \n."]),
            (r"[^\W\d_]+", ["Zürich"], ["a1", "_"]),
            (r"\.\*\/\"\-\ \é", ['.*/"- é'], ["a"]),
            (r"a{2}b{1,}c{,2}d{0}e{,}", ["aab", "aabbccee"], ["ab", "aabd", "aabccc"]),
            ("x{a{,b}{", ["x{a{,b}{"], ["xa"]),
            (r"{\"a\": [0-9]+}", ['{"a": 12}'], ["{}"]),
            ("(?P<year>[0-9]{4})-(?<month>[0-9]{2})", ["2026-11"], ["2026-1"]),
            ("a(?i:b(?-i:c))d", ["abcd", "aBcd"], ["aBCd", "Abcd", "abcD"]),
            ("(?s:.).", ["\na"], ["\n\n"]),
            ("(?s).", ["\n"], [""]),
            ("(?i)[^k]|ß", ["a", "ß", "ẞ"], ["k", "K", "\u212a"]),
            ("a*?b??c+?", ["c", "abcc"], ["ab"]),
            (".", ['"', "\\", "\t", "\x01", "é", "😀", "\r"], ["\n", "", "ab"]),
            (".{2,3}", ['"\\', "a\tb"], ['"', "abcd"]),
            (".{2,}", ['""', "abcd"], ['"']),
            ("(?:.|\n){2}", ["\n\n"], ["\n"]),
            ("[[ab]+", ["[a"], ["]"]),
            ("(a*)*(b+)?", ["aab"], ["ba"]),
            ("(?:a?|b*|c+|)+d(?:a?)+(?:b?)*(?:|c)*", ["d", "abcd", "daabbcc"], ["", "dab" + "a"]),
            ("(?:a+|b)+c(?:d*)?(?:e+)?", ["ac", "aabacddee"], ["c", "ace" + "d"]),
            ("(?:a+){2}", ["aa", "aaa"], ["a"]),
        ],
    )
    def test_language(self, pattern: str, allowed: list[str], refused: list[str]) -> None:
        check("regex", pattern, allowed, refused)

    @pytest.mark.parametrize(
        ("pattern", "reason"),
        [
            ("a(?=b)", "a look-ahead"),
            ("a(?!b)", "a look-ahead"),
            ("(?<=a)b", "a look-behind"),
            ("(?<!a)b", "a look-behind"),
            ("(?>a)", "an atomic group"),
            (r"(a)\1", "a back-reference"),
            ("(?P<x>a)(?P=x)", "a back-reference"),
            (r"(?P<x>a)\k<x>", "a back-reference"),
            ("(a)?(?(1)b|c)", "a condition on a group"),
            ("(?#note)a", "a comment"),
            ("a*+", "a possessive quantifier"),
            ("a**", "a quantifier behind another one"),
            ("a{2}{3}", "a quantifier behind another one"),
            ("*a", "a * behind nothing"),
            ("a|+", "a + behind nothing"),
            ("(?)", "a group that begins with ?)"),
            ("(?&x)", "a group that begins with ?&x"),
            ("(?x)a", "the flag x"),
            ("(?m)^a", "the flag m"),
            ("(?a:a)", "the flag a"),
            ("(?-u:a)", "the flag u"),
            (r"\bword", "a word boundary"),
            (r"\p{L}", "\\p, a property of Unicode"),
            (r"\012", "an octal escape"),
            (r"\q", "the escape \\q"),
            ("a\\", "a \\ at the end"),
            (r"\ud800", "\\ud800, which is no character"),
            (r"\x{110000}", "\\x{110000}, which is no character"),
            ("a^b", "an anchor in the middle"),
            ("a$b", "an anchor in the middle"),
            ("(^a)", "the anchor ^ in a group"),
            ("(a$)", "the anchor $ in a group"),
            (r"a\Ab", "an anchor in the middle"),
            ("[[:alpha:]]", "a class of POSIX"),
            ("[a&&b]", "the operation && on classes"),
            ("[a--b]", "the operation -- on classes"),
            ("[a", "a class that isn't closed"),
            ("[a-", "a class that isn't closed"),
            ("[a-\\", "a \\ at the end"),
            ("[z-a]", "the range z-a, which ends before it begins"),
            (r"[a-\d]", "a range from or to a class"),
            (r"[^\s\S]", "a class that no character is in"),
            ("(a", "a group that isn't closed"),
            ("a)", "a ) that closes nothing"),
            ("a{3,2}", "a repetition of at least 3 and at most 2"),
            ("a{257}", "a repetition of more than 256"),
            ("a{1000000000000}", "a repetition of more than 256"),
            (".{65}", "a repetition of 65 characters that JSON may have to escape; 64 are the most"),
            ("(" * 33 + "a" + ")" * 33, "more than 32 groups in one another"),
            ("(" * 16_000, "more than 32 groups in one another"),
        ],
    )
    def test_refusals(self, pattern: str, reason: str) -> None:
        with pytest.raises(UnsupportedGrammarError) as caught:
            ebnf("regex", pattern, in_json_string=True)
        assert reason in str(caught.value)
        assert len(str(caught.value)) < 300

    def test_long_repetitions_without_escapes(self) -> None:
        check("regex", "[a-z]{1,256}", ["a" * 256], ["a" * 257, ""])
        assert ".{65}" not in ebnf("regex", ".{65}", in_json_string=False)


def test_other_syntaxes() -> None:
    with pytest.raises(UnsupportedGrammarError, match="the syntax 'gbnf'; there are lark and regex"):
        ebnf("gbnf", "a", in_json_string=False)


class TestWork:
    @pytest.mark.parametrize(
        ("syntax", "definition"),
        [
            ("lark", patches.GRAMMAR * 40),
            ("lark", 'start: "a"' + ' "b"' * 8000),
            (
                "lark",
                "start: " + " | ".join(f"r{n}" for n in range(1500)) + "".join(f'\nr{n}: "{n}"' for n in range(1500)),
            ),
            ("lark", "start: r0" + "".join(f"\nr{n}: r{n + 1}" for n in range(1800)) + '\nr1800: "a"'),
            ("lark", "start: r0" + "".join(f"\nr{n}: r{n + 1} r{n + 1}" for n in range(1300)) + '\nr1300: "a"'),
            ("lark", 'start: "' + "é" * 16_000 + '"i'),
            ("lark", "start: " + " ".join(rf"/[{chr(0x4E00 + n)}\w]/i" for n in range(1500))),
            ("lark", "start: " + ("(" * 30 + '"a"' + ")*" * 30 + " ") * 300),
            ("lark", "\n" * 32_000 + 'start: "a"'),
            ("lark", "start: a" + "\n" * 32_000 + '| "a"'),
            ("regex", r"\w" * 16_000),
            ("regex", "(?i)" + "".join(f"[{chr(0x4E00 + n)}a]" for n in range(5000))),
            ("regex", "(?i)" + r"[\u0000-\uffff]" * 2000),
            ("regex", "(((((((((((a*)*)*)*)*)*)*)*)*)*)*)*" * 800),
            ("regex", "(?:" * 32 + "a" + "{256})" * 32),
            ("regex", "(?i)" * 8000),
            ("regex", "[" * 32_000),
            ("regex", "a|" * 16_000),
            ("regex", "^" * 32_000),
            ("regex", "{" * 32_000),
            ("regex", r"\W|" * 10_000),
        ],
    )
    def test_is_bounded(self, syntax: str, definition: str) -> None:
        began = time.process_time()
        try:
            written = ebnf(syntax, definition, in_json_string=True)
        except UnsupportedGrammarError:
            written = ""
        assert time.process_time() - began < 2
        assert len(written) < 300_000


class TestCharacters:
    def test_are_apart(self) -> None:
        assert union([only("cab"), [(0x41, 0x43)], only("D")]) == ((0x41, 0x44), (0x61, 0x63))
        assert without(((0, 10), (20, 30)), ((2, 3), (5, 22), (30, 40))) == ((0, 1), (4, 4), (23, 29))
        assert negated(((0, 0xFFFF),)) == ((0x10000, 0x10FFFF),)
        assert negated(()) == ((0, 0xD7FF), (0xE000, 0x10FFFF))

    @pytest.mark.parametrize("letter", "wds")
    def test_classes_are_those_of_python(self, letter: str) -> None:
        whole = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)
        members = "".join(chr(code) for first, last in class_of(letter) for code in range(first, last + 1))
        assert members == "".join(re.findall(rf"\{letter}", whole))
        others = sum(last - first + 1 for first, last in class_of(letter.upper()))
        assert others == len(whole) - len(members)

    @pytest.mark.parametrize("text", ["k", "S", "é", "ß", "Σ", "aZ1", "я"])
    def test_case_is_that_of_python(self, text: str) -> None:
        members = {chr(code) for first, last in in_any_case(only(text)) for code in range(first, last + 1)}
        expected = {chr(code) for code in range(0x1F000) if re.fullmatch(f"[{text}]", chr(code), re.IGNORECASE)}
        assert members == expected
        wide = union([only(text), ((0x4E00, 0x9FFF),)])
        assert in_any_case(wide) == union([in_any_case(only(text)), ((0x4E00, 0x9FFF),)])


@given(PATTERNS, st.lists(st.text(CHARACTERS, max_size=4), max_size=5), st.data())
def test_the_texts_are_those_that_python_matches(pattern: str, texts: list[str], data: st.DataObject) -> None:
    texts.append(data.draw(st.from_regex(pattern, fullmatch=True, alphabet=CHARACTERS) | st.just("")))
    expected = [re.fullmatch(pattern, text) is not None for text in texts]
    try:
        found = accepted("regex", pattern, *texts)
    except UnsupportedGrammarError as error:
        if "may be empty" not in str(error):
            raise
        assume(False)
    assert found == expected
