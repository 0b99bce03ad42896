"""The gRPC shell, spoken to as Envoy does: over a real connection."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from extproc.config import Config, Limits
from extproc.exchange.context import ExchangeContext
from extproc.names import LAYOUT, LAYOUT_METADATA
from extproc.observability.telemetry import Telemetry
from extproc.server.processor import CONFIG_HEALTH, Processor
from extproc.transport import Transport
from extproc.transport.tls import ServerTls
from extproc.wire import SERVICE, ProcessingMode, ProcessingRequest, ProcessingResponse, ProtocolConfiguration
from tests.gateway import free_port
from tests.test_answer import CALL, stream
from tests.test_exchange import (
    EVENTS,
    WITH_TOOLS,
    request_body,
    request_headers,
    response_body,
    response_headers,
    set_fields,
)
from tests.test_request import CONFIG, MESSAGES
from tests.tls_ends import write_certificate

pytestmark = pytest.mark.long

PROCESS = f"/{SERVICE}/Process"


class Envoy:
    """The other side of the connection."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel

    def exchange(self) -> Any:
        process = self.channel.stream_stream(
            PROCESS,
            request_serializer=ProcessingRequest.SerializeToString,
            response_deserializer=ProcessingResponse.FromString,
        )
        return process(metadata=((LAYOUT_METADATA, LAYOUT),))

    async def serving(self, service: str = "") -> bool:
        check = self.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        reply = await check(health_pb2.HealthCheckRequest(service=service))
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)

    async def not_serving(self) -> None:
        """Returns when the health service says so."""
        watch = self.channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        call = watch(health_pb2.HealthCheckRequest())
        async for reply in call:
            if reply.status == health_pb2.HealthCheckResponse.NOT_SERVING:
                break
        call.cancel()


@asynccontextmanager
async def connected(
    config: Config, tmp_path: Path, telemetry: Telemetry | None = None, transport: Transport = "lean"
) -> AsyncIterator[tuple[Processor, Envoy]]:
    processor = Processor(ExchangeContext(config), telemetry or Telemetry(CONFIG))
    address = f"unix:{tmp_path}/processor.sock"
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    running = processor.running(address, transport=transport)
    async with running, grpc.aio.insecure_channel(address, options=options) as channel:
        yield processor, Envoy(channel)


_FOREVER = 120
"""Seconds after which a conversation hangs; the longest takes six, and far more where others want the same cores."""


@pytest.fixture(params=get_args(Transport))
def transport(request: pytest.FixtureRequest) -> Transport:
    """Each of them: what holds for the one holds for the other."""
    carrier: Transport = request.param
    return carrier


@pytest.fixture
def talk(tmp_path: Path, transport: Transport) -> Callable[..., None]:
    """Runs a conversation with a processor of its own."""

    def run(
        conversation: Callable[[Processor, Envoy], Awaitable[None]],
        config: Config = CONFIG,
        telemetry: Telemetry | None = None,
    ) -> None:
        async def main() -> None:
            async with connected(config, tmp_path, telemetry, transport) as (processor, envoy):
                await asyncio.wait_for(conversation(processor, envoy), _FOREVER)

        asyncio.run(main())

    return run


def test_a_whole_exchange(talk: Callable[..., None]) -> None:
    async def conversation(processor: Processor, envoy: Envoy) -> None:
        call = envoy.exchange()
        for message in (request_headers(), request_body(WITH_TOOLS), response_headers(EVENTS)):
            await call.write(message)
            await call.read()
        assert processor.exchanges == 1
        await call.write(response_body(stream([CALL])))
        last = await call.read()
        assert b'"tool_calls"' in last.response_body.response.body_mutation.streamed_response.body
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK
        assert processor.exchanges == 0

    talk(conversation)


def test_bodies_up_to_the_limit_come_through(talk: Callable[..., None]) -> None:
    async def conversation(_: Processor, envoy: Envoy) -> None:
        call = envoy.exchange()
        await call.write(request_headers())
        await call.read()
        large = {**WITH_TOOLS, "messages": [{"role": "user", "content": "x" * 20_000_000}]}
        await call.write(request_body(large))
        assert (await call.read()).HasField("override_message_timeout")
        reply = await call.read()
        assert len(reply.request_body.response.body_mutation.body) > 20_000_000
        call.cancel()

    talk(conversation)


def test_too_many_large_requests_at_once_are_told_to_come_back(talk: Callable[..., None]) -> None:
    def text(size: int) -> ProcessingRequest:
        return request_body({**WITH_TOOLS, "messages": [{"role": "user", "content": "x" * size}]})

    async def conversation(processor: Processor, envoy: Envoy) -> None:
        async def reply(message: ProcessingRequest) -> ProcessingResponse:
            call = envoy.exchange()
            await call.write(request_headers())
            await call.read()
            await call.write(message)
            assert (await call.read()).HasField("override_message_timeout")
            answer: ProcessingResponse = await call.read()
            call.cancel()
            return answer

        await reply(text(2_000_000))
        (worker,) = processor.workers.pids
        os.kill(worker, signal.SIGSTOP)
        try:
            waiting = [asyncio.create_task(reply(text(22_000_000))) for _ in range(5)]
            (refused,), others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            os.kill(worker, signal.SIGCONT)
        answer = refused.result().immediate_response
        assert (answer.status.code, answer.details) == (503, "extproc.overloaded")
        assert set_fields(answer.headers)["retry-after"] == "1"
        for other in others:
            assert (await other).HasField("request_body")

    talk(conversation)


def test_an_exchange_keeps_the_terms_that_it_began_with(talk: Callable[..., None]) -> None:
    async def conversation(processor: Processor, envoy: Envoy) -> None:
        old = envoy.exchange()
        await old.write(request_headers())
        await old.read()
        assert processor.uses(CONFIG)
        others = Config(models=CONFIG.models[1:], backends=CONFIG.backends)
        processor.context = ExchangeContext(others)
        new = envoy.exchange()
        await new.write(request_headers())
        await new.read()
        assert processor.uses(others)
        for call, answer in ((old, "request_body"), (new, "immediate_response")):
            await call.write(request_body({**MESSAGES, "model": CONFIG.models[0].name}))
            assert (await call.read()).WhichOneof("response") == answer
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF
        assert not processor.uses(CONFIG)
        assert not processor.uses(others)

    talk(conversation)


def test_health_tells_of_the_configuration_apart_from_the_service(talk: Callable[..., None]) -> None:
    async def conversation(processor: Processor, envoy: Envoy) -> None:
        assert await envoy.serving(CONFIG_HEALTH)
        processor.show_config_health(valid=False)
        assert not await envoy.serving(CONFIG_HEALTH)
        assert await envoy.serving()
        assert await envoy.serving(SERVICE)

    talk(conversation)


def test_a_protocol_error_is_refused_loudly(talk: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry(CONFIG)

    async def conversation(_: Processor, envoy: Envoy) -> None:
        call = envoy.exchange()
        await call.write(
            ProcessingRequest(
                request_headers=request_headers().request_headers,
                protocol_config=ProtocolConfiguration(request_body_mode=ProcessingMode.STREAMED),
            )
        )
        assert await call.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "request_body_mode BUFFERED" in await call.details()

    talk(conversation, telemetry=telemetry)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert telemetry.registry.get_sample_value("extproc_aborted_exchanges_total", {"reason": "protocol_error"}) == 1


def test_a_bug_ends_one_exchange_and_is_logged_once_without_what_was_said(
    talk: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    telemetry = Telemetry(CONFIG)

    async def conversation(_: Processor, envoy: Envoy) -> None:
        call = envoy.exchange()
        await call.write(request_headers())
        await call.read()
        await call.write(request_body({**MESSAGES, "messages": [{"role": "user", "content": "a secret"}]}))
        assert await call.code() is grpc.StatusCode.INTERNAL
        assert "request-1" in await call.details()
        other = envoy.exchange()
        await other.write(request_headers())
        assert (await other.read()).WhichOneof("response") == "request_headers"
        other.cancel()

    # A configuration that can't be: it makes the core fail where no input can.
    talk(conversation, Config.model_construct(models=None, backends=(), limits=Limits()), telemetry)
    assert telemetry.registry.get_sample_value("extproc_aborted_exchanges_total", {"reason": "bug"}) == 1
    (record,) = (record for record in caplog.records if record.name == "extproc.server.exchange_call")
    assert record.levelno == logging.ERROR
    assert record.__dict__["exchange"] == "request-1"
    assert "secret" not in caplog.text


def test_what_is_under_way_can_be_read_and_what_was_left_is_counted(talk: Callable[..., None]) -> None:
    telemetry = Telemetry(CONFIG)

    async def conversation(processor: Processor, envoy: Envoy) -> None:
        call = envoy.exchange()
        for message in (request_headers(), request_body(WITH_TOOLS), response_headers(EVENTS)):
            await call.write(message)
            await call.read()
        assert telemetry.registry.get_sample_value("extproc_running_exchanges") == 1
        call.cancel()
        assert await processor.drain(grace=20) is True
        assert telemetry.registry.get_sample_value("extproc_running_exchanges") == 0

    talk(conversation, telemetry=telemetry)
    unfinished = telemetry.registry.get_sample_value("extproc_unfinished_exchanges_total", {"phase": "response_stream"})
    assert unfinished == 1


def test_draining_says_so_first_and_waits_for_what_runs(talk: Callable[..., None]) -> None:
    async def conversation(processor: Processor, envoy: Envoy) -> None:
        assert await envoy.serving()
        assert await envoy.serving(SERVICE)
        call = envoy.exchange()
        await call.write(request_headers())
        await call.read()
        draining = asyncio.ensure_future(processor.drain(grace=20))
        await envoy.not_serving()
        assert not draining.done()
        await call.write(request_body(WITH_TOOLS))
        assert (await call.read()).WhichOneof("response") == "request_body"
        late = envoy.exchange()
        await late.write(request_headers())
        assert (await late.read()).WhichOneof("response") == "request_headers"
        assert not draining.done()
        await call.done_writing()
        await late.done_writing()
        assert await draining is True

    talk(conversation)


def test_draining_gives_up_after_its_grace(talk: Callable[..., None]) -> None:
    async def conversation(processor: Processor, envoy: Envoy) -> None:
        call = envoy.exchange()
        await call.write(request_headers())
        await call.read()
        assert await processor.drain(grace=0.01) is False
        call.cancel()

    talk(conversation)


def test_the_service_can_be_asked_what_it_serves(talk: Callable[..., None]) -> None:
    async def conversation(_: Processor, envoy: Envoy) -> None:
        ask = envoy.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        call = ask()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        reply = await call.read()
        assert isinstance(reply, reflection_pb2.ServerReflectionResponse)
        services = {service.name for service in reply.list_services_response.service}
        assert services == {SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
        call.cancel()

    talk(conversation)


def test_health_can_be_asked_at_an_address_that_serves_nothing_else(tmp_path: Path, transport: Transport) -> None:
    async def main() -> None:
        processor, address = Processor(ExchangeContext(CONFIG), Telemetry(CONFIG)), f"127.0.0.1:{free_port()}"
        async with (
            processor.running(f"unix:{tmp_path}/processor.sock", address, transport=transport),
            grpc.aio.insecure_channel(address) as channel,
        ):
            probe = Envoy(channel)
            assert await probe.serving()
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await probe.exchange().read()
            assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
            await processor.drain(0)
            await probe.not_serving()

    asyncio.run(main())


def test_tls_takes_renewed_certificates_and_asks_for_the_clients(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, transport: Transport
) -> None:
    authority, renewed = trustme.CA(), trustme.CA()
    write_certificate(tmp_path, authority.issue_cert("processor.test"))
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem.bytes())
    identity = authority.issue_cert("envoy.test")
    tls = ServerTls(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")

    def asked(port: int, trusted: trustme.CA, *, identified: bool = True) -> bool:
        mine = (identity.private_key_pem.bytes(), identity.cert_chain_pems[0].bytes()) if identified else (None, None)
        credentials = grpc.ssl_channel_credentials(trusted.cert_pem.bytes(), *mine)
        options = [("grpc.ssl_target_name_override", "processor.test"), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options=options) as channel:
            try:
                check = channel.unary_unary(
                    "/grpc.health.v1.Health/Check",
                    request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                    response_deserializer=health_pb2.HealthCheckResponse.FromString,
                )
                check(health_pb2.HealthCheckRequest(), timeout=10)
            except grpc.RpcError as error:
                return error.code() is not grpc.StatusCode.UNAVAILABLE
            return True

    async def main() -> None:
        processor = Processor(ExchangeContext(CONFIG), Telemetry(CONFIG))
        async with processor.running(f"127.0.0.1:{free_port()}", tls=tls, transport=transport) as port:
            assert await asyncio.to_thread(asked, port, authority)
            assert not await asyncio.to_thread(asked, port, authority, identified=False)
            write_certificate(tmp_path, renewed.issue_cert("processor.test"))
            assert await asyncio.to_thread(asked, port, renewed)
            (tmp_path / "tls.key").write_text("none", encoding="utf-8")
            assert await asyncio.to_thread(asked, port, renewed)

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    (taken, refused) = (record.getMessage() for record in caplog.records if record.name == "extproc.transport.tls")
    assert taken == f"new connections get the certificate that is now in {tls.certificate}"
    assert refused.startswith("the TLS files are refused, the previous ones stay in force")


def test_an_address_in_use_is_an_error(transport: Transport) -> None:
    async def main() -> None:
        first, second = (Processor(ExchangeContext(CONFIG), Telemetry(CONFIG)) for _ in range(2))
        async with first.running("127.0.0.1:0", transport=transport) as port:
            with pytest.raises(OSError, match="in use"):
                async with second.running(f"127.0.0.1:{port}", transport=transport):
                    pass

    asyncio.run(main())


def test_pieces_are_left_to_gather_where_many_streams_run_and_nothing_else_goes_on(talk: Callable[..., None]) -> None:
    async def conversation(processor: Processor, envoy: Envoy) -> None:
        calls = []
        for _ in range(16):
            assert processor.gather() == 0
            calls.append(call := envoy.exchange())
            for message in (request_headers(), request_body(WITH_TOOLS), response_headers(EVENTS)):
                await call.write(message)
                await call.read()
        assert processor.gather() == 0  # the last one has just come
        assert processor.gather() > 0
        await calls[0].write(response_body(b"data: "))
        another = envoy.exchange()
        await another.write(request_headers())
        await another.read()
        assert processor.gather() == 0
        for call in (*calls, another):
            call.cancel()
        assert await processor.drain(20)
        assert [processor.gather() for _ in range(2)] == [0, 0]

    talk(conversation)
