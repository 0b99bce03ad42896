"""Has Codex and Claude Code work with a real model, and writes their parts of docs/real-models.md.

    python -m tests.real_vllm.agents [--keep DIRECTORY] [codex] [claude-code]

Both are far too much for a model of this size, and their whole prompts for two cores: so their own settings cut the
prompts down, and the tasks are small. Whether these are done is no matter of pass or fail; that every answer is what
the protocol wants is. Takes up to eight minutes for each, and one or two for vLLM to start. The clients have to be
installed: `python -m tests.clients.setup codex claude-code`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.clients.installed import CLIENTS
from tests.clients.sandbox import Finished, Sandbox
from tests.gateway import Gateway, configured_gateway, wait_until
from tests.real_vllm.agent_clients import AGENTS, MOST_TOKENS, Agent
from tests.real_vllm.agent_turns import AgentTurn, read_agent_turns
from tests.real_vllm.environment import Environment
from tests.real_vllm.model import NAME, Model
from tests.real_vllm.results_page import quoted, table, without_folder, write_section
from tests.real_vllm.server import MODEL, VLLM, running_vllm

MODES = ("prompt", "template")
_CONTEXT = 8192
"""Tokens: their prompts, and some turns."""
_SECONDS = 90.0
"""Of a run; then the client is killed. Some would go on for ever."""
_AT_ONCE = 6
"""Runs: vLLM writes six answers in little more time than one."""
_MOST_FILES = 10_000
_FAULTS = ("unknown_tool_call", "malformed_tool_arguments", "invalid_tool_arguments")


@dataclass(frozen=True, slots=True)
class Task:
    """What a client is told to do, and how it can be seen whether that was done."""

    words: str
    is_done: Callable[[str, Path], bool]
    """By what its tools returned, and its workspace."""


TASKS = (
    Task("Run the command: wc -w notes.txt", lambda seen, _: "2 notes.txt" in seen),
    Task("Read the file notes.txt and say what is in it.", lambda seen, _: "one two" in seen),
    Task("Create hello.txt with a greeting.", lambda _, workspace: _text(workspace / "hello.txt") != ""),
    Task("Run the command: ls -a", lambda seen, _: ".git" in seen),
    Task("Which files are in this folder?", lambda seen, _: "notes.txt" in seen),
    Task("Write the numbers 1 to 3 into numbers.txt.", lambda _, workspace: "3" in _text(workspace / "numbers.txt")),
    Task("Run git status and say what it shows.", lambda seen, _: "Untracked files" in seen),
    Task("How many words does notes.txt have?", lambda seen, _: "2 notes.txt" in seen or "one two" in seen),
    Task("Add the word three to notes.txt.", lambda _, workspace: "three" in _text(workspace / "notes.txt")),
    Task("Create the folder src.", lambda _, workspace: (workspace / "src").is_dir()),
)


def _text(file: Path) -> str:
    return file.read_text(errors="replace") if file.is_file() else ""


@dataclass(frozen=True, slots=True)
class Run:
    """A task in a mode."""

    mode: str
    task: Task

    @property
    def model(self) -> str:
        """A name of its own at the gateway, by which its requests are told from those of other runs."""
        return f"{self.mode}-{TASKS.index(self.task)}"


RUNS = [Run(mode, task) for mode in MODES for task in TASKS]


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of a run."""

    run: Run
    finished: Finished
    turns: list[AgentTurn]
    requests: int
    """By the gateway's own count."""
    faults: int
    """Calls that don't fit the offered tools, by the gateway's own count."""
    errors: list[str]
    """Of which the client tells, other than that an answer was cut off, or that the context is full."""
    done: bool

    @property
    def problems(self) -> list[str]:
        """What is wrong with the protocol."""
        found = [problem for turn in self.turns for problem in turn.problems()]
        found += [f"the client says: {error}" for error in self.errors]
        if self.requests != len(self.turns):
            found.append(f"{self.requests} requests were counted, and {len(self.turns)} recorded")
        return found


@dataclass(frozen=True, slots=True)
class Results:
    """What came of all runs of a client."""

    tried: list[Tried]
    broken: int
    """Exchanges that the gateway broke off, by its own count."""
    cached: float
    """The share of the prompts' tokens that vLLM found in its cache."""

    @property
    def problems(self) -> list[str]:
        """What is wrong with the protocol, and where."""
        found = [f"{came.run.mode}: {came.run.task.words} {why}" for came in self.tried for why in came.problems]
        return [*found, f"{self.broken} exchanges were broken off by the gateway"] if self.broken else found


def try_runs(
    vllm: VLLM,
    folder: Path,
    agent: Agent,
    runs: Sequence[Run],
    seconds: float = _SECONDS,
    enough: Callable[[], bool] = lambda: False,
) -> Results:
    """Have them done in an empty `folder`, several at once: each for so long at most, or until it is `enough`."""
    before = _cache(vllm)
    with _recording_gateway(vllm, folder, runs) as gateway:

        def carry_out(run: Run) -> tuple[Finished, bool]:
            place = folder / run.model
            place.mkdir()
            sandbox = Sandbox(place, enough)
            finished = agent.run(sandbox, gateway, run.model, run.task.words, seconds)
            done = run.task.is_done(agent.seen(finished), sandbox.workspace)
            print(f"{agent.name}, {run.mode}: {run.task.words} {finished.seconds:.0f} s", flush=True)
            return finished, done

        # The first in each mode alone: then the prompt that it has in common with the others is in vLLM's cache.
        first = {run.mode: run for run in reversed(runs)}.values()
        ended = {run: carry_out(run) for run in first}
        others = [run for run in runs if run not in ended]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            ended.update(zip(others, pool.map(carry_out, others), strict=True))
        wait_until(gateway.is_at_rest)
        counts = {run: _counts(gateway, run) for run in runs}
        broken = sum(_count(gateway, f'aborted_exchanges_total{{reason="{why}"}}') for why in ("bug", "protocol_error"))
    turns = read_agent_turns(folder / "recordings")  # the gateway has ended, and written all of them
    tried = []
    for run in runs:
        finished, done = ended[run]
        its = [turn for turn in turns if turn.recorded.request.get("model") == run.model]
        tried.append(Tried(run, finished, its, *counts[run], agent.errors(finished), done))
    asked, found = (now - then for now, then in zip(_cache(vllm), before, strict=True))
    return Results(tried, broken, found / max(asked, 1))


@contextmanager
def _recording_gateway(vllm: VLLM, folder: Path, runs: Sequence[Run]) -> Iterator[Gateway]:
    models = "\n".join(
        f"  - {{name: {run.model}, backend: vllm, upstream_model: {MODEL}, tools: {run.mode}, format: hermes, "
        f"defaults: {{temperature: 0, max_tokens: {MOST_TOKENS}}}}}"
        for run in runs
    )
    configuration = f"""
models:
{models}
backends:
  - {{name: vllm, address: "127.0.0.1:{vllm.port}"}}
recording: {{directory: {folder}/recordings, files: {_MOST_FILES}}}
"""
    with configured_gateway(folder, configuration) as gateway:
        yield gateway


def _counts(gateway: Gateway, run: Run) -> tuple[int, int]:
    faults = (f'invalid_calls_total{{fault="{fault}",model="{run.model}"}}' for fault in _FAULTS)
    requests = _count(gateway, f'requests_total{{model="{run.model}"}}')
    return requests, sum(_count(gateway, fault) for fault in faults)


def _count(gateway: Gateway, name: str) -> int:
    return int(gateway.metric(f"extproc_{name}"))


def _cache(vllm: VLLM) -> tuple[int, int]:
    """Tokens that it has looked for in its cache, and that it has found there."""
    return vllm.count("vllm:prefix_cache_queries_total"), vllm.count("vllm:prefix_cache_hits_total")


def main() -> int:
    parser = argparse.ArgumentParser(description="Writes the parts of docs/real-models.md on Codex and Claude Code.")
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=f"one of {', '.join(AGENTS)}; all by default")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="where what the gateway recorded is to stay")
    arguments = parser.parse_args()
    agents = [AGENTS[name] for name in arguments.agents or AGENTS]
    for agent in agents:
        if not CLIENTS[agent.name].is_ready:
            print(f"{agent.title} can't be tried: {CLIENTS[agent.name].why_not}", file=sys.stderr)
            return 1
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        flags = ("--max-model-len", str(_CONTEXT))
        with running_vllm(Environment(), Model(), place / "vllm.log", *flags) as vllm:
            for agent in agents:
                folder = place / agent.name
                folder.mkdir()
                began = time.monotonic()
                results = try_runs(vllm, folder, agent, RUNS)
                minutes = (time.monotonic() - began) / 60
                if arguments.keep:
                    shutil.copytree(folder / "recordings", arguments.keep / agent.name)
                write_section(f"{agent.title} with a very small model", section(agent, results, minutes))
                problems += (f"{agent.title}: {problem}" for problem in results.problems)
    print("\n".join(problems) or "no error of the protocol")
    return int(bool(problems))


def section(agent: Agent, results: Results, minutes: float) -> Iterator[str]:
    """Its part of docs/real-models.md."""
    tried, who = results.tried, agent.title
    prompt = max((len(came.turns[0].recorded.request_body) for came in tried if came.turns), default=0)
    yield f"""\
Written by `python -m tests.real_vllm.agents {agent.name}`: {who} {agent.version}, Envoy and the processor, and
vLLM 0.32.0 on the CPU with {NAME} (from a 4-bit file), a context of {_CONTEXT} tokens,
temperature 0, at most {MOST_TOKENS} tokens for an answer, format hermes. The prompt is cut down by the client's own
settings (`tests/real_vllm/agent_clients.py`), from {agent.whole_prompt} to {prompt:,}.
Up to {_AT_ONCE} runs at once; each gets {_SECONDS:.0f} seconds, and then {who} is killed, which is no error of the
protocol. All {len(tried)} runs together took {minutes:.0f} minutes.
"""
    head = ("mode", "runs:", "gave up:", "killed:", "requests:", "calls:", "words alone:", "cut off:", "no end:")
    yield from table(
        (*head, "calls that don't fit:", "objects shown:", "done:", "protocol errors:"),
        [_summary(mode, [came for came in tried if came.run.mode == mode]) for mode in MODES],
    )
    yield ""
    yield f"Exchanges that the gateway broke off: {results.broken}."
    yield f"Of the prompts' tokens, vLLM found {results.cached:.0%} in its cache."
    yield ""
    yield from _EXPLAINED.strip().splitlines()
    if problems := results.problems:
        yield ""
        yield from (f"- {problem}" for problem in problems)
    yield ""
    yield from table(
        ("mode", "task", "seconds:", "client", "requests:", "the model wrote first", "done"),
        map(_row, tried),
    )


_EXPLAINED = """
*Gave up*: the client ended with an error status, as it does when an answer was cut off; *killed*: its time was up.
*Requests* are by the gateway's own count. *Calls* and *words alone* count answers that came to their ends; *cut off*
are those among them that ended at the most tokens. *No end*: the client was killed before it. *Calls that don't fit* is
the gateway's own count of calls that break the tool's schema, name no offered tool, or aren't JSON. *Objects shown*:
markup, or objects with a tool's name, in what is shown as words. *Done*: the client's tools really did the work.
*Protocol errors*: streams whose events break the dialect's grammar (of Responses, also OpenAI's published types), that
become another answer when they come byte by byte, or that show as text what could have been run; an answer without its
end is checked event by event. Also any error status other than that the context is full, and errors of which the client
itself tells, other than that an answer was cut off or the context is full.
"""


def _summary(mode: str, runs: Sequence[Tried]) -> tuple[object, ...]:
    turns = [turn for came in runs for turn in came.turns]
    ended = Counter("calls" if turn.got.calls else "words" for turn in turns if turn.ended)
    return (
        mode,
        len(runs),
        sum(came.finished.status not in (0, None) for came in runs),
        sum(came.finished.status is None for came in runs),
        sum(came.requests for came in runs),
        ended["calls"],
        ended["words"],
        sum(turn.is_cut_off for turn in turns),
        sum(not turn.ended for turn in turns),
        sum(came.faults for came in runs),
        sum(len(turn.shown_objects) for turn in turns),
        sum(came.done for came in runs),
        sum(len(came.problems) for came in runs),
    )


def _row(came: Tried) -> tuple[object, ...]:
    first = came.turns[0].written if came.turns else ""
    status = came.finished.status
    end = "killed" if status is None else "gave up" if status else "ended"
    wrote = quoted(without_folder(first))
    return (
        came.run.mode,
        came.run.task.words,
        f"{came.finished.seconds:.0f}",
        end,
        came.requests,
        wrote,
        _yes(came.done),
    )


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


if __name__ == "__main__":
    sys.exit(main())
