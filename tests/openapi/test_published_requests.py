"""What OpenAI's own schema allows is served, as far as a vLLM can: 2,400 requests drawn from it.

They are made to keep the relations that a schema can't express (`relations`). What is refused all the same has a
reason in `REFUSED`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from itertools import cycle
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from extproc.config import Config, parse
from extproc.contract.errors import ApiError
from extproc.surfaces import find_problems, prepare
from tests.openapi.published import REQUESTS
from tests.openapi.relations import related

pytestmark = pytest.mark.long

REQUESTED = 2400
AT_ONCE = 4
"""For an example of so many hypothesis takes less than for so many examples."""
MODES = ("prompt", "template", "native")
CONFIG: Config = parse(f"""
models: [{", ".join(f"{{name: {mode}, backend: vllm, tools: {mode}, malformed_history: repair}}" for mode in MODES)}]
backends: [{{name: vllm, address: "127.0.0.1:8000"}}]
""")

CUSTOM = "vLLM has no custom tools: functions are all that its models can call, and all that its templates show"
EMPTY = "OpenAI refuses it as well: whose result it is, or what was called, can't be told"
BOUNDED = "OpenAI refuses it as well: the bounds are in a description, or the schema has rounded them (2^63)"
AMBIGUOUS = "of two calls in one place, which one was made, or which one a result belongs to, can't be told"
REFUSED: Mapping[tuple[str, str], str] = {
    ("invalid_value", "tools[].type"): CUSTOM,
    ("missing_required_parameter", "tools[].function"): CUSTOM,
    ("invalid_value", "tool_choice"): CUSTOM,
    ("invalid_value", "tool_choice.type"): CUSTOM,
    ("invalid_value", "messages[].tool_calls[].type"): CUSTOM,
    ("missing_required_parameter", "messages[].tool_calls[].function"): CUSTOM,
    ("empty_string", "messages[].tool_calls[].id"): EMPTY,
    ("empty_string", "messages[].tool_calls[].function.name"): EMPTY,
    ("empty_string", "messages[].function_call.name"): EMPTY,
    ("empty_string", "messages[].name"): EMPTY,
    ("invalid_value", "messages[].tool_calls[].id"): AMBIGUOUS,
    ("invalid_value", "messages[].function_call"): AMBIGUOUS,
    ("integer_below_min_value", "max_tokens"): BOUNDED,
    ("integer_below_min_value", "max_completion_tokens"): BOUNDED,
    ("integer_above_max_value", "max_tokens"): BOUNDED,
    ("integer_above_max_value", "max_completion_tokens"): BOUNDED,
    ("integer_below_min_value", "seed"): BOUNDED,
    ("integer_above_max_value", "seed"): BOUNDED,
    ("property_name_above_max_length", "metadata.*"): BOUNDED,
    ("string_above_max_length", "metadata.*"): BOUNDED,
}
"""Why a request may be refused: by the error's code, and the place that it is about."""


def entry(problem: ApiError) -> tuple[str, str]:
    """Where on the list a problem is."""
    assert problem.code is not None
    place = re.sub(r"\[\d+\]", "[]", problem.param or "")
    return problem.code, re.sub(r"^metadata\..*", "metadata.*", place)


def test_none_is_refused_that_a_vllm_could_serve() -> None:
    refused: Counter[tuple[str, str]] = Counter()
    served: Counter[str] = Counter()
    modes = cycle(MODES)

    @seed(REQUESTED)
    @settings(
        max_examples=REQUESTED // AT_ONCE,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(several=st.tuples(*[st.tuples(REQUESTS, st.booleans())] * AT_ONCE))
    def are_served_or_have_a_reason(several: tuple[tuple[Any, bool], ...]) -> None:
        for drawn, legacy in several:
            is_served_or_has_a_reason(drawn, legacy)

    def is_served_or_has_a_reason(drawn: Any, legacy: bool) -> None:
        mode = next(modes)
        body = json.dumps(related(drawn, model=mode, legacy=legacy)).encode()
        try:
            prepared = prepare(body, CONFIG)
        except ApiError:
            problems = find_problems(body, CONFIG)
            for problem in problems:
                assert entry(problem) in REFUSED, f"{problem} of {body.decode()}"
            refused.update(set(map(entry, problems)))
        else:
            assert json.loads(prepared.body or body)["messages"]
            served[mode] += 1

    are_served_or_have_a_reason()
    assert {REFUSED[each] for each in refused} == set(REFUSED.values()), "what nothing is refused for is no reason"
    assert min(served.values()) > REQUESTED / len(MODES) * 0.7, f"too few tell of anything: {served}"
