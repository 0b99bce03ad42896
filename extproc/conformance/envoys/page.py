"""What was measured with real Envoys, as a page: docs/conformance-envoys.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extproc.conformance.envoys.lab import Measured
from extproc.conformance.verdicts import Report, Verdict

Lab = Mapping[str, Sequence[Measured]]
"""By release."""
SIMULATED = "simulated"
"""The simulated host's own report, beside those of the releases."""
SAME = "the same"
"""As in the release before."""
DIFFERS = "Envoy isn't as simulated"


def page(
    date: str,
    command: str,
    lab: Lab,
    reference: Mapping[str, Report],
    servers: Mapping[str, Mapping[str, Report]],
    apart: str,
) -> str:
    """`servers` are others than the reference, by name; each has a report for every release, and one of SIMULATED.
    `apart` says how they were started, in a sentence."""
    releases, suite = list(lab), reference[SIMULATED].suite
    lines = [
        "# What real Envoys make of it",
        "",
        f"Measured on {date} by `{command}`, which writes this page: real clients and upstreams, real Envoys",
        f"({', '.join(releases)}), and servers of the [conformance suite](conformance.md), version {suite}.",
        "",
        "## Faults",
        "",
        "The reference server with one small misbehaviour each, and what client and upstream notice. Several effects",
        "in one cell: it depends on what is on its way.",
        "",
        *_table(["invariant", "fault", *releases], _faults(lab)),
        "",
        "## Simulated host and Envoy",
        "",
        "The same exchanges in both, with the same server: how the exchange ends, the messages that the server gets,",
        "and the status, headers, bodies and trailers that client and upstream get.",
        "",
        *_table(
            ["Envoy", "faults", *(f"cases, {name}" for name in ("reference", *servers))],
            _agreement(lab, reference, servers),
        ),
        "",
        "## Servers",
        "",
        "Verdicts of the cases that each host can play. With an Envoy a case fails too where it isn't as simulated.",
        apart,
        "",
        *_table(
            ["server", "host", *(verdict.value for verdict in Verdict), "which fail", "which are warned of"],
            _verdicts(servers),
        ),
        "",
        "## Played by the simulated host alone",
        "",
        "Messages that the suite writes itself (LIV, UNK) aren't played through an Envoy, though Envoys send many of",
        "them too.",
        "",
        *_table(["case", "why"], _alone(reference)),
    ]
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _faults(lab: Lab) -> list[list[str]]:
    first, *_ = lab.values()
    rows = []
    for at, found in enumerate(first):
        cells = ["; or ".join(measured[at].effects) for measured in lab.values()]
        cells = [cell if not before or cell != cells[before - 1] else SAME for before, cell in enumerate(cells)]
        rows.append([found.fault.invariant, f"{found.fault.name} ({found.fault.settings.layout})", *cells])
    return rows


def _agreement(
    lab: Lab, reference: Mapping[str, Report], servers: Mapping[str, Mapping[str, Report]]
) -> list[list[str]]:
    rows = []
    for release, measured in lab.items():
        agree = sum(each.differs is None for each in measured)
        cells = [_agreeing(reports[release]) for reports in (reference, *servers.values())]
        rows.append([release, f"{agree} of {len(measured)} agree", *cells])
    return rows


def _agreeing(report: Report) -> str:
    played = [each for each in report.results if each.verdict is not Verdict.SKIP]
    agree = sum(not each.finding.reason.startswith(DIFFERS) and DIFFERS not in each.finding.reason for each in played)
    return f"{agree} of {len(played)} agree"


def _verdicts(servers: Mapping[str, Mapping[str, Report]]) -> list[list[str]]:
    rows = []
    for name, reports in servers.items():
        for release, report in reports.items():
            failed, warned = (
                [each.id for each in report.results if each.verdict is verdict]
                for verdict in (Verdict.FAIL, Verdict.WARN)
            )
            host = "simulated" if release == SIMULATED else f"Envoy {release}"
            counts = [str(report.count(verdict)) for verdict in Verdict]
            rows.append([name, host, *counts, ", ".join(failed) or "none", ", ".join(warned) or "none"])
    return rows


def _alone(reference: Mapping[str, Report]) -> list[list[str]]:
    """With the releases for which it is so, unless it is so for all."""
    played = {each.id for each in reference[SIMULATED].results if each.verdict is not Verdict.SKIP}
    where: dict[tuple[str, str], list[str]] = {}
    for release, report in reference.items():
        for each in report.results:
            if release != SIMULATED and each.verdict is Verdict.SKIP and each.id in played:
                reason = each.finding.reason.rpartition(": ")[2]
                where.setdefault((each.id, reason), []).append(release)
    everywhere = len([release for release in reference if release != SIMULATED])
    return [
        [case, reason if len(releases) == everywhere else f"{reason} ({', '.join(releases)})"]
        for (case, reason), releases in sorted(where.items())
    ]
