"""An identity provider for tests: its keys, tokens by them, and what publishes the keys, by TLS."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trustme
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.hashes import SHA256

from tests.serving_in_thread import serving_in_thread

ISSUER, AUDIENCE = "https://login.example.org/", "extproc"


def b64(content: bytes) -> str:
    """As all parts of a token are written (RFC 7515)."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def part(value: Any) -> str:
    """A head, or claims."""
    return b64(json.dumps(value).encode())


def claims(**changed: Any) -> dict[str, Any]:
    """Those of a good token, but for what is `changed`; None leaves one out."""
    good = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 600, "sub": "alice"}
    return {name: value for name, value in {**good, **changed}.items() if value is not None}


class Signer:
    """A key pair of one of two kinds."""

    def __init__(self, kid: str, algorithm: str = "RS256") -> None:
        self.kid = kid
        self.algorithm = algorithm
        self._key = (
            rsa.generate_private_key(65537, 2048) if algorithm == "RS256" else ec.generate_private_key(ec.SECP256R1())
        )

    def token(self, head: dict[str, Any] | None = None, **changed: Any) -> str:
        """A token with these claims; `head` has what stands in its head besides."""
        signed = f"{part({'alg': self.algorithm, 'kid': self.kid, **(head or {})})}.{part(claims(**changed))}"
        return f"{signed}.{b64(self._sign(signed.encode()))}"

    def _sign(self, content: bytes) -> bytes:
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.sign(content, padding.PKCS1v15(), SHA256())
        r, s = utils.decode_dss_signature(self._key.sign(content, ec.ECDSA(SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    @property
    def jwk(self) -> dict[str, str]:
        """The public key as RFC 7518 writes it."""
        common = {"kid": self.kid, "alg": self.algorithm, "use": "sig"}
        if isinstance(self._key, rsa.RSAPrivateKey):
            numbers = self._key.public_key().public_numbers()
            return {**common, "kty": "RSA", "n": b64(numbers.n.to_bytes(256, "big")), "e": "AQAB"}
        point = self._key.public_key().public_numbers()
        x, y = (b64(value.to_bytes(32, "big")) for value in (point.x, point.y))
        return {**common, "kty": "EC", "crv": "P-256", "x": x, "y": y}


def key_set(*signers: Signer) -> str:
    """A JWKS."""
    return json.dumps({"keys": [signer.jwk for signer in signers]})


@contextmanager
def published(key_set: str, certificate: trustme.LeafCert) -> Iterator[int]:
    """The port of a server that has the key set at `/keys`, by TLS."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/keys" else 404)
            self.send_header("content-length", str(len(key_set)))
            self.end_headers()
            self.wfile.write(key_set.encode())

        def log_message(self, *_: Any) -> None:
            pass

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving_in_thread(server):
        yield server.server_port
