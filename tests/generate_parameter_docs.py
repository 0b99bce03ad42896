"""Writes docs/parameters.md from the table of parameters: `python -m tests.generate_parameter_docs`.

A test fails when the page is stale.
"""

from __future__ import annotations

from pathlib import Path

from extproc.openai.parameters import PARAMETERS, Parameter

PAGE = Path(__file__).parent.parent / "docs" / "parameters.md"

_HEAD = """\
# Request parameters

What `POST /v1/chat/completions` accepts besides `model`, `messages` and the tool parameters (`tools`, `tool_choice`,
`parallel_tool_calls`, `functions`, `function_call`). A value that isn't accepted is a 400 whose `param` is the path of
what is wrong, such as `stop[1]` or `logit_bias.50256`; `null` is the same as leaving the parameter out.

What doesn't go to the backend is named, in alphabetical order, in the response header `x-extproc-dropped`, so that
nothing is lost unseen. A backend that takes more than vLLM does gets it once its entry in the configuration lists the
names, as in `backends: [{name: qwen, address: "10.0.0.1:8000", parameters: [best_of]}]`.

Any other parameter is accepted, whatever its value, and dropped: OpenAI's `audio`, `prediction` and
`web_search_options`, say, or those of vLLM's that only its render endpoints read (`mm_payload`, `return_mm_kwargs`,
`return_token_offsets`). "Backend" is what goes to it by default: the fields that vLLM 0.32.0 knows.

The table is made by `python -m tests.generate_parameter_docs` from `extproc/openai/parameters.py`.

| parameter | accepted | backend | remark |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(map(_row, PARAMETERS))


def _row(row: Parameter) -> str:
    only = f"only with `{row.needs}: true`" if row.needs else ""
    remark = "; ".join(filter(None, (only, row.remark)))
    return f"| `{row.name}` | {row.check.details} | {'yes' if row.forwarded else 'no'} | {remark} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(PAGE.parent.parent))
