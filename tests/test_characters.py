"""What a character's file may define, what becomes of one that breaks a rule, and how a call's arguments are read.

The rules are those of the data model of characters' tools: its tables, its names of errors, its words.
"""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from extproc.runner.characters import program
from extproc.runner.characters.parameters import ArgumentsError, Parameters
from extproc.runner.characters.process import Lines
from extproc.runner.characters.sandbox import seccomp_filter
from extproc.runner.characters.validation import Definition, State, checked, named

Json: TypeAlias = dict[str, Any]

GENERATOR = """
class PromptGenerator:
    def handle_tool_call(self, tool_name, tool_input):
        return "done"
"""


def defined(source: str) -> Definition:
    """What a file of this content defines. Only for content that does nothing: it runs here."""
    worker = program.Worker()
    try:
        return checked(json.dumps(worker.load("c", "c.py", source.encode())).encode())
    finally:
        if worker._loop is not None:
            worker._loop.close()


def tool(**changes: Any) -> Json:
    function = {"name": "log", "description": "Log an event", "parameters": PARAMETERS, **changes}
    return {"type": "function", "function": {key: value for key, value in function.items() if value is not ...}}


def with_tools(*tools: Any, generator: str = GENERATOR) -> str:
    return f"TOOLS = {list(tools)!r}\n{generator}"


def with_parameters(**changes: Any) -> str:
    return with_tools(tool(parameters={**PARAMETERS, **changes}))


def with_property(schema: Any) -> str:
    return with_parameters(properties={"event": schema})


PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "description": "The event"},
        "importance": {"type": "string", "enum": ["low", "medium", "high"]},
    },
    "required": ["event"],
}
MANY = [f"v{number}" for number in range(11)]


def names(*given: str) -> str:
    return with_tools(*(tool(name=name) for name in given))


def strings(*given: str) -> Json:
    return {name: {"type": "string"} for name in given}


NAME, WORDS, SCHEMA = (f"tools[0].function.{member}" for member in ("name", "description", "parameters"))
BROKEN: dict[str, tuple[str, str, str]] = {
    # what: content, error, place
    "a tuple of tools": (f"TOOLS = ()\n{GENERATOR}", "TypeError", "TOOLS"),
    "a dict of tools": (f"TOOLS = {{}}\n{GENERATOR}", "TypeError", "TOOLS"),
    "eleven tools": (names(*(f"t{number}" for number in range(11))), "ValueError", "TOOLS"),
    "a tool that is text": (with_tools("log"), "ValueError", "tools[0]"),
    "a tool without a type": (with_tools({"function": tool()["function"]}), "ValueError", "tools[0].type"),
    "a tool of another type": (with_tools({**tool(), "type": "custom"}), "ValueError", "tools[0].type"),
    "a tool without a function": (with_tools({"type": "function"}), "ValueError", "tools[0].function"),
    "a function that is text": (with_tools({"type": "function", "function": "x"}), "ValueError", "tools[0].function"),
    "a tool that is no JSON": (with_tools(tool(strict={1, 2})), "ValueError", "tools[0]"),
    "a tool with half a character": (with_tools(tool(description="\ud800")), "ValueError", "tools[0]"),
    "a tool with a huge integer": (with_property({"type": "string", "minLength": 10**30}), "ValueError", "tools[0]"),
    "a name that is missing": (with_tools(tool(name=...)), "InvalidName", NAME),
    "a name that is a number": (with_tools(tool(name=5)), "InvalidName", NAME),
    "a name used twice": (names("log", "other", "log"), "DuplicateName", "tools[2].function.name"),
    "an empty name": (names(""), "InvalidName", NAME),
    "a name with a hyphen": (names("log-it"), "InvalidName", NAME),
    "a name with an underscore first": (names("_log"), "InvalidName", NAME),
    "a name with a digit first": (names("1log"), "InvalidName", NAME),
    "a name with a line end": (names("log\n"), "InvalidName", NAME),
    "a name of another alphabet": (names("журнал"), "InvalidName", NAME),
    "a name of 51 characters": (names("a" * 51), "InvalidName", NAME),
    "no description": (with_tools(tool(description=...)), "ValueError", WORDS),
    "an empty description": (with_tools(tool(description="")), "ValueError", WORDS),
    "a blank description": (with_tools(tool(description=" ")), "ValueError", WORDS),
    "a description that is a list": (with_tools(tool(description=["x"])), "ValueError", WORDS),
    "a description of 201 characters": (
        with_tools(tool(description="x" * 201)), "ValueError", WORDS,
    ),
    "a default that is none of its values": (
        with_property({"type": "string", "enum": ["a", "b"], "default": "zz"}), "ValidationError",
        f"{SCHEMA}.properties.event.default",
    ),
    "parameters that are a list": (with_tools(tool(parameters=[])), "ValidationError", SCHEMA),
    "empty parameters": (with_tools(tool(parameters={})), "ValidationError", f"{SCHEMA}.type"),
    "parameters of another type": (with_parameters(type="array"), "ValidationError", f"{SCHEMA}.type"),
    "eleven properties": (
        with_parameters(properties=strings(*MANY, "event")),
        "ValidationError", f"{SCHEMA}.properties",
    ),
    "eleven values": (with_property({"enum": MANY}), "ValidationError", f"{SCHEMA}.properties.event.enum"),
    "a type that there isn't": (
        with_property({"type": "text"}), "ValidationError", f"{SCHEMA}.properties.event.type",
    ),
    "a property that is no schema": (
        with_property("string"), "ValidationError", f"{SCHEMA}.properties.event",
    ),
    "required that is no list": (
        with_parameters(required="event"), "ValidationError", f"{SCHEMA}.required",
    ),
    "a reference": (
        with_property({"$ref": "#/$defs/a"}), "ValidationError", f"{SCHEMA}.properties.event.$ref",
    ),
    "a schema that refers to itself": (
        with_property({"type": "array", "items": {"$ref": "#"}}),
        "ValidationError", f"{SCHEMA}.properties.event.items.$ref",
    ),
    "a dynamic reference": (
        with_property({"$dynamicRef": "#a"}),
        "ValidationError", f"{SCHEMA}.properties.event.$dynamicRef",
    ),
    "parameters that contain themselves": (
        f"{with_tools(tool())}\nP = TOOLS[0]['function']['parameters']\nP['properties']['event']['items'] = P",
        "ValidationError", SCHEMA,
    ),
    "parameters with infinity": (
        with_property({"type": "number"}).replace("'number'", "'number', 'maximum': float('inf')"),
        "ValidationError", SCHEMA,
    ),
    "parameters of 40 kB": (
        with_property({"description": "x" * 40_000}), "ValidationError", SCHEMA,
    ),
    "tools and no generator": (
        with_tools(tool(), generator=""), "MissingMethod", "PromptGenerator.handle_tool_call",
    ),
    "tools and no method": (
        with_tools(tool(), generator="class PromptGenerator: pass"),
        "MissingMethod", "PromptGenerator.handle_tool_call",
    ),
    "a method that is none": (
        with_tools(tool(), generator="class PromptGenerator:\n handle_tool_call = 5"),
        "MissingMethod", "PromptGenerator.handle_tool_call",
    ),
    "a system prompt that is a list": ("SYSTEM_PROMPT = []", "TypeError", "SYSTEM_PROMPT"),
    "a system prompt with half a character": ("SYSTEM_PROMPT = '\\ud800'", "TypeError", "SYSTEM_PROMPT"),
    "a model that is a number": ("MODEL = 4", "TypeError", "MODEL"),
    "an empty model": ("MODEL = ''", "TypeError", "MODEL"),
    "tool servers that are text": ("TOOL_SERVERS = 'wiki'", "TypeError", "TOOL_SERVERS"),
    "tool servers that are numbers": ("TOOL_SERVERS = [1]", "TypeError", "TOOL_SERVERS"),
    "a time limit that is text": ("TIME_LIMIT = '1'", "TypeError", "TIME_LIMIT"),
    "a time limit that is a boolean": ("TIME_LIMIT = True", "TypeError", "TIME_LIMIT"),
    "a time limit of nothing": ("TIME_LIMIT = 0", "TypeError", "TIME_LIMIT"),
    "a time limit of an hour": ("TIME_LIMIT = 3600", "TypeError", "TIME_LIMIT"),
    "a time limit that is no number": ("TIME_LIMIT = float('nan')", "TypeError", "TIME_LIMIT"),
    "a syntax error": ("def", "LoadError", ""),
    "an exception": ("\n1 / 0", "LoadError", ""),
    "an exit": ("import sys; sys.exit('no')", "LoadError", ""),
    "a generator that raises": ("class PromptGenerator:\n def __init__(self): 1 / 0", "LoadError", ""),
    "tools that raise": ("class PromptGenerator:\n def get_tools(self): 1 / 0", "LoadError", ""),
    "bytes that are no text": ("x = '\\udc80'\nraise ValueError(x)", "LoadError", ""),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_file_that_breaks_a_rule_has_failed_and_says_which_and_where(what: str) -> None:
    content, kind, where = BROKEN[what]
    found = defined(content)
    assert found.state is State.FAILED_VALIDATION
    assert [(problem.kind, problem.where) for problem in found.problems] == [(kind, where)]
    assert found.tools == ()


SOUND: dict[str, tuple[str, State]] = {
    "an empty file": ("", State.LOADED_NO_TOOLS),
    "no tools": ("TOOLS = None", State.LOADED_NO_TOOLS),
    "a list of no tools": ("TOOLS = []", State.LOADED_NO_TOOLS),
    "one tool": (with_tools(tool()), State.LOADED_WITH_TOOLS),
    "ten tools": (names(*(f"t{number}" for number in range(10))), State.LOADED_WITH_TOOLS),
    "a name of 50 characters": (names("a" * 50), State.LOADED_WITH_TOOLS),
    "a name of one letter": (names("A"), State.LOADED_WITH_TOOLS),
    "names that differ in case": (names("log", "Log"), State.LOADED_WITH_TOOLS),
    "a description of 200 characters": (with_tools(tool(description="x" * 200)), State.LOADED_WITH_TOOLS),
    "no parameters": (with_tools(tool(parameters=...)), State.LOADED_WITH_TOOLS),
    "parameters that are None": (with_tools(tool(parameters=None)), State.LOADED_WITH_TOOLS),
    "ten properties": (
        with_parameters(properties=strings(*MANY[:9], "event")), State.LOADED_WITH_TOOLS,
    ),
    "ten values": (with_property({"enum": MANY[:10]}), State.LOADED_WITH_TOOLS),
    **{
        f"a property of type {kind}": (with_property({"type": kind}), State.LOADED_WITH_TOOLS)
        for kind in ("string", "number", "boolean", "array", "object", "integer", "null", ["string", "null"])
    },
    "a property called $ref": (with_parameters(properties=strings("$ref", "event")), State.LOADED_WITH_TOOLS),
    "a value called $ref": (with_property({"enum": [{"$ref": "#"}]}), State.LOADED_WITH_TOOLS),
    "a method that is async": (
        with_tools(tool(), generator=GENERATOR.replace("def", "async def")), State.LOADED_WITH_TOOLS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SOUND)
def test_a_sound_file_is_loaded(what: str) -> None:
    content, state = SOUND[what]
    found = defined(content)
    assert (found.problems, found.state) == ((), state)


def test_all_that_is_wrong_is_told_at_once() -> None:
    bad = tool(name="_x", description="", parameters={"type": "array", "properties": {"a": {"$ref": "#"}}})
    found = defined(f"MODEL = 1\nTOOLS = {[bad, 5]!r}")
    assert [(problem.kind, problem.where) for problem in found.problems] == [
        ("InvalidName", "tools[0].function.name"),
        ("ValueError", "tools[0].function.description"),
        ("ValidationError", "tools[0].function.parameters.type"),
        ("ValidationError", "tools[0].function.parameters.properties.a.$ref"),
        ("ValueError", "tools[1]"),
        ("MissingMethod", "PromptGenerator.handle_tool_call"),
        ("TypeError", "MODEL"),
    ]


def test_a_fault_says_in_which_line_it_is() -> None:
    assert "line 2" in defined("\n1 / 0").problems[0].message
    assert "line 3" in defined("\n\ndef").problems[0].message


def test_what_a_fault_says_is_one_line() -> None:
    (problem,) = defined("raise ValueError('a\\n\\x1b[2Jb' + 'x' * 10000 + '\\ud800')").problems
    assert problem.message.startswith("ValueError: a [2Jbxxx")
    assert len(problem.message) <= 500


def test_get_tools_wins_over_the_variable() -> None:
    method = f"{GENERATOR}    def get_tools(self): return {[tool(name='other')]!r}"
    assert [one["function"]["name"] for one in defined(with_tools(tool(), generator=method)).tools] == ["other"]
    assert defined(with_tools(tool(), generator=f"{GENERATOR}    def get_tools(self): return None")).tools == ()


@pytest.mark.parametrize(
    ("content", "prompt"),
    [
        ("", None),
        ("SYSTEM_PROMPT = 'variable'", "variable"),
        ("SYSTEM_PROMPT = 'variable'\ndef get_system_prompt(): return 'function'", "function"),
        (
            "SYSTEM_PROMPT = 'variable'\ndef get_system_prompt(): return 'function'\n"
            "class PromptGenerator:\n def get_system_prompt(self): return 'method'",
            "method",
        ),
        ("class PromptGenerator:\n async def get_system_prompt(self): return 'async'", "async"),
    ],
)
def test_the_system_prompt_is_the_method_s_the_function_s_or_the_variable(content: str, prompt: str | None) -> None:
    assert defined(content).system_prompt == prompt


def test_settings_are_read() -> None:
    found = defined("MODEL = 'qwen3'\nTOOL_SERVERS = ['wiki', 'shop']\nTIME_LIMIT = 2")
    assert (found.model, found.tool_servers, found.time_limit) == ("qwen3", ("wiki", "shop"), 2)
    bare = defined("")
    assert (bare.model, bare.tool_servers, bare.time_limit) == (None, (), 0.1)


@pytest.mark.parametrize(
    "report",
    [b"", b"{", b"[]", b"null", b"5", b"{}", b'{"tools": 5}', b'{"fault": {}}', b"\xff", b"[" * 100_000,
     b'{"tools": {"type": "list", "count": "x", "items": [{}]}, "handler": true}'],
)  # fmt: skip
def test_a_report_that_lies_is_a_failure_and_no_more(report: bytes) -> None:
    assert checked(report).state is State.FAILED_VALIDATION


@pytest.mark.parametrize("name", ["narrator", "A", "0", "a-b_c", "x" * 64])
def test_names_of_characters(name: str) -> None:
    assert named(name) is None


@pytest.mark.parametrize("name", ["", "-a", "_a", "a b", "a.b", "é", "x" * 65, "a\n", "a/b"])
def test_names_that_no_character_may_have(name: str) -> None:
    problem = named(name)
    assert problem is not None
    assert problem.kind == "InvalidName"


def one(schema: Json, **more: Any) -> Json:
    return {"type": "object", "properties": {"v": schema}, "required": ["v"], **more}


NESTED = {"type": "object", "properties": {"a": {"type": "string", "default": "z"}, "b": {"type": "integer"}}}
READ: dict[str, tuple[Json | None, Json, Json]] = {
    "what is optional and missing is None": (PARAMETERS, {"event": "x"}, {"event": "x", "importance": None}),
    "null is as good as missing": (PARAMETERS, {"event": "x", "importance": None}, {"event": "x", "importance": None}),
    "a default is filled in": (
        {"type": "object", "properties": {"v": {"type": "string", "default": "d"}}}, {}, {"v": "d"},
    ),
    "a default stands for null": (
        {"type": "object", "properties": {"v": {"type": "string", "default": "d"}}}, {"v": None}, {"v": "d"},
    ),
    "null stays where it is a value": (
        {"type": "object", "properties": {"v": {"type": ["string", "null"], "default": "d"}}}, {"v": None}, {"v": None},
    ),
    "what isn't a property is left out": (one({"type": "string"}), {"v": "x", "more": 1}, {"v": "x"}),
    "what is allowed to be more stays": (
        one({"type": "string"}, additionalProperties=True), {"v": "x", "more": 1}, {"v": "x", "more": 1},
    ),
    "without parameters all stays": (None, {"a": [1]}, {"a": [1]}),
    "without properties all stays": ({"type": "object"}, {"a": 1}, {"a": 1}),
    "an integer stays one": (one({"type": "number"}), {"v": 5}, {"v": 5}),
    "a number as text": (one({"type": "number"}), {"v": "5.5"}, {"v": 5.5}),
    "an integer as text": (one({"type": "integer"}), {"v": "5"}, {"v": 5}),
    "an integer as a float": (one({"type": "integer"}), {"v": 5.0}, {"v": 5}),
    "a boolean as text": (one({"type": "boolean"}), {"v": "true"}, {"v": True}),
    "an array": (one({"type": "array", "items": {"type": "integer"}}), {"v": [1, "2"]}, {"v": [1, 2]}),
    "an array of anything": (one({"type": "array"}), {"v": [1, "2"]}, {"v": [1, "2"]}),
    "an object within": (one(NESTED), {"v": {"b": 1}}, {"v": {"a": "z", "b": 1}}),
    "an object of anything": (one({"type": "object"}), {"v": {"x": 1}}, {"v": {"x": 1}}),
    "one type or another": (one({"type": ["integer", "null"]}), {"v": None}, {"v": None}),
    "one schema or another": (one({"anyOf": [{"type": "integer"}, {"type": "array"}]}), {"v": []}, {"v": []}),
    "values that are objects": (one({"enum": [{"a": 1}, 1.5]}), {"v": {"a": 1}}, {"v": {"a": 1}}),
    "any value": (one({}), {"v": {"x": [1]}}, {"v": {"x": [1]}}),
    "a pattern that Pydantic can't read": (one({"type": "string", "pattern": "a(?=b)"}), {"v": "x"}, {"v": "x"}),
    **{
        f"a property called {name}": (
            {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}, {name: "x"}, {name: "x"},
        )
        for name in ("class", "_x", "model_config", "json", "copy", "with space", "é", "__init__", "p0")
    },
}  # fmt: skip


@pytest.mark.parametrize("what", READ)
def test_arguments_are_read_by_the_parameters(what: str) -> None:
    schema, arguments, expected = READ[what]
    before = copy.deepcopy(schema)
    read = Parameters(schema).read(arguments)
    assert json.dumps(read) == json.dumps(expected)  # 5 isn't 5.0, and 1 isn't true
    assert schema == before


REFUSED: dict[str, tuple[Json, Json, str]] = {
    "what is required and missing": (PARAMETERS, {}, "event: Field required"),
    "another value": (PARAMETERS, {"event": "x", "importance": "no"}, "importance: Input should be 'low', 'medium'"),
    "a boolean for a string": (one({"type": "string"}), {"v": True}, "v: Input should be a valid string"),
    "a number for a string": (one({"type": "string"}), {"v": 5}, "v: Input should be a valid string"),
    "a boolean for a number": (one({"type": "number"}), {"v": True}, "v: Input should be a valid number, not"),
    "a boolean for an integer": (one({"type": "integer"}), {"v": False}, "v: Input should be a valid number, not"),
    "a fraction for an integer": (one({"type": "integer"}), {"v": 5.5}, "v: Input should be a valid integer"),
    "text that is no number": (one({"type": "number"}), {"v": "x"}, "v: Input should be a valid number"),
    "infinity": (one({"type": "number"}), {"v": "inf"}, "v: Input should be a finite number"),
    "a boolean for a value": (one({"enum": [1]}), {"v": True}, "v: Input should be one of 1"),
    "another constant": (one({"const": "x"}), {"v": "y"}, "v: Input should be 'x'"),
    "null for a string": (one({"type": "string"}), {"v": None}, "v: Input should be a valid string"),
    "an element of another type": (one({"type": "array", "items": {"type": "integer"}}), {"v": [1, "x"]}, "v.1: Input"),
    "something missing within": (one({**NESTED, "required": ["b"]}), {"v": {}}, "v.b: Field required"),
    "neither of two": (one({"anyOf": [{"type": "integer"}, {"type": "null"}]}), {"v": []}, "v: Input should be"),
    "more than is allowed": (one({}, additionalProperties=False), {"v": 1, "w": 2}, "w: Extra inputs are not"),
    "too long": (one({"type": "string", "maxLength": 2}), {"v": "abc"}, "v: String should have at most 2 characters"),
    "too small": (one({"type": "number", "minimum": 3}), {"v": "2"}, "v: Input should be greater than or equal to 3"),
    "another pattern": (one({"type": "string", "pattern": "^a"}), {"v": "b"}, "v: String should match pattern '^a'"),
    "required and no property": ({"type": "object", "required": ["z"]}, {}, "z: Field required"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_arguments_that_break_the_parameters_are_refused_by_the_place_of_the_first_fault(what: str) -> None:
    schema, arguments, message = REFUSED[what]
    with pytest.raises(ArgumentsError) as caught:
        Parameters(schema).read(arguments)
    assert str(caught.value).startswith(message)


def flat(data: bytes, sizes: Callable[[int], int]) -> list[str]:
    lines, shown, at, step = Lines(), [], 0, 0
    while at < len(data):
        shown += lines.take(data[at : at + sizes(step)])
        at, step = at + sizes(step), step + 1
    return shown + lines.end()


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_what_is_printed_is_logged_by_line_and_without_control_characters(size: int) -> None:
    assert flat("a\n\x1b[2Jb\n\nü".encode() + b"\xff", lambda _: size) == ["a", "�[2Jb", "", "ü�"]


@pytest.mark.parametrize("size", [7, 65536])
def test_of_too_many_lines_the_rest_is_counted(size: int) -> None:
    shown = flat(b"x\n" * 1000, lambda _: size)
    assert shown[:-1] == ["x"] * Lines.MOST
    assert shown[-1] == "... and 950 more lines (1900 bytes)"


def test_of_a_long_line_the_rest_is_counted() -> None:
    shown = flat(b"x" * 100_000, lambda _: 4096)
    assert shown == ["x" * Lines.LONGEST, f"... and 0 more lines ({100_000 - Lines.MOST_BYTES} bytes)"]


def test_parameters_of_which_no_model_can_be_made_are_told_so() -> None:
    with pytest.raises(ValueError, match="no model can be made of them"):
        Parameters(one({"type": "string", "minLength": 10**30}))


class Kernel:
    """Decides as the kernel does about a system call of the process 100, in a test of the filter alone."""

    CLONE_THREAD, VOID, OTHER = 0x10000, 0, 1 << 32
    ALLOWED, REFUSED, UNKNOWN, KILLED = 0x7FFF0000, 0x50001, 0x50026, 0x80000000

    def __init__(self, machine: str) -> None:
        filtering = seccomp_filter(machine, 100)
        assert filtering is not None
        self._program = list(struct.iter_unpack("HBBI", filtering))
        self._architecture = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]

    def __call__(self, number: int, *arguments: int, architecture: int | None = None) -> int:
        data = struct.pack(
            "<IIQ6Q", number, architecture or self._architecture, 0, *arguments, *[0] * (6 - len(arguments))
        )
        value = at = 0
        while True:
            code, yes, no, operand = self._program[at]
            at += 1
            if code == 0x20:
                (value,) = struct.unpack_from("<I", data, operand)
            elif code == 0x06:
                return int(operand)
            else:
                holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
                at += yes if holds else no


CALLS = {
    # what: x86_64, aarch64, arguments, decision
    "read": (0, 63, (), Kernel.ALLOWED),
    "a socket of the Internet": (41, 198, (2, 1), Kernel.ALLOWED),
    "one of IPv6": (41, 198, (10, 1), Kernel.ALLOWED),
    "one of this machine": (41, 198, (1, 1), Kernel.REFUSED),
    "one to the kernel": (41, 198, (16, 3), Kernel.REFUSED),
    "a pair of streams": (53, 199, (1, 0x80801), Kernel.ALLOWED),
    "a pair of datagrams": (53, 199, (1, 2), Kernel.REFUSED),
    "to listen": (50, 201, (3, 5), Kernel.REFUSED),
    "the mode of a file": (268, 53, (), Kernel.REFUSED),
    "the length of a file": (76, 45, (), Kernel.REFUSED),
    "fcntl, to lease": (72, 25, (1, 1024), Kernel.REFUSED),
    "a process": (56, 220, (17,), Kernel.REFUSED),
    "a thread": (56, 220, (Kernel.CLONE_THREAD | 17,), Kernel.ALLOWED),
    "clone3": (435, 435, (), Kernel.UNKNOWN),
    "execve": (59, 221, (), Kernel.REFUSED),
    "ptrace": (101, 117, (), Kernel.REFUSED),
    "kill itself": (62, 129, (100, 9), Kernel.ALLOWED),
    "kill another": (62, 129, (101, 9), Kernel.REFUSED),
    "kill all": (62, 129, ((1 << 64) - 1, 9), Kernel.REFUSED),
    "kill its group": (62, 129, (0, 9), Kernel.REFUSED),
    "a signal to its thread": (234, 131, (100, 100, 6), Kernel.ALLOWED),
    "a signal to another's": (234, 131, (101, 101, 6), Kernel.REFUSED),
    "prctl, to live on": (157, 167, (1, 0), Kernel.REFUSED),
    "prctl, to name a thread": (157, 167, (15,), Kernel.ALLOWED),
    "prlimit64, to read": (302, 261, (0, 7, Kernel.VOID, 1), Kernel.ALLOWED),
    "prlimit64, to set": (302, 261, (0, 7, 1), Kernel.REFUSED),
    "prlimit64, to set from far": (302, 261, (0, 7, Kernel.OTHER), Kernel.REFUSED),
    "fcntl": (72, 25, (1, 3), Kernel.ALLOWED),
    "fcntl, to own": (72, 25, (1, 8), Kernel.REFUSED),
    "ioctl": (16, 29, (1, 0x5401), Kernel.ALLOWED),
    "ioctl, to own": (16, 29, (1, 0x8901), Kernel.REFUSED),
}


@pytest.mark.parametrize("what", CALLS)
def test_which_system_calls_a_character_may_make(what: str) -> None:
    x86, arm, arguments, decision = CALLS[what]
    assert Kernel("x86_64")(x86, *arguments) == decision
    assert Kernel("aarch64")(arm, *arguments) == decision


def test_system_calls_of_another_kind_are_none() -> None:
    kernel = Kernel("x86_64")
    assert kernel(0, architecture=0x40000003) == Kernel.KILLED  # those of 32 bits
    assert kernel(0x40000000 | 59) == Kernel.REFUSED
    assert seccomp_filter("riscv64", 100) is None
