"""The parameters of a request: what each may be, what the error says, and what the backend gets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.contract.errors import ApiError
from extproc.contract.parameters import FORWARDED, PARAMETERS, TOOL_PARAMETERS, parameter_problems, split
from extproc.surfaces import CHAT
from tests.generate_parameter_docs import PAGE, page
from tests.parameter_cases import CASES, CODES, Refused

VLLM_0_32 = frozenset(
    """
    messages model frequency_penalty logit_bias logprobs top_logprobs max_tokens max_completion_tokens n
    presence_penalty response_format seed stop stream stream_options temperature top_p tools tool_choice
    reasoning_effort thinking_token_budget include_reasoning parallel_tool_calls user use_beam_search top_k min_p
    repetition_penalty watermarking length_penalty stop_token_ids include_stop_str_in_output ignore_eos min_tokens
    skip_special_tokens spaces_between_special_tokens truncate_prompt_tokens truncation_side prompt_logprobs
    logprob_token_ids allowed_token_ids bad_words echo add_generation_prompt continue_final_message
    add_special_tokens documents chat_template chat_template_kwargs media_io_kwargs mm_processor_kwargs
    structured_outputs priority request_id session_id return_tokens_as_token_ids return_token_ids
    routed_experts_prompt_start return_token_offsets return_prompt_text mm_payload return_mm_kwargs cache_salt
    kv_transfer_params ec_transfer_params vllm_xargs repetition_detection stream_interval
    """.split()
)
"""The fields of `ChatCompletionRequest` in vLLM 0.32.0: `list(ChatCompletionRequest.model_fields)`."""

RENDER_ONLY = frozenset({"return_token_offsets", "mm_payload", "return_mm_kwargs"})
"""Of these, vLLM's chat endpoint ignores some: they are for its render endpoints."""

ROWS = {row.name: row for row in PARAMETERS}


def request(name: str, value: Any) -> dict[str, Any]:
    """A request with this parameter, and with the one that it needs."""
    needs = ROWS[name].needs
    return {name: value} | ({needs: True} if needs else {})


def found(fields: dict[str, Any]) -> list[ApiError]:
    return list(parameter_problems(fields))


def each(kind: int) -> list[Any]:
    return [
        pytest.param(name, entry, id=f"{name}-{index}")
        for name, case in CASES.items()
        for index, entry in enumerate(case[kind])
    ]


def test_every_parameter_has_values_that_are_accepted_and_values_that_are_refused() -> None:
    assert list(CASES) == [row.name for row in PARAMETERS]
    assert [name for name, (accepted, refused) in CASES.items() if not accepted or not refused] == []


@pytest.mark.parametrize(("name", "value"), each(0))
def test_accepted(name: str, value: Any) -> None:
    assert found(request(name, value)) == []


@pytest.mark.parametrize(("name", "refused"), each(1))
def test_refused(name: str, refused: Refused) -> None:
    value, param, code = refused
    (problem,) = found(request(name, value))
    assert (problem.status, problem.type) == (400, "invalid_request_error")
    assert (problem.param, problem.code) == (param, CODES[code])
    assert f"'{param}'" in problem.message
    assert len(problem.message) < 500


@pytest.mark.parametrize("name", ROWS)
def test_null_counts_as_not_given(name: str) -> None:
    assert found({name: None}) == []


def test_the_message_says_what_is_wrong_where_and_what_would_be_right() -> None:
    said = {
        ("temperature", 2.5): "Invalid 'temperature': decimal above maximum value. Expected a number from 0 to 2, "
        "but got 2.5 instead.",
        ("temperature", "hot"): "Invalid type for 'temperature': expected a number from 0 to 2, "
        "but got a string instead.",
        ("n", 0): "Invalid 'n': integer below minimum value. Expected an integer from 1 to 128, but got 0 instead.",
        ("seed", 2**63): "Invalid 'seed': integer above maximum value. Expected an integer from -2^63 to 2^63-1, "
        "but got 9223372036854775808 instead.",
        ("max_tokens", -(10**5000)): "Invalid 'max_tokens': integer below minimum value. Expected an integer from 1 to "
        "2^63-1, but got an integer of more than 100 digits instead.",
        ("repetition_penalty", -0.0): "Invalid 'repetition_penalty': decimal below minimum value. Expected a number "
        "greater than 0, but got -0.0 instead.",
        ("reasoning_effort", "ultra"): "Invalid value for 'reasoning_effort': expected 'none', 'minimal', 'low', "
        "'medium', 'high', 'xhigh' or 'max', got 'ultra'.",
        ("stop", ("a",) * 5): "Invalid 'stop': array too long. Expected an array of at most 4 strings, but got an "
        "array with 5 instead.",
        ("stop", 5): "Invalid type for 'stop': expected a string or an array of at most 4 strings, "
        "but got an integer instead.",
        ("response_format", ()): "Invalid type for 'response_format': expected an object, but got an array instead.",
    }
    for (name, value), message in said.items():
        (problem,) = found({name: list(value) if isinstance(value, tuple) else value})
        assert problem.message == message
    (problem,) = found({"response_format": {}})
    assert problem.message == (
        "Missing required parameter: 'response_format.type'. "
        "Send 'text', 'json_object', 'json_schema' or 'structural_tag'."
    )
    (problem,) = found({"logit_bias": {"hello": 1}})
    assert problem.message == (
        "Invalid value for 'logit_bias.hello': for the name, expected a token's id in decimal digits, got 'hello'."
    )


@pytest.mark.parametrize(
    ("name", "value", "needs"),
    [
        ("stream_options", {"include_usage": True}, "stream"),
        ("top_logprobs", 3, "logprobs"),
        ("logprob_token_ids", [1], "logprobs"),
    ],
)
def test_some_parameters_need_another_to_be_true(name: str, value: Any, needs: str) -> None:
    assert ROWS[name].needs == needs
    for missing in ({}, {needs: None}, {needs: False}):
        (problem,) = found({name: value, **missing})
        assert (problem.param, problem.code) == (name, "invalid_value")
        assert problem.message == f"Invalid value for '{name}': it is only allowed when '{needs}' is true."
    assert found({name: value, needs: True}) == []


_JSON = {"type": "json_object"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            {"structured_outputs": {"regex": "a+", "choice": ["a"]}},
            "Invalid value for 'structured_outputs': expected one of json, regex, choice, grammar, json_object, "
            "structural_tag, got regex and choice.",
            id="two kinds",
        ),
        pytest.param(
            {"structured_outputs": {}},
            "Invalid value for 'structured_outputs': expected one of json, regex, choice, grammar, json_object, "
            "structural_tag, got none.",
            id="no kind",
        ),
        pytest.param(
            {"structured_outputs": {"regex": "a+"}, "response_format": _JSON},
            "Invalid value for 'structured_outputs': it can't be combined with 'response_format'; send one of the two.",
            id="two forms of text",
        ),
        pytest.param(
            {"prompt_logprobs": 0, "stream": True},
            "Invalid value for 'prompt_logprobs': it is not available when 'stream' is true.",
            id="a prompt's logprobs in a stream",
        ),
        pytest.param(
            {"continue_final_message": True, "add_generation_prompt": True},
            "Invalid value for 'continue_final_message': it can't be combined with 'add_generation_prompt': true.",
            id="to continue and to begin",
        ),
        pytest.param(
            {"min_tokens": 3, "max_tokens": 2},
            "Invalid value for 'min_tokens': expected at most the 2 tokens that the answer may have, got 3.",
            id="more than there may be",
        ),
        pytest.param(
            {"min_tokens": 3, "max_completion_tokens": 2, "max_tokens": 3},
            "Invalid value for 'min_tokens': expected at most the 2 tokens that the answer may have, got 3.",
            id="more than there may be by the newer name",
        ),
    ],
)
def test_some_parameters_do_not_go_together(fields: dict[str, Any], message: str) -> None:
    (problem,) = found(fields)
    assert (problem.status, problem.param, problem.code) == (400, next(iter(fields)), "invalid_value")
    assert problem.message == message


@pytest.mark.parametrize(
    "fields",
    [
        {"structured_outputs": {"regex": "a+"}, "response_format": {"type": "text"}},
        {"structured_outputs": None, "response_format": _JSON},
        {"structured_outputs": {"regex": "a+"}, "response_format": None},
        {"prompt_logprobs": 0, "stream": False},
        {"prompt_logprobs": None, "stream": True},
        {"continue_final_message": True, "add_generation_prompt": False},
        {"continue_final_message": False, "add_generation_prompt": True},
        {"continue_final_message": True},
        {"min_tokens": 3, "max_tokens": 3},
        {"min_tokens": 3, "max_tokens": 2, "max_completion_tokens": 3},
        {"min_tokens": 3, "max_tokens": None},
    ],
    ids=str,
)
def test_next_to_these_are_some_that_do(fields: dict[str, Any]) -> None:
    assert found(fields) == []


def test_problems_come_in_the_order_of_the_table() -> None:
    everything_wrong = {name: refused[0][0] for name, (_, refused) in reversed(CASES.items())}
    roots = [str(problem.param).partition(".")[0].partition("[")[0] for problem in found(everything_wrong)]
    assert list(dict.fromkeys(roots)) == list(ROWS)


def test_all_problems_of_one_parameter_are_found() -> None:
    problems = found({"logit_bias": {"7": 101, "x": "y"}, "stop": ["a", 1, None, "b", "c"]})
    assert [problem.param for problem in problems] == [
        "stop",
        "stop[1]",
        "stop[2]",
        "logit_bias.7",
        "logit_bias.x",
        "logit_bias.x",
    ]


def test_what_is_not_in_the_table_is_never_an_error() -> None:
    assert found({"prediction": 5, "audio": [], "web_search_options": "x", "no_such_thing": {"a": 1}, "": None}) == []


def test_what_goes_to_the_backend_is_what_vllm_uses() -> None:
    assert FORWARDED == VLLM_0_32 - TOOL_PARAMETERS - RENDER_ONLY


def test_what_only_openai_has_is_checked_and_dropped() -> None:
    assert {row.name for row in PARAMETERS if not row.forwarded} == {
        "metadata",
        "service_tier",
        "prompt_cache_key",
        "safety_identifier",
        "verbosity",
        "store",
        "modalities",
    }


def test_split_tells_what_is_sent_from_what_is_dropped() -> None:
    sent = {"model": "m", "messages": [], "temperature": 0.5, "top_k": 3, "stop": "."}
    dropped = {"store": True, "best_of": 2, "audio": {}, "guided_json": {}}
    tools = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "functions": [], "function_call": "none"}
    assert split({**tools, **dropped, **sent}) == (sent, ("audio", "best_of", "guided_json", "store"))
    assert split(sent) == (sent, ())
    assert split({}) == ({}, ())


def test_a_backend_may_take_more() -> None:
    fields = {"model": "m", "store": True, "best_of": 2}
    assert split(fields, ("best_of", "never_sent")) == ({"model": "m", "best_of": 2}, ("store",))


def test_the_tool_parameters_stay_the_gateways_own_even_when_a_backend_lists_them() -> None:
    assert split({"model": "m", "tools": []}, ("tools",)) == ({"model": "m"}, ())


def test_what_is_null_is_not_given() -> None:
    assert split({"model": "m", "stop": None, "ignore_eos": None, "unheard_of": None}) == ({"model": "m"}, ())


@pytest.mark.parametrize(
    ("openais", "vllms"),
    [
        ({"top_p": 0}, {"top_p": 1e-6}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        ({"temperature": 0, "n": 2}, {"temperature": 0.01, "n": 2}),
        ({"temperature": 0.0, "n": 128}, {"temperature": 0.01, "n": 128}),
        ({"temperature": 0, "n": 1}, {"temperature": 0, "n": 1}),
        ({"temperature": 0, "n": None}, {"temperature": 0}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"temperature": 0.5, "n": 2}, {"temperature": 0.5, "n": 2}),
        ({"stop": ""}, {}),
        ({"stop": ["", ".", ""]}, {"stop": ["."]}),
        ({"stop": [""]}, {}),
        ({"stop": ["a", "b"]}, {"stop": ["a", "b"]}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            {"response_format": {"type": "json_object"}},
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}},
        ),
    ],
)
def test_what_openai_allows_and_vllm_refuses_is_spelled_otherwise(openais: Any, vllms: Any) -> None:
    assert split(openais) == (vllms, ())


def test_split_leaves_the_request_as_it_is() -> None:
    fields = {"model": "m", "store": True}
    forwarded, _ = split(fields)
    forwarded["model"] = "other"
    assert fields == {"model": "m", "store": True}


MEMBERS = "type json_schema name schema strict include_usage json choice regex min_count 50256".split()
NUMBERS = st.integers() | st.floats() | st.sampled_from([2**63, -(2**63) - 1, 10**400, -(10**4000), 1e308, -0.0])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text() | st.sampled_from(["text", "json_schema", "none"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(MEMBERS), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(list(ROWS)), VALUES, max_size=5))
def test_any_json_gets_a_verdict(fields: dict[str, Any]) -> None:
    for problem in found(fields):
        error = json.loads(CHAT.error_body(problem))["error"]
        assert error["code"] in CODES.values()
        assert error["param"].startswith(tuple(fields))
        assert len(error["message"]) < 2000


SPELLED_OTHERWISE = {"top_p", "stop", "response_format"}


@given(st.dictionaries(st.text() | st.sampled_from(sorted(set(VLLM_0_32) - SPELLED_OTHERWISE)), VALUES))
def test_nothing_is_lost_in_a_split(fields: dict[str, Any]) -> None:
    forwarded, dropped = split(fields)
    given_ = {name for name, value in fields.items() if value is not None}
    assert {*forwarded, *dropped} == given_ - TOOL_PARAMETERS
    assert not forwarded.keys() & {*dropped}


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.generate_parameter_docs`"


def test_the_page_has_one_row_for_each_parameter() -> None:
    table = page().partition("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert [cells[0] for cells in rows] == [f"| `{name}`" for name in ROWS]
    assert {len(cells) for cells in rows} == {4}, "no cell holds a bar of its own"
