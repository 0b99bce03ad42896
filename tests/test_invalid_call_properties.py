"""What holds for every model's calls, right or wrong, under every policy: in any cut, in every format."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.turn.spec import ResponseSpec
from tests.cuts import random_cut
from tests.format_writers import WRITERS, Writer
from tests.format_writers.generated import Generated, outputs
from tests.test_answer import plan
from tests.test_invalid_calls import ALSO_GOOD, GOOD, INVALID, MALFORMED, UNKNOWN, Answer, streamed, weather, whole

pytestmark = pytest.mark.long

every_writer = pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.name)

_SAID = st.sampled_from(
    ["I look.", "\n", " ", "é", "<think>So</think>", GOOD, ALSO_GOOD, UNKNOWN, INVALID, MALFORMED, GOOD[:50], "<tool_"]
)
_PLANS = st.builds(weather, st.sampled_from(["pass", "text", "error"]), parallel_tool_calls=st.booleans())


def assert_all_agree(text: str, finish_reason: str, plan: ResponseSpec, source: random.Random) -> None:
    """A stream is the same in any cut, and so is the whole answer; only an error keeps back what came before it."""
    answer = streamed([text] if text else [], finish_reason, plan)
    assert streamed(list(text), finish_reason, plan) == answer
    assert streamed(random_cut(text, source), finish_reason, plan, source) == answer
    at_once = whole(text, finish_reason, plan)
    if answer.error is None:
        assert at_once == answer
    else:
        assert at_once == Answer(error=answer.error)
        assert answer.violations[answer.error] > 0


@given(
    st.lists(_SAID, max_size=6).map("".join),
    st.sampled_from(["stop", "length"]),
    _PLANS,
    st.randoms(use_true_random=False),
)
def test_stream_and_whole_answer_agree_in_any_cut(
    text: str, finish_reason: str, plan: ResponseSpec, source: random.Random
) -> None:
    assert_all_agree(text, finish_reason, plan, source)


def spoilt(generated: Generated, data: st.DataObject) -> list[dict[str, Any]]:
    """The tools, but for one that isn't offered after all, or needs an argument that no call has."""
    tools: list[dict[str, Any]] = orjson.loads(orjson.dumps(generated.tools))
    if data.draw(st.booleans()):
        del tools[0]
    for tool in tools:
        if data.draw(st.booleans()):
            tool["function"].setdefault("parameters", {"type": "object"})["required"] = ["never given"]
    return tools


@every_writer
@settings(max_examples=8)
@given(st.data())
def test_stream_and_whole_answer_agree_in_every_format(writer: Writer, data: st.DataObject) -> None:
    generated = data.draw(outputs(writer))
    text = writer.write(generated.output)
    if data.draw(st.booleans()):
        text = text[: data.draw(st.integers(0, len(text)))]
    answer_plan = plan(
        format=writer.format,
        tools=spoilt(generated, data),
        invalid_calls=data.draw(st.sampled_from(["pass", "text", "error"])),
        parallel_tool_calls=data.draw(st.booleans()),
    )
    source = random.Random(data.draw(st.integers(0, 1000)))
    assert_all_agree(text, data.draw(st.sampled_from(["stop", "length"])), answer_plan, source)


@every_writer
@settings(max_examples=4)
@given(st.data())
def test_every_policy_counts_the_same_calls(writer: Writer, data: st.DataObject) -> None:
    generated = data.draw(outputs(writer))
    text = writer.write(generated.output)
    options = {"format": writer.format, "tools": spoilt(generated, data)}
    passed = whole(text, "stop", plan(**options, invalid_calls="pass"))
    shown = whole(text, "stop", plan(**options, invalid_calls="text"))
    refused = whole(text, "stop", plan(**options, invalid_calls="error"))
    assert passed.violations == shown.violations
    assert len(shown.calls) == len(passed.calls) - sum(passed.violations.values())
    assert (refused.error is not None) == bool(passed.violations)


def strictest(generated: Generated) -> list[dict[str, Any]]:
    """The tools, with all that every call gives required."""
    tools: list[dict[str, Any]] = orjson.loads(orjson.dumps(generated.tools))
    for tool in tools:
        given = [call.arguments.keys() for call in generated.output.calls if call.name == tool["function"]["name"]]
        if given:
            parameters = tool["function"].setdefault("parameters", {"type": "object"})
            parameters["required"] = sorted(set(given[0]).intersection(*given))
    return tools


@every_writer
@settings(max_examples=4)
@given(st.data())
def test_right_calls_have_no_fault_wherever_the_backend_cuts_them_off(writer: Writer, data: st.DataObject) -> None:
    generated = data.draw(outputs(writer))
    text = writer.write(generated.output)
    answer_plan = plan(format=writer.format, tools=strictest(generated), invalid_calls="error")
    assert whole(text, "stop", answer_plan).error is None
    for _ in range(5):
        cut = text[: data.draw(st.integers(0, len(text)))]
        assert whole(cut, "length", answer_plan).error is None
