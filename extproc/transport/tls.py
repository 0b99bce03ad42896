"""TLS for what connects to the processor: a certificate that may be renewed, and clients that have to show theirs.

An Envoy of our own comes by a socket that only its pod has. A gateway elsewhere comes over a network, where everybody
on the way reads what it sends, clients' keys among it, and where anybody may be taken for it. The files are looked at
with each new connection; what can't be used is told of once, and the files before it stay in force.
"""

from __future__ import annotations

import ipaddress
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from extproc.config import Address
from extproc.config.files import read_file

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The files, in PEM."""

    certificate: Path
    """With those that lead to its root."""
    key: Path
    client_ca: Path | None = None
    """Clients have to show a certificate that leads to one of these."""

    def context(self) -> ssl.SSLContext:
        """For connections of HTTP/2, each of which gets what the files hold when it begins. Raises OSError when they
        can't be used to begin with.
        """
        files = TlsFiles(self)

        def begun(connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
            files.renewed()
            connection.context = files.context

        context = _context(self)
        # Whoever takes up an old session isn't asked for a certificate: one that was let in once would be for ever.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        context.sni_callback = begun  # called whether or not a name was sent
        return context


Contents: TypeAlias = tuple[bytes, bytes, bytes | None]


class TlsFiles:
    """The files, and what was in them when they could last be used."""

    def __init__(self, tls: ServerTls) -> None:
        """Raises OSError when they can't be used."""
        self._tls = tls
        self.contents, self.context = self._read()
        """The certificate, its key, and the clients' authorities; and what was made of them."""
        self._complaint = ""

    def renewed(self) -> bool:
        """Whether there is something else in them by now. What can't be used is told once, and isn't taken."""
        try:
            contents = self._contents()
            if contents == self.contents:
                self._complaint = ""
                return False
            contents, context = self._read()
        except OSError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.error("the TLS files are refused, the previous ones stay in force: %s", error)
            return False
        self._complaint = ""
        self.contents, self.context = contents, context
        log.info("new connections get the certificate that is now in %s", self._tls.certificate)
        return True

    def _read(self) -> tuple[Contents, ssl.SSLContext]:
        before = self._contents()
        context = _context(self._tls)
        if self._contents() != before:
            raise OSError(f"{self._tls.certificate} and what belongs to it are just being changed")
        return before, context

    def _contents(self) -> Contents:
        tls = self._tls
        client_ca = _content(tls.client_ca) if tls.client_ca is not None else None
        return _content(tls.certificate), _content(tls.key), client_ca


def _context(tls: ServerTls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # RFC 9113, section 9.2
    context.set_alpn_protocols(["h2"])
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    except ssl.SSLError as error:
        raise OSError(
            f"{tls.certificate} and {tls.key} are not a matching certificate and key in unencrypted PEM: "
            f"{error.reason or 'they cannot be read'}"
        ) from None
    if tls.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(tls.client_ca)
        except ssl.SSLError:
            raise OSError(f"{tls.client_ca} holds no certificates in PEM") from None
    return context


def _content(path: Path) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise OSError(f"{path}: can't be read: {error.strerror}") from error


def _no_password() -> str:
    """Without it OpenSSL would ask on the terminal."""
    return ""


def is_open_to_others(address: str) -> bool:
    """Whether what listens at `address` (`host:port` or `unix:/path`) can be reached from other machines."""
    if address.startswith("unix:"):
        return False
    host = Address.parse(address).host
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"
