"""Every malformed request gets the error that says what to fix, and its backend never sees it."""

from __future__ import annotations

import re
from collections.abc import Callable

import orjson
import pytest

from extproc.config import Config, parse
from extproc.contract.errors import ApiError
from extproc.surfaces import find_problems, prepare
from tests.gateway import Gateway
from tests.malformed import ROWS, Row
from tests.malformed.edits import ARGUMENTS, SCHEMA, Edit, Mistake, edited, put, raw
from tests.malformed.legal import CHOOSING, LEGAL
from tests.malformed.limits import LIMITS
from tests.malformed.order import BASE, ORDER, PAIRS

CONFIG: Config = parse("""
models:
  - {name: coder, backend: qwen, tools: prompt, malformed_history: error}
backends:
  - {name: qwen, address: 127.0.0.1:8000}
""")
CHAT = "/v1/chat/completions"

every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def refused(body: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        prepare(body, CONFIG)
    return caught.value


def assert_helps(error: ApiError) -> None:
    """The message names the field, has the length of a message, and repeats no long value of the client's."""
    assert error.message.strip()
    assert len(error.message) < 600
    assert "x" * 150 not in error.message, "the corpus's long values are made of x"
    if error.param is not None:
        assert len(error.param) < 600
        assert error.param.rpartition(".")[2] in error.message


@every_row
def test_each_is_refused(row: Row) -> None:
    error = refused(row.make())
    assert (error.status, error.type, error.code, error.param) == (
        row.status,
        "invalid_request_error",
        row.code,
        row.param,
    )
    assert_helps(error)
    if row.place is not None:
        assert f"'{row.place}'" in error.message


@every_row
def test_each_is_refused_at_the_front_door(row: Row, gateway: Gateway) -> None:
    body = row.make()
    if row.code == ARGUMENTS:  # most models repair them
        body = body.replace(b'"coder"', b'"absent"', 1)
    reply = gateway.http.post(CHAT, content=body, headers={"content-type": "application/json"})
    assert reply.status_code == row.status
    assert re.match(r"application/json\b", reply.headers["content-type"])
    assert set(reply.json()) == {"error"}
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", row.code, row.param)
    assert error["message"]
    assert gateway.backend.requests == []


@every_row
def test_each_is_found_first_and_once(row: Row) -> None:
    """What follows from a mistake, such as a result whose call is lost, is told as well, but about another field."""
    found = find_problems(row.make(), CONFIG)
    assert (found[0].code, found[0].param) == (row.code, row.param)
    told = [(problem.param, problem.message if problem.code == SCHEMA else "") for problem in found]
    assert len(set(told)) == len(told)
    for problem in found:
        assert_helps(problem)


_LONG = "x" * 1_000_000


@pytest.mark.parametrize(
    "edit",
    [
        put("metadata", {_LONG: "v"}),
        put("logit_bias", {_LONG: 1}),
        put("tools[0].function.parameters.properties", {_LONG: {"type": "text"}}),
        put("tools[0].function.parameters.properties", {_LONG: {"$ref": "#/x"}}),
        put("metadata", raw(f'{{"{_LONG}": "1", "{_LONG}": "2"}}')),
        put("metadata", raw(f'{{"{_LONG}": {{"a": "1", "a": "2"}}}}')),
    ],
    ids=["a key", "a token", "a property", "a property that refers", "a key twice", "a key of two"],
)
def test_a_name_of_a_megabyte_makes_no_long_path(edit: Edit) -> None:
    error = refused(edited(CHOOSING, [edit]))
    assert error.status == 400
    assert_helps(error)


@pytest.mark.parametrize("name", LEGAL)
def test_what_they_are_made_from_is_legal(name: str) -> None:
    body = orjson.dumps(LEGAL[name])
    assert find_problems(body, CONFIG) == []
    assert prepare(body, CONFIG).model == "coder"


@pytest.mark.parametrize("make", LIMITS.values(), ids=LIMITS)
def test_what_is_just_legal_is_accepted(make: Callable[[], bytes]) -> None:
    assert find_problems(make(), CONFIG) == []
    assert prepare(make(), CONFIG).model == "coder"


class TestSeveralMistakes:
    def test_all_are_found_in_their_order(self) -> None:
        """Whatever the order of the request's own keys."""
        found = find_problems(edited(BASE, [mistake.edit for mistake in reversed(ORDER)]), CONFIG)
        assert [(problem.code, problem.param) for problem in found] == [(one.code, one.param) for one in ORDER]
        for problem in found:
            assert_helps(problem)

    @pytest.mark.parametrize("place", range(len(ORDER) - 1), ids=lambda place: ORDER[place].name)
    def test_of_two_the_first_is_reported(self, place: int) -> None:
        first = ORDER[place]
        for second in ORDER[place + 1 :]:
            self._assert_found(first, second)

    @pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].name} and {pair[1].name}")
    def test_none_hides_another(self, pair: tuple[Mistake, Mistake]) -> None:
        self._assert_found(*pair)

    def _assert_found(self, first: Mistake, second: Mistake) -> None:
        body = edited(BASE, [first.edit, second.edit])
        error = refused(body)
        assert (error.code, error.param) == (first.code, first.param)
        found = [(problem.code, problem.param) for problem in find_problems(body, CONFIG)]
        assert found[0] == (first.code, first.param)
        assert (second.code, second.param) in found

    def test_what_is_no_json_hides_the_rest(self) -> None:
        body = edited(BASE, [mistake.edit for mistake in ORDER]) + b"}"
        assert [problem.code for problem in find_problems(body, CONFIG)] == ["invalid_json"]

    def test_an_unknown_model_comes_before_the_messages(self) -> None:
        body = edited(BASE, [mistake.edit for mistake in ORDER[1:]]).replace(b'"coder"', b'"gpt-4"', 1)
        error = refused(body)
        assert (error.status, error.code, error.param) == (404, "model_not_found", "model")
        assert len(find_problems(body, CONFIG)) == len(ORDER)
