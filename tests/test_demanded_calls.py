"""A request can demand a call; what becomes of an answer that has none."""

from __future__ import annotations

import pytest

from tests.test_invalid_calls import GOOD, UNKNOWN, Read, every_way, weather

WORDS = "I would rather not."


@every_way
@pytest.mark.parametrize("policy", ["pass", "text"])
def test_words_alone_are_counted_and_shown(read: Read, policy: str) -> None:
    answer = read(WORDS, "stop", weather(policy, required_tool=""))
    assert (answer.content, answer.calls, answer.error) == (WORDS, (), None)
    assert answer.violations == {"missing_tool_call": 1}


@every_way
def test_with_the_policy_error_they_are_one(read: Read) -> None:
    assert read(WORDS, "stop", weather("error", required_tool="")).error == "missing_tool_call"


@every_way
@pytest.mark.parametrize("policy", ["pass", "text", "error"])
def test_a_cut_off_answer_is_nobodys_fault(read: Read, policy: str) -> None:
    answer = read(WORDS, "length", weather(policy, required_tool=""))
    assert (answer.error, answer.violations) == (None, {})


@every_way
def test_a_call_is_what_was_demanded_also_if_it_is_a_wrong_one(read: Read) -> None:
    assert read(GOOD, "stop", weather("pass", required_tool="")).violations == {}
    assert read(UNKNOWN, "stop", weather("pass", required_tool="")).violations == {"unknown_tool_call": 1}


@every_way
def test_without_a_demand_words_will_do(read: Read) -> None:
    assert read(WORDS, "stop", weather("error")).violations == {}


@every_way
def test_where_one_tool_is_demanded_a_call_of_another_has_a_fault(read: Read) -> None:
    assert read(GOOD, "stop", weather("pass", required_tool="get_weather")).violations == {}
    assert read(GOOD, "stop", weather("pass", required_tool="get_time")).violations == {"unknown_tool_call": 1}
    assert read(GOOD, "stop", weather("error", required_tool="get_time")).error == "unknown_tool_call"
