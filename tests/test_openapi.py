"""docs/openapi.yaml says what the gateway does: its tables, its answers and its examples.

That both take the same requests is shown in `tests/openapi/test_requests.py`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
import schemathesis

import extproc
from extproc.config import Jwt
from extproc.config.jwt import Jwks
from extproc.contract.errors import ANSWER_VIOLATIONS, OUT_OF_BOUNDS, backend_error
from extproc.contract.parameters import PARAMETERS, TOOL_PARAMETERS, Parameter
from extproc.contract.rules import Rules
from extproc.contract.tool_definitions import LONGEST_NAME, MOST_TOOLS
from extproc.contract.withheld import WITHHELD
from extproc.envoy.local_replies import local_replies
from extproc.exchange.admission import KEY_HEADERS
from extproc.exchange.api_keys import hash_line
from extproc.names import (
    CHAT_PATH,
    DROPPED_HEADER,
    FALLBACK_HEADER,
    MODEL_HEADER,
    MODELS_PATH,
    ROUNDS_HEADER,
    TOOLS_HEADER,
    USAGE_HEADER,
)
from extproc.runner.run import TIMED_OUT, TOO_LARGE, TOO_MANY_ROUNDS
from extproc.surfaces.chat.messages import PART_TYPES, ROLES
from extproc.surfaces.chat.request import problems
from scripted_vllm import (
    Comments,
    ErrorBody,
    ErrorEvent,
    Fail,
    Garbage,
    NoDone,
    Nonsense,
    Refuse,
    Reply,
    ScriptedVLLM,
    Verbatim,
)
from tests.gateway import MODEL, Gateway, running_gateway
from tests.openapi import parameter_schemas
from tests.openapi.document import CHAT, DOCUMENT, REQUEST, SCHEMAS, Json, check, check_stream, wrong_places
from tests.test_request import CONFIG

MESSAGES = {role: SCHEMAS[f"{role.capitalize()}Message"] for role in SCHEMAS["Message"]["discriminator"]["mapping"]}


def each_object(value: Any) -> Iterator[Json]:
    """Every object in the document, however deep."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from each_object(inner)


def without_words(schema: Any) -> Any:
    """A schema without what is only for people."""
    if isinstance(schema, dict):
        words = {"description": str, "deprecated": bool, "x-dropped": bool}
        kept = {name: it for name, it in schema.items() if not isinstance(it, words.get(name, ()))}
        return {name: without_words(inner) for name, inner in kept.items()}
    return [without_words(inner) for inner in schema] if isinstance(schema, list) else schema


class TestDocument:
    def test_it_is_openapi_3_1(self) -> None:
        schemathesis.openapi.from_dict(DOCUMENT).validate()
        assert DOCUMENT["openapi"] == "3.1.0"
        assert DOCUMENT["info"]["version"] == version("extproc")

    @pytest.mark.parametrize("name", SCHEMAS)
    def test_every_schema_is_one(self, name: str) -> None:
        dialect = "https://json-schema.org/draft/2020-12/schema"
        jsonschema_rs.meta.validate({"$schema": dialect, **SCHEMAS[name]})

    def test_every_reference_leads_somewhere(self) -> None:
        for reference in {it["$ref"] for it in each_object(DOCUMENT) if isinstance(it.get("$ref"), str)}:
            target: Any = DOCUMENT
            for step in reference.removeprefix("#/").split("/"):
                target = target[step]

    def test_every_schema_is_used(self) -> None:
        used = {it["$ref"].rpartition("/")[2] for it in each_object(DOCUMENT) if isinstance(it.get("$ref"), str)}
        assert set(SCHEMAS) <= used


class TestTables:
    def test_the_path_and_the_headers(self) -> None:
        assert set(DOCUMENT["paths"]) == {CHAT_PATH, MODELS_PATH, f"{MODELS_PATH}/{{model}}"}
        for status, response in CHAT["responses"].items():
            assert {"x-request-id", DROPPED_HEADER} <= set(response["headers"]), status
        assert {USAGE_HEADER, ROUNDS_HEADER, TOOLS_HEADER, MODEL_HEADER, FALLBACK_HEADER} <= set(
            CHAT["responses"]["200"]["headers"]
        )
        limits = {
            f"x-ratelimit-{name}-{of}" for name in ("limit", "remaining", "reset") for of in ("requests", "tokens")
        }
        for status, response in CHAT["responses"].items():
            assert (limits <= set(response["headers"])) is (status != "401"), status

    def test_the_parameters(self) -> None:
        known = {"model", "messages"} | TOOL_PARAMETERS | {row.name for row in PARAMETERS}
        assert set(REQUEST["properties"]) == known

    @pytest.mark.parametrize("row", PARAMETERS, ids=[row.name for row in PARAMETERS])
    def test_what_a_parameter_may_be(self, row: Parameter) -> None:
        told = REQUEST["properties"][row.name]
        assert without_words(told) == parameter_schemas.optional(row.check)
        fate, _ = WITHHELD.get(row.name, ("", ""))
        assert ("x-dropped" in told) is (not row.forwarded or fate == "dropped")
        assert ("unless its settings allow" in told.get("description", "")) is (fate == "refused")

    def test_the_roles(self) -> None:
        assert set(MESSAGES) == set(ROLES)
        assert len(SCHEMAS["Message"]["oneOf"]) == len(ROLES)
        for role, schema in MESSAGES.items():
            assert schema["properties"]["role"] == {"const": role}

    def test_the_types_of_parts(self) -> None:
        parts = [
            it["type"]
            for name in ("UserPart", "AssistantPart", "TextPart")
            for it in each_object(SCHEMAS[name])
            if isinstance(it.get("type"), dict)
        ]
        told = {name for part in parts for name in part.get("enum", [part.get("const")])}
        assert told == set(PART_TYPES)

    @pytest.mark.parametrize("kind", [*PART_TYPES, "unknown"])
    @pytest.mark.parametrize("role", ROLES)
    def test_which_role_may_have_which_part(self, role: str, kind: str) -> None:
        part = {"type": kind, kind: "x" if kind in ("text", "refusal") else {"url": "data:"}}
        call = {"id": "1", "function": {"name": "f", "arguments": ""}}
        messages = [
            {"role": "assistant", "tool_calls": [call]},
            {"role": role, "content": [part], "tool_call_id": "1", "name": "f"},
        ]
        request = {"model": "coder", "messages": messages}
        assert bool(wrong_places(request)) is bool(list(problems(request, Rules())))

    def test_the_limits_of_tools(self) -> None:
        assert REQUEST["properties"]["tools"]["maxItems"] == MOST_TOOLS
        assert REQUEST["properties"]["functions"]["maxItems"] == MOST_TOOLS
        assert SCHEMAS["Function"]["properties"]["name"]["pattern"] == f"^[a-zA-Z0-9_-]{{1,{LONGEST_NAME}}}$"

    def test_the_codes_of_errors(self) -> None:
        told = {code["const"] for code in SCHEMAS["ErrorCode"]["oneOf"]}
        of_envoy = {error["error"]["code"] for error in errors_of_envoy()}
        of_runs = {TOO_MANY_ROUNDS, TOO_LARGE, TIMED_OUT}
        known = (
            ANSWER_VIOLATIONS.union(OUT_OF_BOUNDS) | codes_in_the_source() | codes_of_backends() | of_envoy | of_runs
        )
        assert told == known


def codes_in_the_source() -> set[str]:
    """The words that the gateway's code gives as an error's code."""
    places = {"invalid_request": 2, "ApiError": 4}  # where it may stand without its name
    found: set[Any] = set()
    for path in Path(*extproc.__path__).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                place = places.get(node.func.id, 99) if isinstance(node.func, ast.Name) else 99
                given = [*node.args[place : place + 1], *(word.value for word in node.keywords if word.arg == "code")]
                found |= {code.value for code in given if isinstance(code, ast.Constant)}
    return {code for code in found if isinstance(code, str)}


def codes_of_backends() -> set[str]:
    """The words that a backend's status and message come to."""
    messages = ("", "the maximum context length is 4096 tokens", "no such model")
    given = {
        backend_error(status, json.dumps({"error": {"message": message}}).encode()).code
        for status in range(400, 600)
        for message in messages
    }
    return {code for code in given if code is not None}


def errors_of_envoy() -> list[Json]:
    """What Envoy says for itself, with placeholders."""
    jwt = Jwt(issuer="https://login.example.org/", audiences=("extproc",), jwks=Jwks(file=Path("/jwks.json")))
    replies = [
        local_replies(config, silence=timedelta(1), processing=timedelta(1))
        for config in (CONFIG, CONFIG.model_copy(update={"jwt": jwt}))
    ]
    mappers = [mapper for config in replies for mapper in config.mappers]
    formats = [mapper.body_format_override for mapper in mappers if mapper.body_format_override is not None]
    errors = [json.loads(it.json_format.to_json()) for it in formats if it.json_format is not None]
    return [error for error in errors if error.keys() == {"error"}]  # the others are in Anthropic's shape


ASKED = CHAT["requestBody"]["content"]["application/json"]["examples"]
ANSWERED = CHAT["responses"]["200"]["content"]


def gist(value: Any) -> Any:
    """An answer without what is null, and without what differs from one answer to the next."""
    if isinstance(value, list):
        return [gist(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    varying = ("id", "created", "prompt_tokens", "completion_tokens", "total_tokens")
    return {name: ... if name in varying else gist(inner) for name, inner in value.items() if inner is not None}


class TestExamples:
    @pytest.mark.parametrize("name", ["call", "results"])
    def test_an_answer_is_what_the_gateway_gives(self, gateway: Gateway, name: str) -> None:
        reply = gateway.http.post(CHAT_PATH, json=ASKED[name]["value"])
        example = ANSWERED["application/json"]["examples"][name]["value"]
        assert reply.status_code == 200
        assert gist(reply.json()) == gist(example)
        check("ChatCompletion", example)

    def test_so_is_a_stream(self, gateway: Gateway) -> None:
        reply = gateway.http.post(CHAT_PATH, json=ASKED["streamed_call"]["value"])
        example = ANSWERED["text/event-stream"]["examples"]["streamed_call"]["value"]
        assert gist(check_stream(reply.text)) == gist(check_stream(example))

    def test_the_results_belong_to_the_call(self) -> None:
        (call,) = ANSWERED["application/json"]["examples"]["call"]["value"]["choices"][0]["message"]["tool_calls"]
        assert call in ASKED["results"]["value"]["messages"][1]["tool_calls"]

    def test_every_request_has_an_answer(self) -> None:
        answered = [name for content in ANSWERED.values() for name in content["examples"]]
        assert sorted(answered) == sorted(ASKED)
        for example in ASKED.values():
            assert wrong_places(example["value"]) == []


ASK: Json = ASKED["call"]["value"]
PLAIN: Json = {"model": MODEL, "messages": ASK["messages"]}
LEGACY: Json = {**PLAIN, "functions": [ASK["tools"][0]["function"]]}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
BROKEN = CALL.replace('"}}', "}")
USAGE: Json = {"stream_options": {"include_usage": True}}


class TestAnswers:
    """Whatever the gateway says is described, whole and chunk by chunk."""

    @pytest.mark.parametrize(
        ("request_", "replies"),
        [
            pytest.param(PLAIN, [Reply("Fine.")], id="text without tools"),
            pytest.param(ASK, [Reply("Fine.")], id="text"),
            pytest.param(ASK, [Reply("")], id="nothing"),
            pytest.param(ASK, [Reply(f"I look.\n{CALL}\n{CALL}")], id="text and two calls"),
            pytest.param(ASK, [Reply(f"<think>Which city?</think>{CALL}")], id="thoughts"),
            pytest.param(ASK, [Reply(BROKEN)], id="a broken call"),
            pytest.param(ASK, [Reply(CALL[:-30], finish_reason="length")], id="a call that was cut off"),
            pytest.param(ASK | {"max_tokens": 3}, [Reply("One two three four")], id="text that was cut off"),
            pytest.param(ASK | {"stop": "two"}, [Reply("One two")], id="a stop word"),
            pytest.param(ASK | {"n": 2}, [Reply(CALL), Reply("No need.")], id="two choices"),
            pytest.param(ASK | {"logprobs": True, "top_logprobs": 2}, [Reply(f"I look. {CALL}")], id="logprobs"),
            pytest.param(PLAIN | {"logprobs": True, "top_logprobs": 2}, [Reply("Fine.")], id="its own logprobs"),
            pytest.param(ASK | {"return_token_ids": True}, [Reply(CALL)], id="token ids"),
            pytest.param(LEGACY, [Reply(f"I look.\n{CALL}\n{CALL}")], id="a function call"),
            pytest.param(ASK, [Reply(CALL, trouble=Comments())], id="comments"),
            pytest.param(ASK, [Reply(CALL, trouble=NoDone())], id="no end"),
        ],
    )
    def test_an_answer(self, gateway: Gateway, request_: Json, replies: list[Reply]) -> None:
        gateway.backend.play(*replies, *replies)
        whole = gateway.http.post(CHAT_PATH, json=request_)
        assert whole.status_code == 200
        check("ChatCompletion", whole.json())
        streamed = gateway.http.post(CHAT_PATH, json={**request_, **USAGE, "stream": True})
        assert streamed.headers["content-type"].startswith("text/event-stream")
        assert not any("error" in event for event in check_stream(streamed.text))

    def test_a_backends_error_inside_a_stream(self, gateway: Gateway) -> None:
        for trouble in (ErrorEvent(after=2), Garbage(Nonsense.BROKEN_JSON, after=2)):
            gateway.backend.play(Reply(CALL, trouble=trouble))
            *_, event = check_stream(gateway.http.post(CHAT_PATH, json=ASK | {"stream": True}).text)
            assert event["error"]["code"] in (500, 502)

    def test_what_was_dropped(self, gateway: Gateway) -> None:
        for stream in (False, True):
            request = ASK | {"store": False, "metadata": {}, "never_heard_of": [1], "stream": stream}
            reply = gateway.http.post(CHAT_PATH, json=request)
            assert reply.headers[DROPPED_HEADER] == "metadata, never_heard_of, store"
            assert reply.headers["x-request-id"]
        assert DROPPED_HEADER not in gateway.http.post(CHAT_PATH, json=ASK).headers

    def test_an_estimated_count(self, gateway: Gateway) -> None:
        answer = {**ANSWERED["application/json"]["examples"]["results"]["value"]}
        del answer["usage"]
        gateway.backend.play(Reply(trouble=Verbatim(json.dumps(answer))))
        reply = gateway.http.post(CHAT_PATH, json=ASK)
        assert reply.headers[USAGE_HEADER] == DOCUMENT["components"]["headers"][USAGE_HEADER]["schema"]["const"]
        assert reply.json()["usage"]["estimated"] is True
        check("ChatCompletion", reply.json())
        assert USAGE_HEADER not in gateway.http.post(CHAT_PATH, json=ASK).headers


class TestModels:
    def test_all(self, gateway: Gateway) -> None:
        reply = gateway.http.get(MODELS_PATH)
        described(MODELS_PATH, reply, schema="ModelList")
        assert MODEL in [model["id"] for model in reply.json()["data"]]

    def test_one(self, gateway: Gateway) -> None:
        described(f"{MODELS_PATH}/{{model}}", gateway.http.get(f"{MODELS_PATH}/absent"), schema="Model")

    def test_one_that_is_not_there(self, gateway: Gateway) -> None:
        reply = gateway.http.get(f"{MODELS_PATH}/gpt-4")
        described(f"{MODELS_PATH}/{{model}}", reply, schema="Error")
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_not_found")

    @pytest.mark.parametrize("path", [MODELS_PATH, f"{MODELS_PATH}/coder"])
    def test_they_can_only_be_read(self, gateway: Gateway, path: str) -> None:
        reply = gateway.http.delete(path)
        assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD")
        assert reply.json()["error"]["code"] == "method_not_allowed"
        check("Error", reply.json())


def described(path: str, reply: httpx.Response, *, schema: str, method: str = "get") -> None:
    """Assert that the document has this answer, with all the header fields that it says come with it."""
    response = DOCUMENT["paths"][path][method]["responses"][str(reply.status_code)]
    assert response["content"]["application/json"]["schema"] == {"$ref": f"#/components/schemas/{schema}"}
    of_limits = {name for name in response["headers"] if name.startswith("x-ratelimit-")}  # of keys, and here are none
    assert set(response["headers"]) - of_limits - {DROPPED_HEADER} <= set(reply.headers)
    assert reply.headers["content-type"] == "application/json"
    check(schema, reply.json())


KEY = "a-key-that-is-long-enough"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that asks for a key."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "keys").write_text(hash_line("alice", KEY))
    settings = f"api_keys: {folder / 'keys'}"
    with ScriptedVLLM(model=MODEL).running() as backend, running_gateway(folder, backend, settings) as gateway:
        yield gateway


class TestKeys:
    @pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer another-one"}], ids=["none", "another"])
    def test_nobody_comes_in_without_one(self, guarded: Gateway, headers: dict[str, str]) -> None:
        for path, method in [(CHAT_PATH, "post"), (MODELS_PATH, "get"), (f"{MODELS_PATH}/{{model}}", "get")]:
            reply = guarded.http.request(method, path.replace("{model}", "coder"), headers=headers)
            assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
            described(path, reply, schema="Error", method=method)
            assert reply.headers["www-authenticate"] == DOCUMENT["components"]["headers"]["www-authenticate"]["example"]

    @pytest.mark.parametrize("scheme", DOCUMENT["components"]["securitySchemes"])
    def test_a_key_may_come_in_each_of_these_ways(self, guarded: Gateway, scheme: str) -> None:
        told = DOCUMENT["components"]["securitySchemes"][scheme]
        bearer = {"authorization": f"Bearer {KEY}"}
        headers = bearer if told["type"] == "http" else {told["name"]: KEY}
        assert guarded.http.get(MODELS_PATH, headers=headers).status_code == 200
        assert guarded.http.post(CHAT_PATH, json=PLAIN, headers=headers).status_code == 200

    def test_these_are_all_ways(self) -> None:
        schemes = DOCUMENT["components"]["securitySchemes"]
        assert sorted(it.get("name", "authorization") for it in schemes.values()) == sorted(KEY_HEADERS)
        assert DOCUMENT["security"] == [{}, *({name: []} for name in schemes)]


class TestErrors:
    """Every error has a description under its status."""

    @pytest.mark.parametrize(
        ("request_", "trouble", "status", "code"),
        [
            pytest.param({}, None, 400, "missing_required_parameter", id="a field that is missing"),
            pytest.param(ASK | {"n": "2"}, None, 400, "invalid_type", id="a wrong type"),
            pytest.param(ASK | {"n": 0}, None, 400, "integer_below_min_value", id="a wrong value"),
            pytest.param([], None, 400, "invalid_json", id="no object"),
            pytest.param(ASK | {"model": "gpt-4"}, None, 404, "model_not_found", id="an unknown model"),
            pytest.param(ASK | {"model": "absent"}, None, 503, "backend_unreachable", id="no backend"),
            pytest.param(ASK, Refuse(), 502, "backend_disconnected", id="no answer"),
            pytest.param(ASK, Garbage(Nonsense.NOT_JSON), 502, "bad_gateway", id="nonsense"),
            *(
                pytest.param(ASK, Fail(status, body), 502, "backend_key_refused", id=f"{status} {body.value}")
                for body in ErrorBody
                for status in (401, 403)
            ),
            *(
                pytest.param(ASK, Fail(status, body, retry_after=7), status, code, id=f"{status} {body.value}")
                for body in ErrorBody
                for status, code in (
                    (429, "rate_limit_exceeded"),
                    (500, None),
                    (503, "service_unavailable"),
                    (504, "gateway_timeout"),
                )
            ),
        ],
    )
    def test_an_error(self, gateway: Gateway, request_: Any, trouble: Any, status: int, code: str | None) -> None:
        gateway.backend.play(*[Reply(trouble=trouble)] * 10)
        reply = gateway.http.post(CHAT_PATH, json=request_)
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
        response = CHAT["responses"].get(str(status), CHAT["responses"]["default"])
        assert response["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}
        assert reply.headers["content-type"] == "application/json"
        check("Error", reply.json())
        if "retry-after" in reply.headers and status in (429, 503):
            assert "retry-after" in response["headers"]

    def test_a_body_that_is_too_large(self, gateway: Gateway) -> None:
        reply = gateway.http.post(CHAT_PATH, content=b" " * (33 * 1024 * 1024))
        assert reply.status_code == 413
        check("Error", reply.json())

    def test_envoys_own_errors(self) -> None:
        errors = errors_of_envoy()
        assert len(errors) > 10
        for error in errors:
            check("Error", error)
