"""What can be asked beyond one question of one tool: many tools, results, several calls, choices, plain talk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.model_check_cases import agents, arrays, shapes, strings, values
from tests.model_check_cases.written import Written

_TABLES = (values, strings, arrays, shapes, agents)
TOOLS: Mapping[str, Written] = {tool.name: tool for table in _TABLES for tool in table.TOOLS}
Case = dict[str, Any]

# Which tools are offered together; the first is the one that is asked for. None has a long definition.
_SETS: tuple[tuple[str, ...], ...] = (
    ("get_weather", "send_message", "set_timer", "switch_light", "play_music", "search_web", "get_time", "add_to_list"),
    ("set_timer", "get_weather", "roll_dice", "average", "get_time", "set_thermostat", "find_customer", "translate"),
    ("read_file", "write_file", "edit_file", "run_command", "search_code", "fetch_page", "rename_file", "make_folders"),
    ("run_command", "read_file", "write_file", "search_code", "edit_file", "query_database", "update_todo", "get_time"),
    ("track_parcel", "get_order", "ship_order", "find_customer", "order_eggs", "create_invoice", "pay", "send_message"),
    (
        "assign_task",
        "set_priority",
        "set_deadline",
        "list_open_tickets",
        "set_tags",
        "create_note",
        "update_todo",
        "react",
    ),
)
_LARGE = tuple(
    """get_weather send_message translate list_open_tickets get_time roll_dice set_timer order_eggs convert_currency
    switch_light set_notifications set_priority set_log_level set_speed assign_task book_table fetch_page get_order
    track_parcel set_colour set_pin average rename_file read_file""".split()
)
_ASKED_OF_LARGE = ("set_colour", "rename_file", "convert_currency", "get_order", "set_pin", "roll_dice")

# Tools that are easily taken for one another: the first is right.
_ALIKE: tuple[tuple[str, ...], ...] = (
    ("set_deadline", "assign_task", "set_priority"),
    ("write_file", "edit_file", "read_file"),
    ("search_code", "search_web", "search_knowledge"),
    ("get_order", "track_parcel", "ship_order"),
    ("set_log_level", "set_speed", "set_priority"),
    ("query_database", "run_command", "http_request"),
)

# One question that needs several calls.
_SEVERAL: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, Mapping[str, Any]], ...]], ...] = (
    (
        "What is the weather in Rome and in Oslo?",
        ("get_weather",),
        (("get_weather", {"city": "Rome"}), ("get_weather", {"city": "Oslo"})),
    ),
    (
        "Switch on the light in the hall and set the bedroom to 18 degrees.",
        ("switch_light", "set_thermostat"),
        (("switch_light", {"room": "hall", "on": True}), ("set_thermostat", {"room": "bedroom", "degrees": 18})),
    ),
    (
        "Read the files a.txt, b.txt and c.txt.",
        ("read_file",),
        (("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}), ("read_file", {"path": "c.txt"})),
    ),
    (
        "Assign task 5 to Priya and give task 12 high priority.",
        ("assign_task", "set_priority"),
        (("assign_task", {"task": 5, "assignee": "Priya"}), ("set_priority", {"task": 12, "priority": "high"})),
    ),
    (
        "Send Maria the message: I am late. Send Tom the message: Start without me.",
        ("send_message",),
        (
            ("send_message", {"to": "Maria", "text": "I am late."}),
            ("send_message", {"to": "Tom", "text": "Start without me."}),
        ),
    ),
    (
        "Convert 10 EUR to USD, and 10 EUR to JPY.",
        ("convert_currency",),
        (
            ("convert_currency", {"amount": 10, "source": "EUR", "target": "USD"}),
            ("convert_currency", {"amount": 10, "source": "EUR", "target": "JPY"}),
        ),
    ),
)

# A question, its call, the result, and what the user says then if anything; the answer is words.
_ANSWERED: tuple[tuple[str, str, Mapping[str, Any], str, str | None], ...] = (
    ("What is the weather in Lisbon?", "get_weather", {"city": "Lisbon"}, "18 degrees and sunny", None),
    ("What time is it on the server?", "get_time", {}, "14:05 UTC", None),
    ("Where is parcel RA123456789?", "track_parcel", {"number": "RA123456789"}, "In Bonn since Monday", None),
    ("Average 2 and 4 with the tool.", "average", {"numbers": [2, 4]}, "3", None),
    ("Send Tom the message: Hi!", "send_message", {"to": "Tom", "text": "Hi!"}, "sent", "Thank you, that was all."),
    ("Run git status.", "run_command", {"command": "git status"}, "nothing to commit", "Good. Bye!"),
    ("Roll one die with 6 sides.", "roll_dice", {"count": 1, "sides": 6}, "[4]", "Is that an even number?"),
    ("Look up customer 1042.", "find_customer", {"customer": 1042}, "Olsen, Bergen", "Which city did it say?"),
)

# The same, and then something is wanted that needs a call: of which tool, with which arguments.
_CONTINUED: tuple[tuple[str, str, Mapping[str, Any], str, str, str, Mapping[str, Any]], ...] = (
    (
        *("What is the weather in Lisbon?", "get_weather", {"city": "Lisbon"}, "18 degrees and sunny"),
        *("And in Porto?", "get_weather", {"city": "Porto"}),
    ),
    (
        *("Read the file notes.txt.", "read_file", {"path": "notes.txt"}, "buy milk"),
        *("Now write 'done' to notes.txt.", "write_file", {"path": "notes.txt", "content": "done"}),
    ),
    (
        *("Roll one die with 6 sides.", "roll_dice", {"count": 1, "sides": 6}, "[4]"),
        *("Roll it again.", "roll_dice", {"count": 1, "sides": 6}),
    ),
    (
        *("Find customer 1042.", "find_customer", {"customer": 1042}, "Olsen"),
        *("Send Olsen the message: Hello.", "send_message", {"to": "Olsen", "text": "Hello."}),
    ),
    (
        *("Switch on the light in the hall.", "switch_light", {"room": "hall", "on": True}, "on"),
        *("Switch it off again.", "switch_light", {"room": "hall", "on": False}),
    ),
    (
        *("Which support tickets are open?", "list_open_tickets", {}, "[12, 15]"),
        *("Give task 12 high priority.", "set_priority", {"task": 12, "priority": "high"}),
    ),
)

# `tool_choice`, and what is asked: the choice decides whether there is a call.
_CHOICES: tuple[tuple[str, str, str, Mapping[str, Any] | None], ...] = (
    ("none", "get_weather", "What is the weather in Lisbon right now?", None),
    ("none", "read_file", "Read the file src/main.py.", None),
    ("none", "set_timer", "Set a timer called tea for 180 seconds.", None),
    ("none", "create_invoice", "Invoice Acme for 3 chairs at 49.9 each.", None),
    ("required", "get_weather", "Find out about the weather in Berlin.", {"city": "Berlin"}),
    ("required", "set_priority", "Task 7 is urgent.", {"task": 7, "priority": "urgent"}),
    (
        *("required", "create_event", "Lunch on 2026-04-03 at 12."),
        {"title": "Lunch", "time": {"day": "2026-04-03", "hour": 12}},
    ),
    ("required", "order_pizza", "A small pizza with ham.", {"size": "small", "toppings": ["ham"]}),
    ("named", "read_file", "Have a look at notes.md.", {"path": "notes.md"}),
    ("named", "save_scores", "carl has 30 points.", {"points": {"carl": 30}}),
    ("named", "pay", "30 with the card ending in 4242.", {"amount": 30, "by": {"kind": "card", "last_digits": "4242"}}),
    (
        *("named", "transfer_stock", "20 pieces from warehouse North to warehouse South."),
        {"from": {"warehouse": "North"}, "to": {"warehouse": "South"}, "pieces": 20},
    ),
)

_TALK = (
    "Hello!",
    "Thank you, that's all for today.",
    "Write a rhyme of two lines about rain.",
    "Explain recursion in one sentence.",
    "What is 7 times 8? Answer from your head.",
    "Which of these words is a verb: run, blue, house?",
)
_OFFERED_WITH_TALK = ("create_invoice", "read_file", "set_thermostat", "get_order", "run_command", "pay")


def cases() -> Iterator[Case]:
    """All of them, without `since` and `licence`."""
    yield from _single()
    yield from _many()
    yield from _several()
    yield from _after_results()
    yield from _by_choice()
    yield from _talk()


def _case(id_: str, feature: str, offered: Sequence[str], messages: Sequence[Case], expected: Case) -> Case:
    tools = [TOOLS[name].definition for name in offered]
    return {"id": id_, "feature": feature, "tools": tools, "messages": list(messages), "expected": expected}


def _calls(*calls: tuple[str, Mapping[str, Any]]) -> Case:
    return {"call": True, "example": [{"name": name, "arguments": dict(arguments)} for name, arguments in calls]}


_WORDS: Case = {"call": False, "example": []}


def _user(text: str) -> Case:
    return {"role": "user", "content": text}


def _single() -> Iterator[Case]:
    for tool in TOOLS.values():
        for number, (question, arguments) in enumerate(tool.asks, 1):
            expected = _calls((tool.name, arguments))
            yield _case(f"{tool.name}:call-{number}", tool.feature, [tool.name], [_user(question)], expected)
        yield _case(f"{tool.name}:near", tool.feature, [tool.name], [_user(tool.near)], _WORDS)


def _many() -> Iterator[Case]:
    for feature, sets in (("some_tools", _SETS), ("alike", _ALIKE)):
        for names in sets:
            tool = TOOLS[names[0]]
            question, arguments = tool.asks[-1]
            offered = [*names[1:], names[0]] if feature == "alike" else sorted(names)
            id_ = f"{feature}:{tool.name}"
            yield _case(id_, feature, offered, [_user(question)], _calls((tool.name, arguments)))
            if feature == "some_tools":
                yield _case(f"{id_}:near", feature, offered, [_user(tool.near)], _WORDS)
    for name in _ASKED_OF_LARGE:
        question, arguments = TOOLS[name].asks[0]
        yield _case(f"many_tools:{name}", "many_tools", _LARGE, [_user(question)], _calls((name, arguments)))
    for name in _ASKED_OF_LARGE[:3]:
        yield _case(f"many_tools:{name}:near", "many_tools", _LARGE, [_user(TOOLS[name].near)], _WORDS)


def _several() -> Iterator[Case]:
    for number, (question, offered, calls) in enumerate(_SEVERAL, 1):
        yield _case(f"several_calls:{number}", "several_calls", offered, [_user(question)], _calls(*calls))


def _with_result(question: str, name: str, arguments: Mapping[str, Any], result: str) -> list[Case]:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return [
        _user(question),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": result},
    ]


def _after_results() -> Iterator[Case]:
    for number, (question, name, arguments, result, then) in enumerate(_ANSWERED, 1):
        messages = _with_result(question, name, arguments, result)
        if then is not None:
            messages += [{"role": "assistant", "content": f"The result is: {result}."}, _user(then)]
        yield _case(f"answered:{number}", "answered", [name], messages, _WORDS)
    for number, (question, name, arguments, result, then, tool, wanted) in enumerate(_CONTINUED, 1):
        messages = _with_result(question, name, arguments, result)
        messages += [{"role": "assistant", "content": f"The result is: {result}."}, _user(then)]
        offered = list(dict.fromkeys([name, tool]))
        yield _case(f"continued:{number}", "continued", offered, messages, _calls((tool, wanted)))


def _by_choice() -> Iterator[Case]:
    for choice, name, question, arguments in _CHOICES:
        offered = [name, "get_time", "send_message"]
        expected = _WORDS if arguments is None else _calls((name, arguments))
        case = _case(f"choice_{choice}:{name}", f"choice_{choice}", offered, [_user(question)], expected)
        named = {"type": "function", "function": {"name": name}}
        yield {**case, "tool_choice": named if choice == "named" else choice}


def _talk() -> Iterator[Case]:
    for number, (question, name) in enumerate(zip(_TALK, _OFFERED_WITH_TALK, strict=True), 1):
        yield _case(f"talk:{number}", "talk", [name, "get_weather", "search_web"], [_user(question)], _WORDS)
