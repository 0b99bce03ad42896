"""API keys: the file of their hashes, the command that makes it, and who comes in by one."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from extproc.exchange.api_keys import ApiKeys, hash_line
from extproc.exchange.context import ExchangeContext
from extproc.exchange.machine import Exchange
from extproc.exchange.phases import Phase
from extproc.observability.telemetry import Telemetry
from extproc.wire import ProcessingResponse
from tests.test_exchange import CHAT, metadata, only, request_body, request_headers, set_fields
from tests.test_request import CONFIG, MESSAGES

ALICE, BOB, CAROL = "alice-has-a-long-key", "bob-has-a-long-key-too", "carol-has-a-long-key"
KEYS = ApiKeys.parse(f"{hash_line('alice', ALICE)}\n{hash_line('bob', BOB)}\n".encode())


class TestFile:
    def test_a_line_is_a_name_and_a_hash_and_a_name_may_have_two(self) -> None:
        digest = hashlib.sha256(ALICE.encode()).hexdigest()
        text = f"# who may come in\n\n  alice:{digest.upper()}   # until May\n{hash_line('alice', BOB)}\r\n"
        keys = ApiKeys.parse(text.encode())
        assert [keys.owner(key) for key in (ALICE, BOB, "another")] == ["alice", "alice", None]

    @pytest.mark.parametrize(
        "line",
        [
            ALICE,
            f"alice: {ALICE}",
            "alice:",
            f"{'x' * 65}: {'0' * 64}",
            f"two words: {'0' * 64}",
            f"alice: {'0' * 63}",
            f"alice: {'g' * 64}",
            "\x00\xff",
        ],
    )
    def test_any_other_line_lets_nobody_in_and_is_told_by_its_number_and_not_quoted(self, line: str) -> None:
        keys = ApiKeys.parse(f"{hash_line('bob', BOB)}\n{line}\n{hash_line('carol', CAROL)}\n".encode("latin-1"))
        assert [keys.owner(key) for key in (ALICE, BOB, CAROL)] == [None, "bob", "carol"]
        (told,) = keys.complaints("keys")
        assert told.startswith("keys:2: expected 'name: hash'")
        assert ALICE not in told

    def test_a_file_that_is_something_else_altogether_does_not_fill_the_log(self) -> None:
        told = ApiKeys.parse(b"no key\n" * 1000).complaints("keys")
        assert len(told) == 21
        assert told[-1] == "keys: and 980 lines more that can't be read"

    @pytest.mark.parametrize("text", [b"", b"# nobody yet\n", b"\xff\xfe", b"\x00" * 100])
    def test_without_a_key_nobody_comes_in(self, text: bytes) -> None:
        keys = ApiKeys.parse(text)
        assert not keys
        assert keys.owner(ALICE) is None
        assert arrives({"x-api-key": ALICE}, keys)[1].immediate_response.status.code == 401

    def test_a_byte_order_mark_is_no_part_of_the_first_line(self) -> None:
        assert ApiKeys.parse(f"\ufeff{hash_line('alice', ALICE)}".encode()).owner(ALICE) == "alice"

    def test_neither_keys_nor_hashes_are_shown(self) -> None:
        assert repr(KEYS) == "ApiKeys(2 keys)"

    @pytest.mark.parametrize("key", ["", "short", "with spaces in it all", "ключ-без-латиницы", "a" * 20 + "\n"])
    def test_a_key_that_no_client_could_send_or_anybody_could_guess_gets_no_line(self, key: str) -> None:
        with pytest.raises(ValueError, match=r"^a key ") as refused:
            hash_line("alice", key)
        assert not key or key not in str(refused.value)


def arrives(
    fields: dict[str, str], keys: ApiKeys | None = KEYS, telemetry: Telemetry | None = None
) -> tuple[Exchange, ProcessingResponse]:
    """An exchange of which the request's headers have come, and the reply to them."""
    exchange = Exchange(ExchangeContext(CONFIG, keys), telemetry or Telemetry(CONFIG))
    return exchange, only(exchange.receive(request_headers({**CHAT, **fields})))


def error_of(reply: ProcessingResponse) -> Any:
    return json.loads(reply.immediate_response.body)["error"]


class TestAdmission:
    @pytest.mark.parametrize(
        "fields",
        [
            {"authorization": f"Bearer {ALICE}"},
            {"authorization": f"bearer   {ALICE} "},
            {"api-key": ALICE},
            {"x-api-key": ALICE},
            {"authorization": "Bearer unused", "x-api-key": ALICE},
            {"authorization": "Basic dW51c2Vk", "api-key": ALICE},
        ],
    )
    def test_a_key_lets_in_and_the_access_log_learns_whose_it_is(self, fields: dict[str, str]) -> None:
        exchange, reply = arrives(fields)
        assert reply.WhichOneof("response") == "request_headers"
        assert metadata(reply) == {"client": "alice"}
        assert exchange.phase is Phase.REQUEST_BODY
        # Nothing of it is in what goes on.
        reply = only(exchange.receive(request_body(MESSAGES)))
        assert set_fields(reply.request_body.response.header_mutation) == {"x-extproc-backend": "qwen"}

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({}, "You didn't provide an API key."),
            ({"authorization": "Bearer "}, "You didn't provide an API key."),
            ({"authorization": f"Basic {ALICE}"}, "You didn't provide an API key."),
            ({"authorization": ALICE}, "You didn't provide an API key."),
            ({"authorization": f"Bearer {ALICE}x"}, "Incorrect API key provided."),
            ({"authorization": f"Bearer {ALICE[:-1]}"}, "Incorrect API key provided."),
            ({"authorization": f"Bearer {hashlib.sha256(ALICE.encode()).hexdigest()}"}, "Incorrect API key provided."),
            ({"x-api-key": "ключ"}, "Incorrect API key provided."),
        ],
    )
    def test_nobody_else_comes_in(self, fields: dict[str, str], words: str) -> None:
        telemetry = Telemetry(CONFIG)
        exchange, reply = arrives(fields, telemetry=telemetry)
        assert reply.immediate_response.status.code == 401
        error = error_of(reply)
        assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", None, "invalid_api_key")
        assert error["message"].startswith(words)
        assert set_fields(reply.immediate_response.headers)["www-authenticate"] == 'Bearer realm="extproc"'
        assert metadata(reply) == {"error": "invalid_api_key"}
        assert ALICE[:-1].encode() not in reply.SerializeToString()
        assert exchange.phase is Phase.ENDED
        assert telemetry.registry.get_sample_value("extproc_refused_requests_total", {"code": "invalid_api_key"}) == 1

    @pytest.mark.parametrize("path", ["/", "/v1/models", "/v1/models/coder", "/v1/embeddings", "/metrics"])
    def test_every_path_asks_for_a_key(self, path: str) -> None:
        fields = {":method": "GET", ":path": path}
        assert arrives(fields)[1].immediate_response.status.code == 401
        exchange, reply = arrives({**fields, "x-api-key": BOB})
        assert metadata(reply)["client"] == "bob"
        assert metadata(reply).get("error") in (None, "unknown_path")
        assert exchange.phase in (Phase.PASSED_BY, Phase.ENDED)

    def test_without_a_file_of_keys_nobody_is_asked(self) -> None:
        exchange, reply = arrives({"authorization": "Bearer anything"}, keys=None)
        assert metadata(reply) is None
        assert exchange.phase is Phase.REQUEST_BODY
