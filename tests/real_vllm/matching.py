"""Whether texts are what a structural tag allows, by the xgrammar that vLLM uses.

This runs in vLLM's environment, not in the project's: it imports nothing of the project. On each line of its input is a
JSON object with a `tag` and `texts`; for each it prints one with `accepted`, a boolean for each text, or with the
`error` that xgrammar made of the tag.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

xgrammar: Any = importlib.import_module("xgrammar")  # which the project's environment doesn't have

# One token for each byte, and one that ends the text.
_BYTES = [bytes([byte]) for byte in range(256)]
_END = len(_BYTES)


def main() -> None:
    vocabulary = xgrammar.TokenizerInfo([*_BYTES, b"<end>"], xgrammar.VocabType.RAW, stop_token_ids=[_END])
    compiler = xgrammar.GrammarCompiler(vocabulary, max_threads=1, cache_enabled=False)
    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps(_answer(compiler, json.dumps(case["tag"]), case["texts"])), flush=True)


def _answer(compiler: Any, tag: str, texts: list[str]) -> dict[str, Any]:
    try:
        grammar = compiler.compile_structural_tag(tag)
    except (RuntimeError, ValueError) as error:
        return {"error": str(error)}
    return {"accepted": [_is_accepted(grammar, text.encode()) for text in texts]}


def _is_accepted(grammar: Any, text: bytes) -> bool:
    matcher = xgrammar.GrammarMatcher(grammar)
    return all(map(matcher.accept_token, text)) and bool(matcher.accept_token(_END))


if __name__ == "__main__":
    main()
