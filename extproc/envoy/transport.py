"""TLS, on all sides: to clients at the listener, to backends, and to an identity provider."""

from __future__ import annotations

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls
from envoy_data_plane.envoy.type.matcher.v3 import StringMatcher

from extproc.config import Backend
from extproc.config.listener_tls import ListenerTls
from extproc.envoy.addresses import is_ip
from extproc.envoy.extensions import packed
from extproc.envoy.secrets import CERTIFICATE, CLIENT_CA, JWKS_CA, ca_name
from extproc.envoy.sources import Sources

# TLS 1.2 is what the oldest clients still in use can do; 1.0 and 1.1 are broken.
_VERSIONS = tls.TlsParameters(tls_minimum_protocol_version=tls.TlsParametersTlsProtocol.TLSv1_2)


def for_clients(settings: ListenerTls, sources: Sources) -> core.TransportSocket:
    """TLS at the listener: HTTP/2 for clients that can, HTTP/1.1 for the others."""
    common = tls.CommonTlsContext(
        tls_params=_VERSIONS,
        tls_certificate_sds_secret_configs=[sources.secret(CERTIFICATE)],
        alpn_protocols=["h2", "http/1.1"],
    )
    if settings.client_ca is not None:
        common.validation_context_sds_secret_config = sources.secret(CLIENT_CA)
    return _socket(
        tls.DownstreamTlsContext(
            common_tls_context=common, require_client_certificate=True if settings.client_ca is not None else None
        )
    )


def to_backend(backend: Backend, sources: Sources) -> core.TransportSocket | None:
    """TLS to the backend's replicas, if it is to be spoken to by TLS.

    Each is asked for by its own name, and has to show a certificate with the name, or the address, of one of them:
    all of one backend are trusted alike. A name given as `sni` takes the place of both.
    """
    if backend.tls is None:
        return None
    sni = backend.tls.sni
    hosts = [sni] if sni is not None else sorted({address.host for address in backend.endpoints})
    validation = tls.CommonTlsContextCombinedCertificateValidationContext(
        default_validation_context=tls.CertificateValidationContext(
            match_typed_subject_alt_names=[_subject(host) for host in hosts]
        ),
        validation_context_sds_secret_config=sources.secret(ca_name(backend)),
    )
    return _socket(
        tls.UpstreamTlsContext(
            common_tls_context=tls.CommonTlsContext(
                tls_params=_VERSIONS, combined_validation_context=validation, alpn_protocols=["http/1.1"]
            ),
            sni=sni if sni is not None and not is_ip(sni) else "",
            # An address has no place in SNI: servers at addresses are asked for no name.
            auto_host_sni=sni is None and not all(map(is_ip, hosts)),
        )
    )


def to_provider(host: str, sources: Sources) -> core.TransportSocket:
    """TLS to where an identity provider publishes its keys, which has to show a certificate for this host."""
    validation = tls.CommonTlsContextCombinedCertificateValidationContext(
        default_validation_context=tls.CertificateValidationContext(match_typed_subject_alt_names=[_subject(host)]),
        validation_context_sds_secret_config=sources.secret(JWKS_CA),
    )
    common = tls.CommonTlsContext(
        tls_params=_VERSIONS, combined_validation_context=validation, alpn_protocols=["http/1.1"]
    )
    return _socket(tls.UpstreamTlsContext(common_tls_context=common, sni="" if is_ip(host) else host))


def _subject(host: str) -> tls.SubjectAltNameMatcher:
    kinds = tls.SubjectAltNameMatcherSanType
    # An exact match of a DNS name takes a certificate's wildcards as one expects.
    return tls.SubjectAltNameMatcher(
        san_type=kinds.IP_ADDRESS if is_ip(host) else kinds.DNS, matcher=StringMatcher(exact=host)
    )


def _socket(context: tls.DownstreamTlsContext | tls.UpstreamTlsContext) -> core.TransportSocket:
    return core.TransportSocket(name="envoy.transport_sockets.tls", typed_config=packed(context))
