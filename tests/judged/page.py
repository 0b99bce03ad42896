"""docs/conformance-others.md, made of page.md, results.json and findings.py."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from extproc.conformance.invariants import BY_ID
from extproc.conformance.reports.matrix import COLUMNS, ROWS
from extproc.conformance.verdicts import Verdict
from tests.checkout import UNKNOWN
from tests.judged.findings import FINDINGS, Finding
from tests.judged.servers import SERVERS, Judged

RESULTS = Path(__file__).with_name("results.json")
_TEXT = Path(__file__).with_name("page.md")
PAGE = Path(__file__).parents[2] / "docs" / "conformance-others.md"
_VERDICTS = (Verdict.FAIL, Verdict.WARN, Verdict.REFUSES, Verdict.SKIP, Verdict.PASS)
_NAMED = {
    "envoy_extproc_sdk": ("envoy-extproc-sdk", "ddtrace", "xds-protos", "grpcio"),
    "gcp_callouts": ("xds-protos", "grpcio"),
    "glovebox": ("glovebox-egress-gateway", "grpcio"),
}
_COMMITS = {
    "b20e6c10532fdc220fbe61be151eb9e9876fafe05269dc53ea3a699b697a0d1f": "063329770ba3",
    "b5cb1673dcb2577bac894a448ee6f86ca8be0c5826ed2ac5462c56c1e98bb246": "42b497434299",
    "5439178c7e71bdd152c0e32bdbe844ca36359ca8b4dacc4ab2ee83bff9014d5a": "4f3199922c88",
}
"""A commit at which a file with this SHA-256 is so, as far as that is known."""
Found = Mapping[str, Any]


def summary(found: Found) -> str:
    return ", ".join(f"{found['counts'][each.value]} {each.value}" for each in _VERDICTS if found["counts"][each.value])


def page(found: Mapping[str, Found]) -> str:
    servers = [server for name, server in SERVERS.items() if name in found]
    digests: Mapping[str, str] = next((told["sha256"] for told in found.values() if told["sha256"]), {})
    parts = {
        "{table}": _table(servers, found),
        "{digests}": _digests(digests),
        "{findings}": _findings(found),
        "{rows}": (line for server in servers for line in _row(server, found[server.name])),
    }
    text = _TEXT.read_text(encoding="utf-8")
    for place, lines in parts.items():
        text = text.replace(place, "\n".join(lines).strip())
    return text


def _table(servers: list[Judged], found: Mapping[str, Found]) -> Iterator[str]:
    heads = ["server", "profiles", *(each.value for each in _VERDICTS), "behind Envoy", "date", "again"]
    yield f"| {' | '.join(heads)} |"
    yield "| " + " | ".join("---" for _ in heads) + " |"
    for server in servers:
        told = found[server.name]
        agree = sum(row["differs"] is None for row in told["behind envoy"])
        cells = [
            f"[{server.title}: {server.what}](#{server.name})",
            ", ".join(told["profiles"]),
            *(str(told["counts"][each.value]) for each in _VERDICTS),
            f"{agree} of {len(told['behind envoy'])} as foretold",
            told["date"],
            f"`{server.command}`",
        ]
        yield f"| {' | '.join(cells)} |"


def _digests(digests: Mapping[str, str]) -> Iterator[str]:
    yield "| file | commit | SHA-256 |"
    yield "| --- | --- | --- |"
    for name, digest in digests.items():
        commit = f"`{_COMMITS[digest]}`" if digest in _COMMITS else "not known"
        yield f"| `{name}` | {commit} | `{digest}` |"


def _findings(found: Mapping[str, Found]) -> Iterator[str]:
    for number, finding in enumerate(FINDINGS, 1):
        yield f"### {number}. {finding.project}: {finding.invariant or finding.case}"
        yield ""
        yield from _told("Sent", finding.sent)
        yield from _told("Came", finding.came)
        yield from _told("Right", finding.right)
        yield from _told("What a user sees", finding.seen)
        yield from _told("Shown by", f"`{SERVERS[finding.servers[0]].command}`, {finding.case}")
        yield from _told("Behind Envoy", _behind(finding, found))
        yield ""


def _told(what: str, words: str) -> list[str]:
    return textwrap.wrap(
        f"- {what}: {words}", 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _behind(finding: Finding, found: Mapping[str, Found]) -> str:
    if finding.envoy is None:
        return "not tried"
    what, status, whole = finding.envoy
    envoy = found[finding.servers[0]]["envoy"]
    row = next(row for row in found[finding.servers[0]]["behind envoy"] if what in (row["layout"], row["what"]))
    empty = f", and empty: {', '.join(row['headers set to nothing'])}" if row["headers set to nothing"] else ""
    return f"Envoy {envoy}, {what}: {status}{'' if whole else ', and the response breaks off'}{empty}"


def _row(server: Judged, told: Found) -> Iterator[str]:
    versions = ", ".join(f"{name} {told['versions'][name]}" for name in _NAMED[server.requirements])
    yield from ("", f'<a id="{server.name}"></a>', "", f"### {server.title}: {server.what}", "")
    yield f"{versions}; suite {told['suite']} ({told.get('commit', UNKNOWN)}), Envoy {told['envoy']}. {summary(told)}."
    yield ""
    layouts = {result["layout"]: result["verdict"] for result in told["results"] if result["layout"]}
    yield "| request \\ response | " + " | ".join(COLUMNS) + " |"
    yield "| --- |" + " --- |" * len(COLUMNS)
    for row in ROWS:
        yield f"| {row} | " + " | ".join(layouts[f"{row}/{column}"] for column in COLUMNS) + " |"
    yield ""
    yield from _causes(told)


def _causes(told: Found) -> Iterator[str]:
    """What failed or was warned of, by cause: an invariant, or the case's own reason."""
    bad = [result for result in told["results"] if result["verdict"] in ("FAIL", "WARN")]
    for id_ in sorted({id_ for result in bad for id_ in result["invariants"]}):
        cases = [result["id"] for result in bad if id_ in result["invariants"]]
        number = f"{len(cases)} {'case' if len(cases) == 1 else 'cases'}"
        yield f"- {id_} ({BY_ID[id_].level.value}), in {number}: {BY_ID[id_].text}."
        yield from textwrap.wrap(", ".join(cases) + ".", 120, initial_indent="  ", subsequent_indent="  ")
    for result in bad:
        if not result["invariants"]:
            yield f"- {result['id']} ({result['verdict']}): {_cell(result['reason'])}."


def _cell(words: str) -> str:
    """A server's words, on one line."""
    return " ".join(words.split())[:240].replace("<", "&lt;").replace("|", "\\|")
