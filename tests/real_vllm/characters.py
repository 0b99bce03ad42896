"""Whether a character on a real model answers with what its tool says: `python -m tests.real_vllm.characters`.

It has a store whose numbers nobody can guess. A try is a question after one article, through the whole gateway; it
succeeds if the answer has the number that the tool gave for this article. The larger of the two models plays; what it
takes is downloaded the first time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gateway import Gateway, configured_gateway
from tests.real_vllm.environment import Environment
from tests.real_vllm.model import LARGER, Model
from tests.real_vllm.server import MODEL, VLLM, running_vllm
from tests.real_vllm.setup import set_up

ARTICLES = """lanterns ropes barrels axes blankets candles kettles ladders shovels tents
hammers boots buckets saddles nails mirrors bottles baskets anchors compasses""".split()
STOREKEEPER = """
SYSTEM_PROMPT = "You are the keeper of a store. Look up in the inventory what people ask for, and tell them."
MODEL = "{model}"
TOOLS = [
    {{
        "type": "function",
        "function": {{
            "name": "look_up_inventory",
            "description": "Tells how many pieces of an article are in the store",
            "parameters": {{
                "type": "object",
                "properties": {{"article": {{"type": "string", "description": "The article, such as pots"}}}},
                "required": ["article"],
            }},
        }},
    }}
]


class PromptGenerator:
    def handle_tool_call(self, tool_name: str, tool_input: dict) -> str:
        article = tool_input["article"].strip().lower()
        number = sum(article.encode()) * 7919 % 9000 + 1000
        return f"There are {{number}} {{article}} in the store."
"""
MODES = ("prompt", "template")


@dataclass(frozen=True)
class Try:
    """One question, and what came of it."""

    article: str
    tools: int
    text: str

    @property
    def succeeded(self) -> bool:
        return str(sum(self.article.encode()) * 7919 % 9000 + 1000) in self.text.replace(",", "")


def ask(gateway: Gateway, mode: str, article: str, temperature: float) -> Try:
    body: dict[str, Any] = {
        "model": f"character/keeper-{mode}",
        "messages": [{"role": "user", "content": f"How many {article} do you have?"}],
        "temperature": temperature,
        "max_tokens": 300,
    }
    answer = gateway.http.post("/v1/chat/completions", json=body, timeout=300)
    if not answer.is_success:
        return Try(article, 0, f"{answer.status_code} {answer.json()['error']['message']}")
    ran = int(answer.headers["x-extproc-tools"])
    return Try(article, ran, answer.json()["choices"][0]["message"]["content"] or "")


def played(folder: Path, vllm: VLLM, tries: int, temperature: float) -> dict[str, list[Try]]:
    """The tries in each mode."""
    characters = folder / "characters"
    characters.mkdir()
    for mode in MODES:
        (characters / f"keeper-{mode}.py").write_text(STOREKEEPER.format(model=mode))
    models = "\n".join(
        f"  - {{name: {mode}, backend: vllm, upstream_model: {MODEL}, tools: {mode}, format: hermes}}" for mode in MODES
    )
    configuration = f"""
models:
{models}
backends:
  - {{name: vllm, address: "127.0.0.1:{vllm.port}", health_check: false}}
characters: characters
"""
    with configured_gateway(folder, configuration) as gateway:
        articles = [ARTICLES[number % len(ARTICLES)] for number in range(tries)]
        return {mode: [ask(gateway, mode, article, temperature) for article in articles] for mode in MODES}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--small", action="store_true", help="the 0.5B instead")
    options = parser.parse_args()
    model = Model() if options.small else LARGER
    set_up(model)
    with tempfile.TemporaryDirectory(prefix="keeper-") as place:
        folder = Path(place)
        with running_vllm(Environment(), model, folder / "vllm.log") as vllm:
            results = played(folder, vllm, options.tries, options.temperature)
    for mode, tries in results.items():
        print(f"{model.name}, {mode}: {sum(one.succeeded for one in tries)} of {len(tries)} answers have the number")
        for one in tries:
            print(f"  {'yes' if one.succeeded else 'NO '}  {one.tools} calls  {one.article}: {one.text[:150]!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
