"""TLS for what connects to the processor: a certificate that may be renewed, and clients that have to show theirs.

An Envoy of our own comes by a socket that only its pod has. A gateway elsewhere comes over a network, where everybody
on the way reads what it sends, clients' keys among it, and where anybody may be taken for it. gRPC asks for the files
with each new connection; what can't be used is told of once, and the files before it stay in force.
"""

from __future__ import annotations

import ipaddress
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

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

    def credentials(self) -> grpc.ServerCredentials:
        """What a server takes. Raises OSError when the files can't be used to begin with."""
        files = _Files(self)
        return grpc.dynamic_ssl_server_credentials(
            files.configuration(files.contents),
            files.renewed,  # type: ignore[arg-type]  # its type leaves out the None that the documentation has
            require_client_authentication=self.client_ca is not None,
        )


class _Files:
    """The files, and what was in them when they could last be used."""

    def __init__(self, tls: ServerTls) -> None:
        self._tls = tls
        self.contents = self._read()
        self._complaint = ""

    def renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """What there is instead by now; None while it is the same. Called in threads of gRPC's."""
        try:
            contents = self._read()
        except OSError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.error("the TLS files are refused, the previous ones stay in force: %s", error)
            return None
        self._complaint = ""
        if contents == self.contents:
            return None
        self.contents = contents
        log.info("new connections get the certificate that is now in %s", self._tls.certificate)
        return self.configuration(contents)

    def configuration(self, contents: tuple[bytes, bytes, bytes | None]) -> grpc.ServerCertificateConfiguration:
        certificate, key, client_ca = contents
        return grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca)

    def _read(self) -> tuple[bytes, bytes, bytes | None]:
        tls = self._tls
        certificate, key = _content(tls.certificate), _content(tls.key)
        client_ca = _content(tls.client_ca) if tls.client_ca is not None else None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:  # gRPC would take anything, and then break every connection
            context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
        except ssl.SSLError as error:
            raise OSError(
                f"{tls.certificate} and {tls.key} are not a matching certificate and key in unencrypted PEM: "
                f"{error.reason or 'they cannot be read'}"
            ) from None
        if client_ca is not None:
            try:
                context.load_verify_locations(tls.client_ca)
            except ssl.SSLError:
                raise OSError(f"{tls.client_ca} holds no certificates in PEM") from None
        return certificate, key, client_ca


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
