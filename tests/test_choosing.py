"""Which of several models a conversation is asked of: the same one at every turn, whatever it is and however long."""

from __future__ import annotations

import json
import time
from typing import Any, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extproc.config import Choice
from extproc.contract.errors import ApiError
from extproc.names import CHAT_PATH, MESSAGES_PATH, RESPONSES_PATH
from extproc.surfaces import ROUTES, known_of, prepare
from extproc.surfaces.choosing import LONGEST_TEXT, MEMBERS, MOST_PIECES, NOBODY, choice_by, choice_of
from extproc.turn.memory import Memory
from tests.request_strategies import json_values
from tests.test_aliases import HALVES, TOOL, asked_model, chat

Json: TypeAlias = dict[str, Any]

# ---- a conversation stays with its model

SYSTEM = {"role": "system", "content": "You help."}
ANSWERED = ({"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And then?"})


@given(st.text(min_size=1))
def test_later_turns_are_asked_of_the_same_model(text: str) -> None:
    first = asked_model(chat(text), HALVES)
    assert asked_model(chat(text, *ANSWERED), HALVES) == first
    # With what is known of the conversation, and with other parameters, too.
    memory = Memory()
    for body in (chat(text, tools=[TOOL]), chat(text, *ANSWERED, tools=[TOOL], temperature=0.5)):
        assert asked_model(body, HALVES, memory=memory) == asked_model(body, HALVES) == first


def messages(text: Any, *later: Any, system: Any = "You help.") -> bytes:
    said = [{"role": "user", "content": text}, *later]
    return json.dumps({"model": "coder", "max_tokens": 9, "system": system, "messages": said}).encode()


def responses(items: Any) -> bytes:
    return json.dumps({"model": "coder", "input": items}).encode()


def test_in_every_dialect_however_texts_are_wrapped() -> None:
    cached = {"cache_control": {"type": "ephemeral"}}
    seen = set()
    for count in range(40):
        text = f"Question {count}"
        part = {"type": "text", "text": text}
        for path, bodies in {
            MESSAGES_PATH: [
                messages(text),
                messages([part]),
                messages([part | cached], system=[{"type": "text", "text": "You help."} | cached]),
                messages([part], *ANSWERED),
            ],
            RESPONSES_PATH: [
                responses([{"role": "user", "content": text}]),
                responses([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]),
                responses(
                    [
                        {"role": "user", "content": text},
                        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
                        {"role": "user", "content": "And then?"},
                    ]
                ),
            ],
        }.items():
            (model,) = {asked_model(body, HALVES, path) for body in bodies}
            seen.add((path, model))
    assert seen == {(path, model) for path in (MESSAGES_PATH, RESPONSES_PATH) for model in ("old", "new")}


@pytest.mark.parametrize("kind", ["reasoning", "function_call", "shell_call", "web_search_call", "mcp_call"])
def test_whatever_an_answer_begins_with_is_no_more_of_the_beginning(kind: str) -> None:
    found = set()
    for count in range(20):
        said = {"role": "user", "content": f"Question {count}"}
        choices = [
            choice_of({"model": "coder", "input": [said, *later]}, HALVES, RESPONSES_PATH, NOBODY)
            for later in ((), ({"type": kind},))
        ]
        assert choices[0] is not None
        assert choices[0] == choices[1]
        found.add(choices[0].model)
    assert found == {"old", "new"}


STRAY = {
    "system": "Stray.",
    "instructions": "Strayed.",
    "messages": "No.",
    "input": [{"role": "user", "content": "What?"}],
}


def test_each_dialects_own_members_tell_a_conversation() -> None:
    assert MEMBERS.keys() == ROUTES.keys()
    for path, own in MEMBERS.items():
        continued = ROUTES[path].continued
        assert continued is None or (continued.items == own.items and own.system in {None, *continued.head})
        stray = {name: value for name, value in STRAY.items() if name not in own}
        found = set()
        for count in range(20):
            fields = {"model": "coder", own.items: [{"role": "user", "content": f"Question {count}"}], "tools": [TOOL]}
            choices = {choice_of(each, HALVES, path, NOBODY) for each in (fields, fields | stray, stray | fields)}
            if continued is not None:
                for body in (fields, fields | stray):
                    beginning = known_of(json.dumps(body).encode(), HALVES, path, Memory(), None)
                    assert beginning is not None
                    choices.add(beginning.choice)
            (choice,) = choices
            assert choice is not None
            found.add(choice.model)
        assert found == {"old", "new"}


def test_a_text_is_short_for_what_the_user_says() -> None:
    for count in range(20):
        text = f"Question {count}"
        bodies = [{"model": "coder", "input": said} for said in (text, [{"role": "user", "content": text}])]
        assert len({choice_of(body, HALVES, RESPONSES_PATH, NOBODY) for body in bodies}) == 1


# ---- it takes no longer for a long one


def both(fields: Any, path: str = CHAT_PATH) -> Choice | None:
    """Whom it is asked of, whether its beginning is looked for or not."""
    beginning = known_of(json.dumps(fields).encode(), HALVES, path, Memory(), None)
    choice = choice_of(fields, HALVES, path, NOBODY)
    assert beginning is None or beginning.choice == choice
    return choice


def of_parts(*content: Any) -> Json:
    return {"model": "coder", "messages": [{"role": "user", "content": [*content]}], "tools": [TOOL]}


def test_only_so_many_pieces_tell_a_conversation() -> None:
    texts = [f"Part {number}." for number in range(MOST_PIECES + 1)]
    choice = both(of_parts(*texts))
    for number in range(30):
        assert both(of_parts(*texts[: MOST_PIECES - 1], f"Other {number}.")) == choice  # the role is one more
    assert {both(of_parts(*texts[: MOST_PIECES - 2], f"Other {number}.")) for number in range(30)} > {choice}
    left = iter(range(10 * MOST_PIECES))
    assert choice_by("coder", [], ({"role": "user", "content": str(each)} for each in left), HALVES, NOBODY) is not None
    assert next(left) <= MOST_PIECES


def test_a_long_text_is_told_by_its_ends_and_its_length() -> None:
    half = "x" * (LONGEST_TEXT // 2)
    choice = both(of_parts(f"{half}y{half}"))
    assert both(of_parts(f"{half}z{half}")) == choice
    for other in ("{0}{0}%s", "%s{0}{0}"):
        assert len({both(of_parts(other.format(half) % f"{number:03}")) for number in range(30)}) == 2
    assert len({both(of_parts(f"{half}{'y' * number}{half}")) for number in range(30)}) == 2


@pytest.mark.parametrize(
    "part",
    [[0] * 440_000, {"a": [0] * 440_000}, {f"a{number}": 0 for number in range(70_000)}, [[]] * 220_000],
    ids=["numbers", "a list", "members", "lists"],
)
def test_no_value_has_the_others_wait(part: Any) -> None:
    fields = of_parts(part)
    began = time.thread_time()
    assert choice_of(fields, HALVES, CHAT_PATH, NOBODY) is not None
    assert time.thread_time() - began < 0.05  # some 50 times as much as it takes
    body = json.dumps(fields, separators=(",", ":")).encode()
    assert known_of(body, HALVES, CHAT_PATH, Memory(), None) is None  # it is read elsewhere
    stray = {"model": "coder", "messages": [{"role": "user", "content": "Hi.", "stray": part}], "tools": [TOOL]}
    body = json.dumps(stray, separators=(",", ":")).encode()
    assert known_of(body, HALVES, CHAT_PATH, Memory(), None) is None


anything = st.one_of(json_values, st.just(1 << 16_000), st.text(st.characters(), max_size=5))
items = st.lists(
    st.one_of(
        anything, st.fixed_dictionaries({}, optional=dict.fromkeys(("role", "type", "content", "text"), anything))
    ),
    max_size=4,
)
conversations = st.fixed_dictionaries(
    {"model": st.just("coder")},
    optional=dict.fromkeys(("messages", "input"), st.one_of(anything, items))
    | dict.fromkeys(("system", "instructions"), st.one_of(anything, items)),
)


@given(conversations)
@example({"model": "coder", "input": [{"role": "user", "type": []}]})
@example({"model": "coder", "messages": [{"role": "user", "type": {}, "content": {"type": {}}}]})
@example({"model": "coder", "messages": [{"role": "\ud800", "content": [1 << 16_000, {"a": 1 << 16_000}]}]})
def test_a_model_is_found_for_whatever_is_sent(fields: Any) -> None:
    for path in MEMBERS:
        choice = choice_of(fields, HALVES, path, NOBODY)
        assert choice is not None
        assert choice.model in {"old", "new"}
        try:
            body = json.dumps({**fields, "tools": [TOOL]}).encode()
        except ValueError:  # an integer of more digits than it writes
            continue
        beginning = known_of(body, HALVES, path, Memory(), None)
        assert beginning is None or beginning.choice == choice


def test_each_model_is_asked_in_its_own_way() -> None:
    """What is known of one's conversations is nothing that is known of the other's."""
    memory, found = Memory(), set()
    for count in range(20):
        body = chat(f"Question {count}", tools=[TOOL])
        known, fresh = prepare(body, HALVES, memory=memory), prepare(body, HALVES)
        memory.learn(None, known.learned)
        assert known.model is not None
        assert (known.body, known.backend, known.answer) == (fresh.body, fresh.backend, fresh.answer)
        assert known.asked is not None
        found.add((known.model, known.backend, known.asked.mode))
    assert found == {("old", "one", "prompt"), ("new", "two", "template")}


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [7, None, {"content": {"a": [1 << 80]}}, []]},
        {"messages": "text"},
        {"messages": [{"role": "user", "content": "\ud800"}]},
        {"input": [{"type": "reasoning"}]},
        {},
    ],
)
def test_what_is_wrong_is_worded_as_for_one_model(fields: Any) -> None:
    def problem(name: str) -> str:
        with pytest.raises(ApiError) as raised:
            prepare(json.dumps({"model": name, "tools": [TOOL], **fields}).encode(), HALVES, memory=Memory())
        return str(raised.value)

    assert problem("coder") == problem("plain")
