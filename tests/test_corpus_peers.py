"""Parsers in processes of their own: the way there and back changes nothing, and what goes wrong there is a failure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.parsers import bugs
from extproc.corpus import Given, judge, load
from extproc.corpus.adapters import extproc_parser
from extproc.corpus.command import main
from extproc.corpus.judging import fixed_cuts
from extproc.corpus.peers.process import Peer, PeerError, running
from extproc.corpus.peers.tokens import CONTROL, CharacterTokenizer, thinks, whole_tokens
from extproc.corpus.rows import file_names

GIVEN = Given(["one", "two"], "hermes", [], False)


@pytest.fixture(scope="module")
def own() -> Iterator[Peer]:
    with running("extproc-worker", sys.executable) as peer:
        yield peer


def test_a_parser_elsewhere_gives_what_it_gives_here(own: Peer) -> None:
    assert set(own.formats) == set(file_names())
    rows = [row for row in load(["hermes", "glm45"]) if row.kind != "malformed"]
    assert judge(own, rows, cuts=fixed_cuts) == judge(extproc_parser, rows, cuts=fixed_cuts)
    for row in rows:
        for pieces in fixed_cuts(row.text):
            given = Given(pieces, row.format, row.tools, row.prompt_opens_thinking)
            assert list(own(given)) == list(extproc_parser(given))


def test_what_it_raises_comes_back_and_it_goes_on(own: Peer) -> None:
    with pytest.raises(PeerError, match="morse"):
        list(own(Given(["."], "morse", [], False)))
    assert list(own(GIVEN)) == [{"content": "one"}, {"content": "two"}]


ONCE = """
import pathlib, sys, time
been = pathlib.Path(sys.argv[1])
print('{"versions": {}, "formats": {"hermes": "h"}}', flush=True)
for line in sys.stdin:
    if not been.exists():
        been.touch()
        EXCEPTION
    print('{"deltas": [{"content": "fine"}]}', flush=True)
"""


@pytest.mark.parametrize(
    ("accident", "patience", "complaint"),
    [("sys.exit(3)", 30.0, "ended with status 3"), ("time.sleep(60)", 0.5, "no answer in 0.5 seconds")],
)
def test_a_process_that_dies_or_hangs_is_started_again(
    accident: str, patience: float, complaint: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(ONCE.replace("EXCEPTION", accident))
    peer = Peer((sys.executable, program, tmp_path / "been"), patience=patience)
    try:
        with pytest.raises(PeerError, match=complaint):
            list(peer(GIVEN))
        peer._patience = 30.0
        assert list(peer(GIVEN)) == [{"content": "fine"}]
    finally:
        peer.stop()


def test_what_is_not_installed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--parser", "vllm", "--python", sys.executable, "--row", "hermes:one-call"]) == 2
    assert "No module named 'vllm'" in capsys.readouterr().err
    assert main(["--parser", "vllm", "--python", "/nowhere/python", "--row", "hermes:one-call"]) == 2


def test_the_command_judges_a_parser_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--parser", "extproc-worker", "--row", "hermes:one-call"]) == 0
    assert "| `hermes` | 1/1 |" in capsys.readouterr().out


# What such parsers see


def test_every_format_has_its_control_tokens_listed() -> None:
    assert set(CONTROL) | {"json", "command_r", "functionary_v32", "llama3_json", "sarashina"} >= set(file_names())


def test_a_control_token_is_never_cut() -> None:
    text = "Hi <tool_call>\n{}\n</tool_call>"
    assert whole_tokens("hermes", list(text)) == [*"Hi ", "<tool_call>", *"\n{}\n", "</tool_call>"]
    assert whole_tokens("hermes", ["Hi <too", "l_call>\n{", "}"]) == ["Hi <tool_call>\n{", "}"]
    assert whole_tokens("json", list(text)) == list(text)
    assert whole_tokens("hermes", [text]) == [text]


def test_the_tokenizer_has_a_token_for_each_marker_and_each_character() -> None:
    tokenizer = CharacterTokenizer("hermes")
    ids = tokenizer.encode("é<tool_call>x")
    assert len(ids) == 3
    assert tokenizer.decode(ids) == "é<tool_call>x"
    assert tokenizer.get_vocab()["<tool_call>"] == ids[1]
    assert tokenizer.convert_tokens_to_ids("x") == ids[2]
    assert len(CharacterTokenizer("mistral", without=["[ARGS]"]).encode("[ARGS]")) == 6


def test_thinking_is_on_where_a_model_thinks() -> None:
    assert thinks("hermes", "<think>a</think>", False)
    assert thinks("hermes", "a</think>b", False)
    assert thinks("hermes", "a", True)
    assert not thinks("hermes", "The tag <think> opens it.", False)
    assert thinks("mistral", "[THINK]a", False)


# Bugs


@pytest.mark.parametrize("bug", bugs.read(), ids=lambda bug: bug["id"])
def test_a_bug_is_one_by_its_own_account_and_none_of_ours(bug: dict[str, object]) -> None:
    right = bug["right"]
    assert isinstance(right, dict)
    assert isinstance(bug["came"], dict)
    assert not bugs.is_right(bug["came"], right)
    assert bugs.is_right(bugs.run(extproc_parser, bug), right)
