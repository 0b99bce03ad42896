"""A client whose authority was withdrawn isn't let in by a session that it has from before."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest
import trustme

from extproc.transport import Endpoint, Turns, serving
from extproc.transport.tls import ServerTls
from tests.tls_ends import write_certificate


def shaken(port: int, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
    """The session of a connection that the server has let in. Raises OSError for one that it hasn't."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="processor.test", session=session) as secured,
    ):
        if not secured.recv(9):  # of its SETTINGS: by then it has seen our certificate
            raise ConnectionError
        return secured.session


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_outlives_no_authority(version: ssl.TLSVersion, tmp_path: Path) -> None:
    authority, another = trustme.CA(), trustme.CA()
    write_certificate(tmp_path, authority.issue_cert("processor.test"))
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem.bytes())
    tls = ServerTls(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    context = ssl.create_default_context()
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    authority.configure_trust(context)
    authority.issue_cert("envoy.test").configure_cert(context)

    async def main() -> None:
        async with serving("lean", Endpoint("127.0.0.1:0", {}, 1024, tls), Turns()) as port:
            session = await asyncio.to_thread(shaken, port, context, None)
            (tmp_path / "ca.crt").write_bytes(another.cert_pem.bytes())
            with pytest.raises(OSError):  # noqa: PT011  # which one depends on the version
                await asyncio.to_thread(shaken, port, context, session)

    asyncio.run(main())
