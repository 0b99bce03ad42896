"""The corpus keeps what docs/corpus.md promises, its judge tells right from wrong, and ours reads every row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import jsonschema_rs
import pytest

from extproc.cli import main as extproc
from extproc.corpus import Delta, Given, Report, Verdict, judge, judge_url, load
from extproc.corpus.adapters import extproc_parser
from extproc.corpus.command import main
from extproc.corpus.differences import Came, difference, is_beginning
from extproc.corpus.endpoint import answers
from extproc.corpus.judging import every_cut, fixed_cuts
from extproc.corpus.rows import (
    WrittenCall,
    digest,
    file_names,
    raw_rows,
    schema,
    versions,
    withdrawals,
    withdrawn,
)
from extproc.toolcalls import NAMED
from scripted_vllm import Reply, ScriptedVLLM
from scripted_vllm.answers import answering
from tests.corpus_rows.generate import made_rows
from tests.gateway import Gateway
from tests.generate_corpus import FOLDER, PAGE, with_counts

RAW = [row for name in file_names() for row in raw_rows(name)]

# The rows


def test_every_row_is_as_its_schema_says() -> None:
    validator = jsonschema_rs.validator_for(schema())
    assert [row["id"] for row in RAW if not validator.is_valid(row)] == []


def test_every_format_has_rows_of_every_kind() -> None:
    assert file_names() == sorted(format_.name for format_ in NAMED)
    assert all(row["format"] == name == row["id"].partition(":")[0] for name in file_names() for row in raw_rows(name))
    kinds = Counter((row["format"], row["kind"]) for row in RAW)
    assert [(name, kind) for name in file_names() for kind in ("well_formed", "cut_off") if kinds[name, kind] < 4] == []
    assert len(RAW) >= 1500


def test_no_two_rows_are_alike() -> None:
    assert [id_ for id_, number in Counter(row["id"] for row in RAW).items() if number > 1] == []
    texts = Counter((row["text"], json.dumps(row["tools"], sort_keys=True)) for row in RAW)
    assert [text for text, number in texts.items() if number > 1] == []


def test_released_rows_are_never_changed() -> None:
    released = versions()
    assert released
    for version, sha in released.items():
        assert digest(row for row in RAW if row["since"] == version) == sha, f"rows of version {version}"
    assert {row["since"] for row in RAW} <= {*released, max(released) + 1}


def test_the_digest_tells_a_changed_row() -> None:
    [row, *others] = raw_rows("hermes")
    assert digest([row, *others]) == digest([*others, row])
    assert digest([{**row, "text": row["text"] + " "}, *others]) != digest([row, *others])


def test_withdrawn_rows_are_named_with_a_reason_and_judge_nobody() -> None:
    out = withdrawn()
    ids = {row["id"] for row in RAW}
    assert set(out) <= ids
    assert len(out) == sum(len(group["rows"]) for group in withdrawals())
    assert all(group["reason"].endswith(".") and 1 < group["since"] <= max(versions()) + 1 for group in withdrawals())
    assert {row.id for row in load()} == ids - set(out)


def test_the_export_is_the_rows_that_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--export"]) == 0
    exported = [json.loads(line) for line in capsys.readouterr().out.split("\n") if line]
    validator = jsonschema_rs.validator_for(schema())
    assert all(validator.is_valid(row) for row in exported)
    assert exported == [row for row in RAW if row["id"] not in withdrawn()]


def test_no_row_comes_from_a_parser() -> None:
    sources = {row["source"]["where"] for row in RAW}
    assert [where for where in sources if "parser" in where.lower() or "vLLM" in where or "SGLang" in where] == []


def test_the_generator_has_nothing_to_add() -> None:
    """Where it would now make another row of the same id, the row that is there counts."""
    ids = {row["id"] for row in RAW}
    assert [row["id"] for row in made_rows() if row["id"] not in ids] == [], "run python -m tests.generate_corpus"


def test_the_page_counts_the_rows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_counts(page) == page, "run python -m tests.generate_corpus"


def test_the_rows_stay_small() -> None:
    assert sum(file.stat().st_size for file in (FOLDER / "formats").glob("*.jsonl")) < 850 * len(RAW)


# Ours


@pytest.mark.parametrize("name", file_names())
def test_ours_reads_every_row(name: str) -> None:
    report = judge(extproc_parser, load([name]), cuts=fixed_cuts)
    assert {verdict.id: verdict.reason for verdict in report.failures} == {}


# The judge


def silent(given: Given) -> Iterator[Delta]:
    """Takes everything for text."""
    for piece in given.pieces:
        yield {"content": piece}


def by_piece(given: Given) -> Iterator[Delta]:
    """Reads each piece as if it were the whole: right only when nothing is cut."""
    for piece in given.pieces:
        yield from extproc_parser(Given([piece], given.format, given.tools, given.prompt_opens_thinking))


def forgetful(given: Given) -> Iterator[Delta]:
    """Loses the arguments."""
    for delta in extproc_parser(given):
        if not any("arguments" in call["function"] for call in delta.get("tool_calls", ())):
            yield delta


def with_gaps(given: Given) -> Iterator[Delta]:
    """Counts calls from 1."""
    for delta in extproc_parser(given):
        calls = [{**call, "index": call["index"] + 1} for call in delta.get("tool_calls", ())]
        yield {**delta, "tool_calls": calls}


def raising(given: Given) -> Iterator[Delta]:
    raise ZeroDivisionError(given.format)


def ids(report: Report) -> set[str]:
    return {verdict.id for verdict in report.failures}


def test_wrong_parsers_fail_with_a_reason() -> None:
    rows = [row for row in load(["hermes"]) if row.kind == "well_formed"]
    calling = {row.id for row in rows if row.expected.calls}
    thinking = {row.id for row in rows if row.expected.reasoning}
    assert ids(judge(extproc_parser, rows, cuts=fixed_cuts)) == set()
    assert ids(judge(silent, rows, cuts=fixed_cuts)) == calling | thinking
    assert ids(judge(by_piece, rows, cuts=lambda text: iter([[text]]))) == set()
    assert ids(judge(by_piece, rows, cuts=fixed_cuts)) >= calling
    losing = judge(forgetful, rows, cuts=fixed_cuts)
    assert ids(losing) == calling
    assert all((verdict.reason or "").startswith("whole: arguments of ") for verdict in losing.failures)
    gaps = judge(with_gaps, rows, cuts=fixed_cuts)
    assert {verdict.reason for verdict in gaps.failures} == {"whole: DeltaError: index 1 after 0 calls"}
    assert {verdict.reason for verdict in judge(raising, rows).failures} == {"whole: ZeroDivisionError: hermes"}


def test_a_short_text_is_cut_at_every_place() -> None:
    cuts = list(every_cut("abcd"))
    assert cuts[-3:] == [["a", "bcd"], ["ab", "cd"], ["abc", "d"]]
    assert all("".join(pieces) == "abcd" for pieces in cuts)
    assert len(list(every_cut("x" * 1000))) == 4


def came(content: str, reasoning: str = "", *calls: tuple[str, str]) -> Came:
    return Came(content, reasoning, calls)


def test_what_is_right_and_what_isnt() -> None:
    (row,) = [row for row in load(["hermes"]) if row.id == "hermes:text-before"]
    content, (call,) = row.expected.content or "", row.expected.calls
    arguments = json.dumps(dict(call.arguments))
    right = (call.name, arguments)
    assert difference(row, came(content + "\n\n", "", right)) is None
    assert (
        difference(row, came(content, "", (call.name, json.dumps(dict(reversed([*call.arguments.items()])))))) is None
    )
    for wrong in (
        came(content + "<tool_call>", "", right),
        came("", content, right),
        came(content, "", right, right),
        came(content),
        came(content, "", ("search", arguments)),
        came(content, "", (call.name, arguments[:-1])),
        came(content, "", (call.name, arguments.replace(str(call.arguments["days"]), '"many"'))),
    ):
        assert difference(row, wrong), wrong


_BEGINNINGS = ("", "{", '{"', '{"ci', '{"city"', '{"city":', '{"city": "Pa', '{"city": "Pa\\', '{"city": "Paris", "l')
_MORE = ('{"city": "Paris", "l": [1, 2', '{"l": [1], "b": tr')
_OTHERS = ('{"city": "London', '{"other": 1', '{"l": [2', "nonsense", '{"city": "Paris, T"}')


@pytest.mark.parametrize(
    ("text", "begins"),
    [*((text, True) for text in (*_BEGINNINGS, *_MORE)), *((text, False) for text in _OTHERS)],
)
def test_a_call_that_was_cut_off_is_no_more_than_its_beginning(text: str, begins: bool) -> None:
    call = WrittenCall("f", {"city": "Paris", "l": [1, 23], "b": True})
    assert is_beginning(text, call) is begins


# The command


def test_the_command_prints_scores(capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["--row", "hermes:an-answer", "--row", "hermes:one-call"]
    assert main(["--parser", f"{__name__}:silent", *rows, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert [failure["id"] for failure in said["failures"]] == ["hermes:one-call"]
    assert said["scores"]["hermes"]["well_formed"] == {"rows": 2, "passed": 1, "whole": 1, "streamed": 1, "cut": 1}
    assert main(["--parser", f"{__name__}:silent", *rows]) == 1
    assert "FAIL hermes:one-call: whole: calls: [] for ['get_weather']" in capsys.readouterr().out
    assert main(["--parser", "extproc", "--row", "hermes:one-call"]) == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--parser", "nothing"], "'nothing' is no MODULE:FUNCTION"),
        (["--parser", "json:parse"], "no parser json:parse"),
        (["--parser", "extproc", "--format", "morse"], "no rows for morse"),
        (["--parser", "extproc", "--row", "x"], "no such rows"),
        (["--url", "file:///x", "--row", "hermes:one-call"], "is no http URL"),
    ],
)
def test_the_command_says_why_it_judged_nothing(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert complaint in capsys.readouterr().err


def test_it_is_a_command_of_extproc_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert extproc(["conformance", "tools", "--parser", "extproc", "--row", "hermes:one-call"]) == 0
    assert "| `hermes` | 1/1 |" in capsys.readouterr().out
    assert extproc(["conformance", "tools", "--parser", f"{__name__}:silent", "--row", "hermes:one-call"]) == 1
    assert extproc(["conformance", "tools", "--parser", "nothing"]) == 2
    with pytest.raises(SystemExit) as end:
        extproc(["conformance", "tools", "http://127.0.0.1:1/v1", "--parser", "extproc"])
    assert end.value.code == 2
    assert "not allowed with argument URL" in capsys.readouterr().err


def test_its_help_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        extproc(["conformance", "tools", "--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert "usage: extproc conformance tools" in said
    assert "Exit status: 0, every row passed; 1, one didn't; 2, nothing could be judged." in said


# Over HTTP


def test_a_server_is_judged_by_what_it_makes_of_the_texts() -> None:
    """A vLLM without a tool parser gives the text back: right where there is neither a call nor thinking."""
    rows = [row for row in load(["hermes"]) if row.kind == "well_formed"]
    known = {one.pop("to"): Reply(**one) for one in answers(rows)}
    with ScriptedVLLM("m", tool_parser=True, speak=answering(known)).running() as server:
        report = judge_url(f"{server.url}/v1", rows, model="m")
    assert len(report.verdicts) == sum(not row.prompt_opens_thinking for row in rows)
    plain = {row.id for row in rows if not row.expected.calls and not row.expected.reasoning}
    assert {verdict.id for verdict in report.verdicts if verdict.passed} == plain


def test_ours_is_right_over_http_too(gateway: Gateway) -> None:
    rows = [row for row in load(["hermes"]) if row.kind in ("well_formed", "cut_off")]
    verdicts: list[Verdict] = []
    for row in rows:
        gateway.backend.play(*(Reply(row.text) for _ in ("whole", "streamed")))
        verdicts += judge_url(f"{gateway.url}/v1", [row], model="coder").verdicts
        gateway.backend.forget()
    report = Report(tuple(verdicts))
    assert {verdict.id: verdict.reason for verdict in report.failures} == {}
    assert len(report.verdicts) >= 15


def test_a_server_that_is_not_there_is_not_judged() -> None:
    assert main(["--url", "http://127.0.0.1:1/v1", "--row", "hermes:one-call"]) == 2
    assert extproc(["conformance", "tools", "http://127.0.0.1:1/v1", "--row", "hermes:one-call"]) == 2
