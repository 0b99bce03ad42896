"""docs/openapi.yaml and the gateway take the same requests, as far as JSON Schema can say which.

schemathesis draws requests from the document, right ones and wrong ones. They are made to keep the relations that JSON
Schema can't express; then the gateway must accept what the document takes, and refuse everything else for a field in
which the document finds something wrong, too. Every relation has a request here that breaks nothing else.

The strategies come from schemathesis's schemas directly. Its pytest plugin is not used: it changes hypothesis for all
tests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.config import GenerationConfig
from schemathesis.core import NotSet
from schemathesis.errors import UnsupportedSchema

from extproc.contract.errors import OUT_OF_BOUNDS
from extproc.names import CHAT_PATH
from scripted_vllm import ScriptedVLLM
from tests.gateway import MODEL, Gateway, configured_gateway
from tests.openapi.document import DOCUMENT, REQUEST, Json, check, check_stream, wrong_places
from tests.openapi.relations import related, servable

pytestmark = pytest.mark.long

SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATION = SCHEMA[CHAT_PATH]["POST"]
ONE_IN = 10
"""Most of what can be wrong with a request is wrong deep inside a tool's schema, where it is all alike."""


def systematic(mode: GenerationMode) -> Iterator[Any]:
    """The bodies of schemathesis's coverage phase: each breaks, or stretches, one keyword in one place."""
    config = GenerationConfig(modes=[mode])
    inside_schemas = 0
    for case in SCHEMA.iter_coverage_cases(OPERATION, generation_modes=[mode], generation_config=config):
        assert case.meta is not None
        told = case.meta.phase.data
        if "parameters" in f"{told.location} {told.description}":
            inside_schemas += 1
            if inside_schemas % ONE_IN:
                continue
        if case.method == "POST":
            yield b"" if isinstance(case.body, NotSet) else case.body


CODES_OF_FIELDS = {
    *("missing_required_parameter", "invalid_type", "invalid_value", "invalid_function_parameters"),
    *("property_name_above_max_length", *OUT_OF_BOUNDS),
}
LIMITS_OF_THE_BACKEND = ("is not a multimodal model", "maximum context length")


@st.composite
def drawn(draw: st.DrawFn, mode: GenerationMode) -> Any:
    """A body of any shape."""
    try:
        case = draw(SCHEMA.get_case_strategy(OPERATION, generation_mode=mode))
    except UnsupportedSchema:  # some ways to break a recursive schema are beyond what it can draw
        reject()
    return related(case.body, model="coder", legacy=draw(st.booleans()))


def send(gateway: Gateway, request: Any) -> httpx.Response:
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return gateway.http.post(CHAT_PATH, content=body)


def assert_that_both_agree(gateway: Gateway, request: Any) -> None:
    """The document's word on a request that keeps the relations is the gateway's."""
    wrong = [""] if isinstance(request, bytes) else wrong_places(request)
    if wrong:
        assert_refused(send(gateway, request), wrong)
    else:
        assert_accepted(send(gateway, servable(request)))


def assert_refused(reply: httpx.Response, wrong: list[str]) -> None:
    assert reply.status_code == 400, reply.text
    check("Error", reply.json())
    error = reply.json()["error"]
    if wrong == [""]:
        assert error["code"] == "invalid_json"
    else:
        assert error["code"] in CODES_OF_FIELDS
        param = steps(error["param"])
        places = [steps(place) for place in wrong]
        assert any(param[: len(place)] == place[: len(param)] for place in places), f"{error['param']}, not {wrong}"


def steps(path: str) -> list[str]:
    """A path's names and numbers: of two that tell of the same fault, one may lead further."""
    return re.findall(r"[^.\[\]]+", path)


def assert_accepted(reply: httpx.Response) -> None:
    if reply.status_code == 400 and reply.json()["error"]["type"] == "BadRequestError":
        assert any(words in reply.text for words in LIMITS_OF_THE_BACKEND), reply.text
        return
    assert reply.status_code == 200, reply.text
    if reply.headers["content-type"].startswith("text/event-stream"):
        assert not any("error" in event for event in check_stream(reply.text))
    else:
        check("ChatCompletion", reply.json())


def disagreement(gateway: Gateway, request: Any) -> str:
    """What the document and the gateway disagree about, if anything."""
    try:
        assert_that_both_agree(gateway, request)
    except AssertionError as error:
        return f"{error} in {request}"
    return ""


# Drawing takes long, and to shrink what was drawn takes minutes.
ANY_SHAPE = settings(max_examples=30, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


def asking(*messages: Json, **fields: Any) -> Json:
    return {"model": "coder", "messages": [{"role": "user", "content": "Hi."}, *messages], **fields}


def calling(*ids: str, arguments: str = "{}", **fields: Any) -> Json:
    calls = [{"id": call_id, "function": {"name": "f", "arguments": arguments}} for call_id in ids]
    return {"role": "assistant", "tool_calls": calls, **fields}


def function(name: str = "f", **fields: Any) -> Json:
    return {"name": name, **fields}


def tool(name: str = "f", **fields: Any) -> Json:
    return {"type": "function", "function": function(name, **fields)}


CUT_OFF = {"name": "f", "arguments": "{"}
NAMED = {"type": "function", "function": {"name": "other"}}
LEADS_NOWHERE = {"type": "object", "properties": {"city": {"$ref": "#/$defs/city"}}}
OPEN = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NAMES = [f"city{number}" for number in range(5_001)]
WIDE = {"type": "object", "properties": dict.fromkeys(NAMES, True), "required": NAMES, "additionalProperties": False}
NO_SCHEMA = {"type": "json_schema", "json_schema": {"name": "city", "schema": {"type": "text"}}}
TWO_KINDS = {"regex": "a+", "choice": ["a"]}
BREAKING = [
    asking(model="gpt-4"),
    asking(calling("1", "1")),
    asking(calling("1", arguments="{"), model="limited"),
    asking({"role": "assistant", "function_call": CUT_OFF}, model="limited"),
    asking(calling("1", function_call={"name": "f", "arguments": "{}"})),
    asking({"role": "tool", "tool_call_id": "1", "content": ""}, calling("1")),
    asking(tools=[tool("f"), tool("g"), tool("h")], model="limited"),
    asking(tools=[tool(), tool()]),
    asking(tools=[tool("other")], model="limited"),
    asking(tools=[tool(parameters={"type": "object", "minProperties": -1})]),
    asking(tools=[tool(parameters=LEADS_NOWHERE)]),
    asking(tools=[tool(parameters={"type": "object", "$id": "x" * 251})]),
    asking(tools=[tool(parameters=OPEN, strict=True)]),
    asking(tools=[tool(parameters=WIDE, strict=True)]),
    asking(tools=[tool()], functions=[function()]),
    asking(functions=[function("f"), function("g"), function("h")], model="limited"),
    asking(functions=[function(), function()]),
    asking(functions=[function("other")], model="limited"),
    asking(functions=[function(parameters=LEADS_NOWHERE)]),
    asking(tool_choice="required"),
    asking(tools=[tool()], tool_choice=NAMED),
    asking(tools=[tool()], tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}),
    asking(function_call="auto"),
    asking(functions=[function()], function_call={"name": "other"}),
    asking(stream_options={}),
    asking(top_logprobs=1),
    asking(logprob_token_ids=[], logprobs=False),
    asking(structured_outputs=TWO_KINDS),
    asking(structured_outputs={"regex": "a+"}, response_format={"type": "json_object"}),
    asking(response_format=NO_SCHEMA),
    asking(prompt_logprobs=0, stream=True),
    asking(continue_final_message=True, add_generation_prompt=True),
    asking(min_tokens=3, max_completion_tokens=2, max_tokens=4),
]


SETTINGS = f"""
models:
  - {{name: coder, backend: qwen, upstream_model: {MODEL}, tools: prompt}}
  - {{name: limited, backend: qwen, upstream_model: {MODEL}, tools: native, max_tools: 2, allowed_tools: [f, g, h],
     malformed_history: error}}
backends:
  - {{name: qwen, address: "127.0.0.1:PORT", health_check: false}}
withheld: []
media_urls: any
"""


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that takes from clients all that can be taken, but for one model, which takes few tools."""
    with ScriptedVLLM(model=MODEL).running() as backend:
        configuration = SETTINGS.replace("PORT", str(backend.port))
        with configured_gateway(tmp_path_factory.mktemp("trusting"), configuration, backend) as gateway:
            yield gateway


RELATIONS = [relation["param"] for relation in REQUEST["x-relations"]]


@pytest.mark.parametrize(("param", "request_"), list(zip(RELATIONS, BREAKING, strict=True)), ids=RELATIONS)
def test_a_relation_holds(trusting: Gateway, param: str, request_: Json) -> None:
    assert wrong_places(request_) == []
    reply = send(trusting, request_)
    assert reply.status_code == (404 if param == "model" else 400)
    assert re.sub(r"\[\d+\]", "[]", reply.json()["error"]["param"]).startswith(param)
    assert CHAT_PATH not in [request.path for request in trusting.backend.requests]


class TestGeneratedRequests:
    @pytest.mark.parametrize("mode", GenerationMode)
    def test_every_keyword_holds(self, trusting: Gateway, mode: GenerationMode) -> None:
        bodies = list(systematic(mode))
        assert len(bodies) > 500
        requests = [related(body, model="coder", legacy=bool(index % 2)) for index, body in enumerate(bodies)]
        with ThreadPoolExecutor(4) as pool:
            found = pool.map(lambda request: disagreement(trusting, request), requests)
            assert [it for it in found if it] == []

    @ANY_SHAPE
    @given(request=drawn(GenerationMode.POSITIVE))
    def test_requests_of_any_shape_are_accepted(self, trusting: Gateway, request: Any) -> None:
        assert wrong_places(request) == []
        assert_accepted(send(trusting, servable(request)))

    @ANY_SHAPE
    @given(request=drawn(GenerationMode.NEGATIVE))
    def test_broken_requests_of_any_shape_are_refused(self, trusting: Gateway, request: Any) -> None:
        assert_that_both_agree(trusting, request)
