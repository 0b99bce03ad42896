"""TLS for tests: certificates in files, and a server's end of TLS in front of a scripted vLLM."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trustme

from scripted_vllm import ScriptedVLLM
from tests.gateway import put


def write_certificate(folder: Path, certificate: trustme.LeafCert) -> None:
    """Write `tls.crt` and `tls.key`, or replace them."""
    put(folder / "tls.crt", b"".join(each.bytes() for each in certificate.cert_chain_pems))
    put(folder / "tls.key", certificate.private_key_pem.bytes())


def swap_as_kubernetes_does(folder: Path, contents: dict[str, bytes]) -> None:
    """Files of a Secret's volume: links through a link, `..data`, which is replaced when any of them changes."""
    number = len(list(folder.glob("..generation-*")))
    generation = folder / f"..generation-{number}"
    generation.mkdir()
    for name, content in contents.items():
        (generation / name).write_bytes(content)
        if number == 0:
            (folder / name).symlink_to(f"..data/{name}")
    link = folder / "..data_tmp"
    link.symlink_to(generation.name)
    link.replace(folder / "..data")


def trusting(authority: trustme.CA, identity: trustme.LeafCert | None = None) -> ssl.SSLContext:
    """What a client needs that trusts this authority, and shows this certificate of its own."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if identity is not None:
        identity.configure_cert(context)
    return context


class TlsEnd:
    """Where TLS ends in front of a vLLM."""

    def __init__(self, port: int, names: list[str | None]) -> None:
        self.port = port
        self.names = names
        """The names that were asked for (SNI), one for each connection."""


@contextmanager
def tls_in_front_of(vllm: ScriptedVLLM, certificate: trustme.LeafCert) -> Iterator[TlsEnd]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="tls-end")
    thread.start()
    under_way: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", vllm.port)
        await asyncio.gather(_pass_on(reader, behind_writer), _pass_on(behind_reader, writer))

    async def stop(server: asyncio.Server) -> None:
        server.close()
        for task in list(under_way):
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await server.wait_closed()

    starting = asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    server = asyncio.run_coroutine_threadsafe(starting, loop).result(10)
    try:
        yield TlsEnd(server.sockets[0].getsockname()[1], names)
    finally:
        asyncio.run_coroutine_threadsafe(stop(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    writer.close()
    with suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()
