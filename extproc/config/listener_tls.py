"""TLS between clients and Envoy."""

from __future__ import annotations

from extproc.config.base import AbsolutePath, Settings


class ListenerTls(Settings):
    """The `tls` of a configuration. The files may change while Envoy runs."""

    certificate: AbsolutePath
    """The certificate, with those that lead to its root, in PEM."""
    key: AbsolutePath
    """Its private key, in PEM."""
    client_ca: AbsolutePath | None = None
    """Clients have to show a certificate that leads to one of these."""
