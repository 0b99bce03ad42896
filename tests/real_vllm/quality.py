"""Asks a real model the same ten things in every mode and writes docs/quality.md: `python -m tests.real_vllm.quality`.

Two servers are started one after the other: a plain one for prompt and template mode, and one with vLLM's own parser
for native mode. Takes some five minutes on two cores; what is asked for is greedy, so that the answers can be compared.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real_vllm.conftest import NAME, NATIVE, TEMPLATE, Gateway, running_gateway
from tests.real_vllm.environment import Environment
from tests.real_vllm.model import Model
from tests.real_vllm.server import running_vllm

PAGE = Path(__file__).parent.parent.parent / "docs" / "quality.md"
PARSER = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")


def tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TEXT = {"type": "string"}
TOOLS = [
    tool("get_weather", "Get the current weather in a city", city=TEXT),
    tool("read_file", "Read a file", path=TEXT),
    tool("write_file", "Write text to a file", path=TEXT, content=TEXT),
    tool("run_command", "Run a shell command", command=TEXT),
    tool("add", "Add two whole numbers", a={"type": "integer"}, b={"type": "integer"}),
]


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that is asked, and the calls that are right; none means that plain words are."""

    ask: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    choice: Any = "auto"


CASES = (
    Case("What is the weather in Paris?", (("get_weather", {"city": "Paris"}),)),
    Case("Read the file src/main.py.", (("read_file", {"path": "src/main.py"}),)),
    Case("List the files here by running ls -la.", (("run_command", {"command": "ls -la"}),)),
    Case('Write the text "hello" to the file hello.txt.', (("write_file", {"path": "hello.txt", "content": "hello"}),)),
    Case("Add 17 and 25 with the tool.", (("add", {"a": 17, "b": 25}),)),
    Case("Run the command git status.", (("run_command", {"command": "git status"}),)),
    Case(
        "What is the weather in Rome and in Oslo?",
        (("get_weather", {"city": "Rome"}), ("get_weather", {"city": "Oslo"})),
    ),
    Case("Say hello in one short sentence."),
    Case("Find out about the weather in Berlin.", (("get_weather", {"city": "Berlin"}),), "required"),
    Case(
        "Have a look at notes.md.",
        (("read_file", {"path": "notes.md"}),),
        {"type": "function", "function": {"name": "read_file"}},
    ),
)


def answer(gateway: Gateway, model: str, case: Case) -> tuple[str, bool]:
    """What came, shown in one line, and whether it is right."""
    completion = gateway.openai.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": case.ask}],
        tools=TOOLS,  # type: ignore[arg-type]
        tool_choice=case.choice,
        temperature=0,
        max_tokens=120,
    )
    message = completion.choices[0].message
    calls = [
        (call.function.name, call.function.arguments) for call in message.tool_calls or () if call.type == "function"
    ]
    shown = "; ".join(f"{name}({arguments})" for name, arguments in calls) or f'"{(message.content or "").strip()}"'
    right = [(name, _value(arguments)) for name, arguments in calls] == list(case.calls)
    return shown, right


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return None


def main() -> int:
    rows: dict[str, list[tuple[str, bool]]] = {}
    environment, model = Environment(), Model()
    for names, flags in (((NAME, TEMPLATE), ()), ((NATIVE,), PARSER)):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            with (
                running_vllm(environment, model, place / "vllm.log", *flags) as vllm,
                running_gateway(vllm, place) as gateway,
            ):
                for name in names:
                    rows[name] = [answer(gateway, name, case) for case in CASES]
                    print(name, sum(right for _, right in rows[name]), "of", len(CASES), flush=True)
    PAGE.write_text(page(rows), encoding="utf-8")
    return 0


def page(rows: dict[str, list[tuple[str, bool]]]) -> str:
    """docs/quality.md."""
    modes = {NAME: "prompt", TEMPLATE: "template", NATIVE: "native, `repair: true`"}
    lines = [
        "# Ten requests in every mode",
        "",
        "Written by `python -m tests.real_vllm.quality`: vLLM 0.32.0 on the CPU with Qwen2.5-Coder-0.5B-Instruct (from",
        "a 4-bit file), temperature 0, five tools, format hermes. The model is as small as can be, and was never",
        "taught to call tools: this shows what a mode makes of the same model, not how well models call tools.",
        "",
        "| mode | right |",
        "| --- | --: |",
        *(f"| {modes[name]} | {sum(right for _, right in rows[name])} of {len(CASES)} |" for name in rows),
    ]
    for number, case in enumerate(CASES):
        choice = "" if case.choice == "auto" else f" (`tool_choice`: `{json.dumps(case.choice)}`)"
        lines += ["", f"## {case.ask}{choice}", "", "| mode | answer | right |", "| --- | --- | --- |"]
        for name, answers in rows.items():
            shown, right = answers[number]
            cell = shown.replace("\n", " ").replace("|", "\\|").replace("`", "'")
            lines.append(f"| {modes[name]} | `{cell[:200]}` | {'yes' if right else 'no'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
