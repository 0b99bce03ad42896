"""The xgrammar of vLLM's environment, for tests of what grammars accept."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.real_vllm.environment import Environment
from tests.schema_strategies import Json


class Matcher:
    """An xgrammar in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def accepted(self, tag: Json, *texts: str) -> list[bool]:
        """Which of the texts the structural tag allows."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"tag": tag, "texts": texts}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, (answer["error"], tag)
        found: list[bool] = answer["accepted"]
        return found

    def accepted_values(self, schema: Any, *values: Any) -> list[bool]:
        """Which of the values can be written by the schema: strings are JSON text."""
        texts = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]
        return self.accepted(
            {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": schema}}, *texts
        )

    def accepted_texts(self, grammar: str, *texts: str, in_json: bool) -> list[bool]:
        """Which of the texts an EBNF allows, where a call has it: in a JSON string, or between tags."""
        before, after = ('{"input": "', '"}') if in_json else ("<input>", "</input>")
        elements = [
            {"type": "const_string", "value": before},
            {"type": "grammar", "grammar": grammar},
            {"type": "const_string", "value": after},
        ]
        tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": elements}}
        return self.accepted(tag, *(before + (json_text(text) if in_json else text) + after for text in texts))


@contextmanager
def running_matcher(environment: Environment, log: Path) -> Iterator[Matcher]:
    """Starts one; what it has to complain about goes to the log."""
    with (
        log.open("w") as output,
        subprocess.Popen(
            [environment.python, Path(__file__).with_name("matching.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        ) as process,
    ):
        yield Matcher(process)
        assert process.stdin is not None
        process.stdin.close()


def json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
