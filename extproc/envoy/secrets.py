"""Keys and certificates: Envoy reads them from their own files, and takes them anew when they change.

Nothing secret is in what is made here, only names and paths. Envoy notices that a file has changed when it is moved
into place (`mv`, Kubernetes' swap of `..data`), not when it is written to; and only where it learned of it from a file
made here, one for each secret, because what the bootstrap names is read once. A file that is of no use is refused, and
what was in use stays; one that isn't there yet is taken when it comes, if its directory is there (docs/envoy.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls

from extproc.config import Backend, Jwt
from extproc.config.listener_tls import ListenerTls

CERTIFICATE = "certificate"
"""The certificate that clients see."""
CLIENT_CA = "client-ca"
JWKS_CA = "ca-_jwks"
"""For the server at the URL of an identity provider's keys: no backend's name begins with an underscore."""

SYSTEM_CA = Path("/etc/ssl/certs/ca-certificates.crt")
"""Where Envoy's own image, Debian and Alpine keep the certificates of those whom everybody trusts. Envoy has a setting
for the system's certificates too, but doesn't check any name with it."""


def key_name(backend: Backend) -> str:
    return f"key-{backend.name}"


def ca_name(backend: Backend) -> str:
    return f"ca-{backend.name}"


def secrets(listener: ListenerTls | None, jwt: Jwt | None, backends: Iterable[Backend]) -> Iterator[tls.Secret]:
    """All that the listener, the check of tokens and the backends ask for."""
    if listener is not None:
        yield tls.Secret(name=CERTIFICATE, tls_certificate=_certificate(listener.certificate, listener.key))
        if listener.client_ca is not None:
            yield _authority(CLIENT_CA, listener.client_ca)
    if jwt is not None and jwt.jwks.url is not None:
        yield _authority(JWKS_CA, jwt.jwks.ca or SYSTEM_CA)
    for backend in backends:
        if backend.tls is not None:
            yield _authority(ca_name(backend), backend.tls.ca or SYSTEM_CA)
        if backend.api_key is not None:
            yield tls.Secret(name=key_name(backend), generic_secret=tls.GenericSecret(secret=_file(backend.api_key)))


def _certificate(chain: Path, key: Path) -> tls.TlsCertificate:
    certificate = tls.TlsCertificate(certificate_chain=_file(chain), private_key=_file(key))
    if chain.parent == key.parent:
        # Then Envoy reads both again until it has two that belong together.
        certificate.watched_directory = core.WatchedDirectory(path=str(chain.parent))
    return certificate


def _authority(name: str, file: Path) -> tls.Secret:
    return tls.Secret(name=name, validation_context=tls.CertificateValidationContext(trusted_ca=_file(file)))


def _file(path: Path) -> core.DataSource:
    return core.DataSource(filename=str(path))
