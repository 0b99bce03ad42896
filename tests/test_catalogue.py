"""The list of models: the configuration's names, and what backends say of them."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trustme
from openai.types import Model

from extproc.backends.reports import BackendReports, reports_of
from extproc.config import Address, Backend, parse
from extproc.exchange.catalogue import ModelInfo, anthropic_catalogue_answer, read_reports
from extproc.exchange.context import ExchangeContext
from extproc.exchange.machine import Exchange
from extproc.exchange.phases import Phase
from extproc.observability.telemetry import Telemetry
from extproc.wire import ImmediateResponse
from scripted_vllm import ScriptedVLLM
from tests.gateway import MODEL, Gateway, free_port, wait_until
from tests.messages import listed_models
from tests.test_exchange import only, request_headers, set_fields

CONFIG = parse("""
models:
  - {name: coder, backend: one, upstream_model: Qwen/Qwen2.5-Coder, tools: prompt}
  - {name: Qwen/Qwen2.5-Coder, backend: one, tools: prompt}
  - {name: other, backend: two, tools: prompt}
backends:
  - {name: one, address: "127.0.0.1:8000"}
  - {name: two, address: "127.0.0.1:8001"}
""")
REPORTS = {"one": {"Qwen/Qwen2.5-Coder": ModelInfo(1_700_000_000, "vllm", 32768)}}
TERMS = ExchangeContext(CONFIG, reports=REPORTS, since=1_600_000_000)


def answer(path: str, method: str = "GET", context: ExchangeContext = TERMS) -> ImmediateResponse:
    exchange = Exchange(context, Telemetry(context.config))
    reply = only(exchange.receive(request_headers({":method": method, ":path": path}, end_of_stream=True)))
    assert exchange.phase is Phase.ENDED
    assert set_fields(reply.immediate_response.headers)["content-type"] == "application/json"
    return reply.immediate_response


def body(path: str) -> Any:
    reply = answer(path)
    assert reply.status.code == 200
    return json.loads(reply.body)


class TestAnswer:
    def test_the_list_has_every_model_of_the_configuration_in_its_order(self) -> None:
        listed = body("/v1/models")
        assert listed["object"] == "list"
        assert [model["id"] for model in listed["data"]] == ["coder", "Qwen/Qwen2.5-Coder", "other"]
        assert body("/v1/models/") == body("/v1/models?limit=1") == listed

    def test_what_the_backend_reports_is_merged_in_under_the_clients_name(self) -> None:
        shown = {"id": "coder", "object": "model", "created": 1_700_000_000, "owned_by": "vllm", "max_model_len": 32768}
        assert body("/v1/models/coder") == shown

    def test_a_model_of_a_backend_that_never_answered_is_there_without_a_length(self) -> None:
        assert body("/v1/models/other") == {
            "id": "other", "object": "model", "created": 1_600_000_000, "owned_by": "extproc"
        }  # fmt: skip

    def test_each_is_what_openai_calls_a_model(self) -> None:
        for model in body("/v1/models")["data"]:
            Model.model_validate(model, strict=True)

    def test_each_is_what_anthropic_calls_a_model(self) -> None:
        listed = listed_models(anthropic_catalogue_answer("/v1/models", CONFIG, REPORTS, TERMS.since))
        assert [(model["id"], model["max_input_tokens"]) for model in listed] == [
            ("coder", 32768),
            ("Qwen/Qwen2.5-Coder", 32768),
            ("other", None),
        ]

    @pytest.mark.parametrize("encoded", ["Qwen/Qwen2.5-Coder", "Qwen%2FQwen2.5-Coder", quote("Qwen/Qwen2.5-Coder", "")])
    def test_a_name_may_have_slashes_encoded_or_not(self, encoded: str) -> None:
        assert body(f"/v1/models/{encoded}")["id"] == "Qwen/Qwen2.5-Coder"

    @pytest.mark.parametrize("name", ["gpt-4", "Qwen", "coder/x", "%FF", "x" * 5000])
    def test_an_unknown_name_is_not_found(self, name: str) -> None:
        reply = answer(f"/v1/models/{name}")
        assert reply.status.code == 404
        error = json.loads(reply.body)["error"]
        assert (error["code"], error["type"]) == ("model_not_found", "invalid_request_error")
        assert len(reply.body) < 500

    @pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS"])
    def test_it_can_only_be_read(self, method: str) -> None:
        reply = answer("/v1/models/coder", method)
        assert reply.status.code == 405
        assert set_fields(reply.headers)["allow"] == "GET, HEAD"
        assert json.loads(reply.body)["error"]["code"] == "method_not_allowed"


class TestReports:
    @pytest.mark.parametrize("nonsense", [b"", b"{}", b"[]", b'{"data": 1}', b'{"data": ["coder"]}', b'{"data": [{}]}'])
    def test_what_is_no_list_is_refused(self, nonsense: bytes) -> None:
        with pytest.raises(ValueError, match="no list"):
            read_reports(nonsense)

    def test_what_is_no_number_is_left_out(self) -> None:
        told = b'{"data": [{"id": "m", "created": "today", "owned_by": 1, "max_model_len": null}]}'
        assert read_reports(told) == {"m": ModelInfo()}


def backend(*ports: int, **fields: Any) -> Backend:
    return Backend(name="b", address=tuple(f"127.0.0.1:{port}" for port in ports), **fields)


class TestAsking:
    """Over real connections."""

    def test_a_vllm_is_understood(self) -> None:
        async def main() -> Mapping[str, ModelInfo]:
            async with ScriptedVLLM(model="m", max_model_len=8192) as vllm:
                return await reports_of(backend(vllm.port), Address("127.0.0.1", vllm.port))

        (report,) = asyncio.run(main()).values()
        assert (report.owned_by, report.max_model_len) == ("vllm", 8192)
        assert report.created

    def test_by_tls_with_the_backends_key(self, tmp_path: Path) -> None:
        key = tmp_path / "key"
        key.write_text("secret\n")

        async def main() -> tuple[Mapping[str, ModelInfo], bytes]:
            async with tls_backend(tmp_path) as (port, heads):
                tls = {"ca": str(tmp_path / "ca.pem"), "sni": "vllm.example"}
                asked = backend(port, tls=tls, api_key=str(key))
                with pytest.raises(ssl.SSLError, match="certificate verify failed"):
                    await reports_of(backend(port, tls={"ca": tls["ca"]}), Address("127.0.0.1", port))
                return await reports_of(asked, Address("127.0.0.1", port)), heads[-1]

        reports, head = asyncio.run(main())
        assert reports == {"m": ModelInfo(max_model_len=1)}
        assert b"\r\nauthorization: Bearer secret\r\n" in head
        assert b"\r\nhost: vllm.example\r\n" in head

    def test_the_first_replica_that_answers_will_do_and_what_was_said_stays(self) -> None:
        async def main() -> None:
            config = CONFIG.model_copy(update={"backends": (backend(free_port(), port := free_port()),)})
            reports = BackendReports(lambda: config)
            asking = asyncio.create_task(reports.run())
            try:
                async with ScriptedVLLM(model="m", max_model_len=8192, port=port):
                    await until(lambda: "b" in reports.by_backend, reports)
                before = dict(reports.by_backend)
                await until(lambda: True, reports)
                assert reports.by_backend == before
                async with ScriptedVLLM(model="m", max_model_len=100, port=port):
                    await until(lambda: reports.by_backend["b"]["m"].max_model_len == 100, reports)
                config = CONFIG
                await until(lambda: "b" not in reports.by_backend, reports)
            finally:
                asking.cancel()

        asyncio.run(asyncio.wait_for(main(), 30))


@asynccontextmanager
async def tls_backend(folder: Path) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server with the name vllm.example; yields its port, and what it was asked."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert("vllm.example").configure_cert(context)
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        told = b'{"data": [{"id": "m", "max_model_len": 1}]}'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (len(told), told))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1], heads


async def until(condition: Any, reports: BackendReports) -> None:
    """Have the backends asked until it holds."""
    while True:
        reports.ask_again()
        await asyncio.sleep(0.01)
        if condition():
            return


class TestFrontDoor:
    def test_the_official_client_lists_and_retrieves(self, gateway: Gateway) -> None:
        assert [model.id for model in gateway.openai.models.list()] == ["coder", MODEL, "absent"]
        assert gateway.openai.models.retrieve(MODEL).id == MODEL

    def test_no_backend_is_asked_by_a_client(self, gateway: Gateway) -> None:
        gateway.backend.forget()
        assert gateway.http.get("/v1/models/coder").status_code == 200
        assert gateway.http.get("/v1/models/no%2Fsuch").status_code == 404
        assert gateway.http.delete("/v1/models/coder").status_code == 405
        assert [request for request in gateway.backend.requests if request.method != "GET"] == []

    def test_the_context_length_comes_from_the_backend(self, gateway: Gateway) -> None:
        wait_until(lambda: gateway.http.get("/v1/models/coder").json().get("max_model_len") == 4096)
        assert "max_model_len" not in gateway.http.get("/v1/models/absent").json()
