"""docs/tools-conformance.md, made of the results: the same numbers give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.parsers import bugs, results
from extproc.corpus.rows import KINDS, file_names
from tests.checkout import UNKNOWN
from tests.corpus_rows.sources import SOURCES

PAGE = Path(__file__).parents[2] / "docs" / "tools-conformance.md"

_PARSERS = {"extproc": "ours", "vllm": "vLLM", "sglang": "SGLang", "mlx-lm": "mlx-lm", "transformers": "transformers"}
_GATEWAYS = {"extproc-gateway": "ours", "litellm": "LiteLLM proxy", "agentic-api": "agentic-api"}
_GATEWAY_WAYS = ("whole", "streamed")
_PLACES = {"vllm": "vLLM", "sglang": "SGLang", "mlx-lm": "mlx-lm", "transformers": "transformers"}

Found = Mapping[str, Mapping[str, Any]]


def write() -> None:
    PAGE.write_text(page(results.read(), bugs.read()), encoding="utf-8")


def page(found: Found, known: Sequence[Mapping[str, Any]]) -> str:
    """All of it. What wasn't judged yet is left out."""
    parsers = {name: title for name, title in _PARSERS.items() if name in found}
    gateways = {name: title for name, title in _GATEWAYS.items() if name in found}
    sections = [
        _INTRODUCTION.format(versions=_versions(found)),
        "## Parsers\n\n" + _PARSERS_SAY.strip() + "\n\n" + _lines(_summary(found, parsers)),
        "### Well-formed texts, format by format\n\n" + _FORMATS_SAY.strip() + "\n\n" + _lines(_matrix(found, parsers)),
        *(_one(found[name], title, results.WAYS) for name, title in parsers.items()),
        "## Gateways\n\n" + _GATEWAYS_SAY.strip() + "\n\n" + _lines(_gateways(found, gateways)),
        "## Bugs\n\n" + _BUGS_SAY.strip() + "\n\n" + "\n\n".join(_bugs(known)),
    ]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _versions(found: Found) -> str:
    named = {name: one["versions"] for name, one in found.items() if name in _PLACES or name in _GATEWAYS}
    pairs = {f"{package} {version}" for versions in named.values() for package, version in versions.items()}
    runs = [(name, run) for name, one in found.items() for run in one["judged"].values()]
    dates = sorted({run["date"] for _, run in runs})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"Judged on {when}: {', '.join(sorted(pairs, key=str.lower))}.\n{_commits(found)}"


def _commits(found: Found) -> str:
    """Which commits of this checkout had the corpus, the judge, what drives the parsers, and our own parser."""
    by_commit: dict[str, list[str]] = {}
    for name, one in found.items():
        formats: dict[str, list[str]] = {}
        for format_, run in one["judged"].items():
            formats.setdefault(run["commit"] or UNKNOWN, []).append(format_)
        for commit, those in formats.items():
            some = f" ({', '.join(f'`{format_}`' for format_ in those)})" if len(formats) > 1 and len(those) < 5 else ""
            by_commit.setdefault(commit, []).append(f"`{name}`{some}")
    told = "; ".join(f"{', '.join(names)} with {commit}" for commit, names in sorted(by_commit.items()))
    return f"What judges and what drives them is this checkout, and so is ours: {told}"


# Scores


def cell(score: Mapping[str, int] | None, ways: Sequence[str] = results.WAYS) -> str:
    """So many rows right in each way, of so many; one number where they agree."""
    if not score:
        return ""
    counts = [score[way] for way in ways]
    shown = str(counts[0]) if len(set(counts)) == 1 else "·".join(map(str, counts))
    return f"{shown}/{score['rows']}"


def added(scores: Iterable[Mapping[str, int] | None]) -> dict[str, int]:
    total: dict[str, int] = {}
    for score in scores:
        for name, number in (score or {}).items():
            total[name] = total.get(name, 0) + number
    return total


def _summary(found: Found, titles: Mapping[str, str]) -> Iterator[str]:
    yield f"| parser | formats | {' | '.join(KINDS)} | ours in these formats: well_formed |"
    yield "| --- | --: |" + " --: |" * (len(KINDS) + 1)
    ours = found["extproc"]["scores"] if "extproc" in found else {}
    for name, title in titles.items():
        scores = found[name]["scores"]
        cells = [cell(added(scores[format_].get(kind) for format_ in scores)) for kind in KINDS]
        same = cell(added(ours.get(format_, {}).get("well_formed") for format_ in scores))
        yield f"| {title} | {len(scores)} | {' | '.join(cells)} | {same} |"


def _matrix(found: Found, titles: Mapping[str, str]) -> Iterator[str]:
    yield f"| format | {' | '.join(titles.values())} |"
    yield "| --- |" + " --: |" * len(titles)
    for format_ in file_names():
        scores = [found[name]["scores"].get(format_, {}).get("well_formed") for name in titles]
        yield f"| `{format_}` | {' | '.join(map(cell, scores))} |"


def _one(one: Mapping[str, Any], title: str, ways: Sequence[str]) -> str:
    lines = [
        f"| format | as | {' | '.join(KINDS)} | again |",
        "| --- | --- |" + " --: |" * len(KINDS) + " --- |",
    ]
    for format_, scores in one["scores"].items():
        cells = [cell(scores.get(kind), ways) for kind in KINDS]
        again = f"`python -m bench.parsers {one['name']} --format {format_}`"
        lines.append(f"| `{format_}` | `{one['formats'][format_]}` | {' | '.join(cells)} | {again} |")
    return f"### {title[0].upper() + title[1:]}\n\n" + _lines(lines)


def _gateways(found: Found, titles: Mapping[str, str]) -> Iterator[str]:
    yield f"| gateway | {' | '.join(KINDS)} | again |"
    yield "| --- |" + " --: |" * len(KINDS) + " --- |"
    for name, title in titles.items():
        scores = found[name]["scores"]
        cells = [cell(added(one.get(kind) for one in scores.values()), _GATEWAY_WAYS) for kind in KINDS]
        yield f"| {title} | {' | '.join(cells)} | `python -m bench.parsers {name}` |"


# Bugs


def _bugs(known: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    causes = dict.fromkeys(bug["cause"] for bug in known)
    for cause in causes:
        shown = [_bug(bug) for bug in known if bug["cause"] == cause]
        yield f"**{cause}.**\n\n" + "\n".join(shown)


def _bug(bug: Mapping[str, Any]) -> str:
    several = f"streamed, {bug['way']} characters a delta"
    how = {"whole": "not streamed", "streamed": "streamed"}.get(bug["way"], several)
    opened = ", the prompt having begun the thinking" if bug.get("prompt_opens_thinking") else ""
    source = SOURCES[bug["format"]].where
    return (
        f"- {_PLACES[bug['project']]} {bug['version']}, `{bug['format']}`, {how}{opened} (`{bug['id']}`)\n"
        f"  - text: {_code(bug['text'])}\n"
        f"  - came: {_outcome(bug['came'])}\n"
        f"  - right: {_outcome(bug['right'])}, by {source}"
    )


def _outcome(what: Mapping[str, Any]) -> str:
    if "error" in what:
        return f"an exception: {_code(what['error'])}"
    parts = [f"{part} {_code(what[part])}" for part in ("reasoning", "content") if what[part].strip()]
    parts += [
        f"the call `{name}` with {_code(arguments if isinstance(arguments, str) else json.dumps(arguments))}"
        for name, arguments in what["calls"]
    ]
    return ", ".join(parts) or "nothing"


def _code(text: str) -> str:
    shown = text.replace("\n", "\\n")
    fence = "``" if "`" in shown else "`"
    pad = " " if fence == "``" else ""
    return f"{fence}{pad}{shown}{pad}{fence}" if shown else "the empty string"


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines)


_INTRODUCTION = """
# How others read tool calls

The [tool-call corpus](corpus.md) put to the parsers of vLLM, SGLang, mlx-lm and transformers, to gateways, and to
ours.
{versions}.

The page is made by `python -m bench.parsers NAME ... --keep`, from the files in `bench/parsers/results`. What isn't
installed is installed first, in pinned versions, outside of the checkout. To judge an installation of your own:

```bash
extproc conformance tools --parser vllm --python ~/my-vllm/bin/python --format hermes
```

A cell holds how many rows were right, of how many: **whole** (the answer isn't streamed), **streamed** (one character
at a time) and **cut** (in pieces of 3 and of 16 characters, and short texts cut in two at every place), in this order
where they differ: `13·12·4/14`.
"""

_PARSERS_SAY = """
Each is judged in the formats that it claims, and driven as its own server drives it: vLLM's `ParserManager` with
`parse` and `parse_delta`, which stands for the older parsers and the newer engine alike; SGLang's
`FunctionCallParser` behind its `ReasoningParser`; mlx-lm's text machine and formatter; the templates that
`transformers serve` has for models without one of their own. What they get:

- **Tokens.** A control token always comes whole, whatever else is cut, with its id where a parser asks for ids. Other
  text comes in tokens of one character, so cuts are anywhere: `streamed` is one small token in each delta, and `cut`
  what comes when a delta holds several tokens (speculative decoding, `--stream-interval`, a client or proxy that
  lags).
- **Thinking.** The project's own parser of thinking goes along where the model thinks: where the prompt has begun it,
  or the text does. The prompt's end, and `chat_template_kwargs`, say the same. Where a project has none for a format,
  DeepSeek-R1's or Qwen3's reads `<think>`.
- **The end.** SGLang's detokenizer keeps `<|call|>` of gpt-oss, and puts a space between InternLM's special tokens:
  so does the text that it gets.

Ours is held to every row by its tests, so its numbers say no more than that; whoever wrote the others has never seen
them. What is no fault: rows of `malformed` measure what a parser forgives, and no specification asks for it. Among
`adversarial` are markers within a string. They come as control tokens, which is the harder case: a parser that goes
by ids could tell a marker that was spelled out in letters. White space around text is never compared. A real vLLM as
a server can't be judged so, because its model can't be played; its parsers are, directly.
"""

_FORMATS_SAY = """
Empty where a parser doesn't claim the format.
"""

_GATEWAYS_SAY = """
Behind each is a scripted vLLM that plays the rows' texts. All rows of all formats, whole and streamed; those whose
prompt would have to begin the thinking can't be asked for. Ours has a model for each format, in template mode. The
others read no calls in text: they leave it to the backend, and hand its text on. So they are right where a row has
neither calls nor thinking, which is no fault of theirs, but what a client gets from them with a backend that has no
parser.
"""

_BUGS_SAY = """
Each is the least text that shows it, grouped by cause, with the version in which it was last seen.
`python -m bench.parsers --bug ID` runs one again, `python -m bench.parsers NAME --bugs` all of a project. The tools on
offer are `get_weather` (`city` and `unit`, strings; `days`, an integer), `get_time` (no parameters) and `note` (`text`,
a string; `place`, an object). What is right follows from the source that is named. None of them has been reported yet.
"""
