"""docs/performance.md and its pictures, made of one run's results: the same numbers give the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.gateways.bodies import SHAPES
from bench.gateways.charts import Bars, Lines, number
from bench.gateways.goals import GOALS
from bench.gateways.paced import PACE
from bench.gateways.plan import FIRST, MEMORY_STREAMS, TENTH, WAYS
from bench.gateways.results import Results, Row
from bench.gateways.ways import ENVOYS, PROCESSOR, PROXY

DOCS = Path(__file__).parents[2] / "docs"
NAME, PICTURES = "performance.md", "pictures"
_TITLES = {way.name: way.title for way in WAYS}
_REQUESTS = {FIRST: "first request", TENTH: "tenth request"}
_FEWEST = 1000
"""Answers that a p99.9 needs."""


def write(found: Mapping[str, Any], docs: Path) -> None:
    """Write the page and its pictures into this directory."""
    for path, text in files(found).items():
        target = docs / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def files(found: Mapping[str, Any]) -> dict[str, str]:
    """The page and its pictures, by their paths within docs/."""
    results = Results(found)
    pictures = {f"{PICTURES}/{name}.svg": chart.svg() for name, chart in charts(results).items()}
    return {NAME: page(results), **pictures}


def page(results: Results) -> str:
    found, drawn = results.found, charts(results)
    sections = [
        _INTRODUCTION.format(rounds=_count(found["rounds"], "round"), date=found["date"], minutes=found["minutes"]),
        _QUICK if found["rounds"] == 1 else "",
        _machine(found["machine"]),
        "## What has to hold\n\n" + _goals(results),
        "## Whole answers\n\n"
        + _WHOLE.strip()
        + _picture(drawn, "answers", "p50 of whole answers")
        + _picture(drawn, "rate", "answers a second"),
        *(_whole(results, shape, request) for shape, request in _loads(results)),
        "## Streams\n\n" + _STREAMS.strip() + _picture(drawn, "tokens", "processor time of a token"),
        _streams(results),
        _picture(drawn, "delay", "p99 of how long a token is under way"),
        "## Memory\n\n"
        + _MEMORY.format(streams=MEMORY_STREAMS, more=2 * MEMORY_STREAMS).lstrip()
        + "\n"
        + _memory(results),
        "## How the cost of a request grows\n\n"
        + _GROWTH.strip()
        + _picture(drawn, "growth", "milliseconds over kilobytes"),
        _prepare(results),
        _missing(results),
        _HOW,
    ]
    return "\n\n".join(section.strip() for section in sections if section.strip()) + "\n"


def charts(results: Results) -> dict[str, Bars | Lines]:
    """By the name of the file; those for which there are numbers."""
    answers = {f"{SHAPES[s].title}, {_REQUESTS[r]}": _each(results, s, r, 1) for s, r in _loads(results)}
    rates = {f"{SHAPES[s].title}": _each(results, s, r, 16) for s, r in _loads(results) if s == "17k" or r == TENTH}
    most = _most(results)
    rows = {way: row for way in _TITLES if (row := results.streams(way, most)) and row.cpu()}
    tokens = {
        "the gateway's processes without Envoy": {
            _TITLES[way]: value for way, row in rows.items() if (value := _cost(row, PROCESSOR) or _cost(row, PROXY))
        },
        "Envoy": {_TITLES[way]: value for way, row in rows.items() if (value := _cost(row, ENVOYS))},
    }
    delays = {
        _TITLES[way]: [
            (many, max(row.median("p99"), 0.1))
            for many in results.counts("streams", "streams")
            if (row := results.streams(way, many))
        ]
        for way in ("direct", "echo", "prompt", "native", "fastapi", "litellm", "agentic-api")
    }
    prepared = sorted(results.found["prepare"], key=lambda row: float(row["kB"]))
    growth = {
        "50 tools, more and more turns": [(row["kB"], row["whole"]) for row in prepared if row["tools"] == 50],
        "10 turns, more and more tools": [(row["kB"], row["whole"]) for row in prepared if row["turns"] == 10],
    }
    order = list(_TITLES.values())
    made: dict[str, Bars | Lines] = {
        "answers": Bars(
            "Whole answers, one connection: p50",
            "milliseconds",
            {
                name: {way: row.median("p50") / 1e3 for way, row in rows.items()}
                for name, rows in answers.items()
                if rows
            },
            order,
        ),
        "rate": Bars(
            "Whole answers, 16 connections",
            "a second",
            {name: {way: row.rate for way, row in rows.items()} for name, rows in rates.items() if rows},
            order,
        ),
        "tokens": Bars(f"Processor time of a token, {most} streams", "microseconds", tokens, order, logarithmic=False),
        "delay": Lines(
            "How long a token is under way: p99",
            "streams at once",
            "milliseconds",
            {name: line for name, line in delays.items() if len(line) > 1},
        ),
        "growth": Lines("Preparing a request in prompt mode", "kilobytes", "milliseconds of processor time", growth),
    }
    return {name: chart for name, chart in made.items() if any(chart.series.values())}


def _goals(results: Results) -> str:
    rows = []
    for goal in GOALS:
        value = goal.measured(results)
        said = "not measured" if value is None else number(value)
        held = "" if value is None else ("yes" if goal.held(value) else "**no**")
        rows.append(f"| {goal.said} | {'at least' if goal.least else 'at most'} {goal.limit:g} | {said} | {held} |")
    return "| ratio within the run | has to be | is | held |\n| --- | --- | --: | --- |\n" + "\n".join(rows)


def _loads(results: Results) -> list[tuple[str, str]]:
    """Shapes and requests that were measured."""
    found = {(row["shape"], row["request"]) for row in results.found["whole"]}
    return [(shape, request) for shape in SHAPES for request in _REQUESTS if (shape, request) in found]


def _each(results: Results, shape: str, request: str, connections: int) -> dict[str, Row]:
    """Ways by their titles, as far as they were measured."""
    rows = ((title, results.whole(way, shape, request, connections)) for way, title in _TITLES.items())
    return {title: row for title, row in rows if row}


def _whole(results: Results, shape: str, request: str) -> str:
    counts = results.counts("whole", "connections", shape=shape, request=request)
    head = [f"{_count(many, 'connection')}: p50 / p99 / p99.9 ms" for many in counts]
    shown = next((many for many in (16, *reversed(counts)) if many in counts), 1)
    head += [f"answers a second, {_count(shown, 'connection')}", "CPU us per answer", "of which Envoy"]
    lines = [
        f"### {SHAPES[shape].title}: {_REQUESTS[request]}",
        "",
        _row(["", *head]),
        "| --- |" + " --: |" * len(head),
    ]
    for way, title in _TITLES.items():
        rows = [results.whole(way, shape, request, many) for many in counts]
        row = results.whole(way, shape, request, shown)
        if any(rows):
            told = [number(row.rate), _micro(row.cpu()), _micro(_cost(row, ENVOYS))] if row else [""] * 3
            lines.append(_row([title, *(_times(one) for one in rows), *told]))
    return "\n".join(lines)


def _times(row: Row | None) -> str:
    if row is None:
        return ""
    last = number(row.median("p99_9") / 1e3) if row.fewest >= _FEWEST else "-"
    return f"{number(row.median('p50') / 1e3)} / {number(row.median('p99') / 1e3)} / {last}"


def _streams(results: Results) -> str:
    counts, most = results.counts("streams", "streams"), _most(results)
    busy = [many for many in counts if many > 1]  # a single stream takes too little time to be told from the rest
    head = [f"CPU us per token, {many} streams (of which Envoy)" for many in busy]
    head += [f"{_count(many, 'stream')}: p50 / p99 / p99.9 ms" for many in counts]
    lines = [_row(["", *head, "streams in a core"]), "| --- |" + " --: |" * (len(head) + 1)]
    for way, title in _TITLES.items():
        rows = {many: results.streams(way, many) for many in counts}
        if any(rows.values()):
            row = rows[most] or next(row for row in reversed(rows.values()) if row)
            costs = [_token_cost(rows[many]) for many in busy]
            busiest = number(1e6 / PACE / _cost(row, "busiest")) if _cost(row, "busiest") else ""
            lines.append(_row([title, *costs, *(_delays(results, way, many) for many in counts), busiest]))
    return "\n".join(lines)


def _token_cost(row: Row | None) -> str:
    if row is None or not row.cpu():
        return ""
    envoy = _cost(row, ENVOYS)
    return f"{number(row.cpu())} ({number(envoy)})" if envoy else number(row.cpu())


def _delays(results: Results, way: str, many: int) -> str:
    if row := results.streams(way, many):
        return " / ".join(number(row.median(name)) for name in ("p50", "p99", "p99_9"))
    tried = any(row["way"] == way and row["streams"] == many for row in results.found["streams"])
    return "can't keep up" if tried else ""


def _memory(results: Results) -> str:
    names = ("idle_mb", "new_kb", "stream_kb")
    titles = ["", "process", "idle, MB", "a stream of a new conversation, kB", "one of a known conversation, kB"]
    lines = [_row(titles), "| --- | --- | --: | --: | --: |"]
    lines += [
        _row([_TITLES[row["way"]], row["process"], *(number(row[name]) if name in row else "" for name in names)])
        for row in results.found["memory"]
    ]
    return "\n".join(lines)


def _prepare(results: Results) -> str:
    names = ("tools", "turns", "kB", "decode", "check", "whole")
    lines = [_row(["tools", "turns", "kB", "decoding, ms", "finding mistakes, ms", "the whole way, ms"])]
    lines.append("|" + " --: |" * len(names))
    lines += [_row([number(row[name]) for name in names]) for row in results.found["prepare"]]
    return "\n".join(lines)


def _machine(facts: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    cores = f"{facts['cores']} cores ({facts['processor']})"
    return f"The machine: {cores}, {facts['system']}, load {facts['load']} before the run.\n{versions}."


def _missing(results: Results) -> str:
    told = [f"- {_TITLES.get(name, name)}: `{why}`" for name, why in results.found["missing"].items()]
    for where in ("whole", "streams"):
        for row in results.found[where]:
            if "failed" in row:
                load = f"{row['streams']} streams" if where == "streams" else f"{row['shape']} {row['request']}"
                told.append(f"- {_TITLES[row['way']]}, {load}: `{row['failed']}`")
    return "## What couldn't be measured\n\n" + "\n".join(told) if told else ""


def _most(results: Results) -> int:
    return int(max(results.counts("streams", "streams", way="native"), default=1))


def _cost(row: Row, name: str) -> float:
    return row.median(f"{name} us") if row.has(f"{name} us") else 0.0


def _micro(value: float) -> str:
    return number(value) if value else ""


def _count(many: int, what: str) -> str:
    return f"{many} {what}{'' if many == 1 else 's'}"


def _picture(drawn: Mapping[str, object], name: str, words: str) -> str:
    return f"\n\n![{words}]({PICTURES}/{name}.svg)" if name in drawn else ""


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


_INTRODUCTION = """
# Performance

What this gateway costs beside its peers, all measured in one run by `make bench`, which sets up what it needs and
writes this page from `bench/results`: {rounds}, {minutes} minutes on {date}. All ways take turns in each round;
numbers are medians of the rounds. Backend, load generator and gateway share the machine, so only ratios within the
run say something elsewhere: times, and even more answers a second, are those of all three together.
"""
_QUICK = "**This was a quick run on a machine that other work kept busy: it shows what is measured, and no more.**"
_WHOLE = """
A backend that answers at once, and requests one after the other by each of so many connections, from `wrk`. In the
*first* request of a conversation nothing is as it was in any other: the system prompt and each tool's description
have a number of their own. The *tenth* goes on from nine others that were sent before, with a last message of its
own. Where a round had fewer than 1,000 answers there is no p99.9. Processor time is that of all the gateway's
processes.
"""
_STREAMS = """
Answers of 45 tokens a second, half of them inside of a call in hermes' markup (for `native` and LiteLLM in
`tool_calls`); requests of 41 kB with 25 tools, or 17 kB without. Each token carries the time at which it left the
backend; how long it was under way includes the client's part and the backend's, as the row without a gateway shows.
Processor time is read while all streams run: their beginnings aren't in it. The last column is how many such streams
would fill a core with the busiest process, Envoy apart.
"""
_MEMORY = """
Resident memory of a fresh gateway, its workers included; what each of {streams} streams adds whose conversations are
new, with all that is kept of them for their next requests; and what each of {more} more streams of the same
conversations adds.
"""
_GROWTH = """
From a client's bytes to the backend's, in this process, in prompt mode and without anything that was remembered: with
the number of tools, of turns, and so of bytes.
"""
_HOW = """
## How it is measured

- All gateways run all the time; only one has something to do. Processor time is the kernel's, of each process with its
  children. Envoy has two workers, every other gateway one process unless it says otherwise.
- Envoy alone: our configuration without the processor. The processor that does nothing (`bench/gateways/echo.py`) gives
  each piece back as it came. FastAPI (`bench/gateways/fastapi_proxy.py`) has uvloop, httptools and httpx, and passes
  everything on without a look. LiteLLM checks no keys and writes no logs. agentic-api is built for Responses; a chat
  completion it passes on, which is what is measured here.
- wrk corrects its times for requests that it couldn't send because it was waiting (coordinated omission).
- The backend is one process (`bench/gateways/paced.py`): the row without a gateway is what it can do.
"""
