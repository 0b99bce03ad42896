"""Clients that come with a token of an identity provider (JWT, OIDC), and not with a key of the gateway's own.

Sources: RFC 7519 (JWT), RFC 7517 (JWK), OpenID Connect Core 1.0 (`iss`, `sub`, `aud`), OpenID Connect Discovery 1.0
(`issuer`, `jwks_uri`).
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, model_validator

from extproc.config.address import Address, AddressError
from extproc.config.base import AbsolutePath, FieldError, Settings

_URL = re.compile(r"https://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?(/[!-~]*)?")
PLAIN_TEXT = r"^[!-~]{1,512}$"
CLAIM_NAME = r"^[A-Za-z0-9_.:/@-]{1,128}$"
"""What may be a claim's name: plain ones, and URLs, as some providers want their own claims to be named."""


class KeysUrl(NamedTuple):
    """Where a provider publishes its keys."""

    host: str
    """A name, or an IP address without brackets."""
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `https://host[:port]/path`. Raises ValueError."""
        found = _URL.fullmatch(url)
        problem = (
            "expected a URL such as https://login.example.org/keys: by https, for whoever can change keys comes in"
        )
        if found is None:
            raise ValueError(problem)
        try:
            host, port = Address.parse(f"{found[1]}:{found[2] or 443}")
        except AddressError:
            raise ValueError(problem) from None
        return cls(host, port, found[3] or "/")


def _check_url(url: str) -> str:
    KeysUrl.parse(url)
    return url


class Jwks(Settings):
    """Where the keys are by which tokens are signed: a JSON Web Key Set, in a file or at a URL."""

    file: AbsolutePath | None = None
    """Which Envoy reads when it starts, and not when it changes."""
    url: Annotated[str, AfterValidator(_check_url)] | None = None
    """Where Envoy fetches them, every five minutes; a provider's discovery document names it as `jwks_uri`."""
    ca: AbsolutePath | None = None
    """Certificates that the one of the URL's server has to lead to; the system's unless given."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.file is None) == (self.url is None):
            raise FieldError((), "expected either `file` or `url`")
        if self.ca is not None and self.url is None:
            raise FieldError(("ca",), "a `file` needs none")
        return self


class Jwt(Settings):
    """The whole of `jwt`: whose tokens are taken, and what of them is the client's name."""

    issuer: Annotated[str, Field(pattern=PLAIN_TEXT)]
    """The tokens' `iss`, letter by letter."""
    audiences: Annotated[tuple[Annotated[str, Field(pattern=PLAIN_TEXT)], ...], Field(min_length=1)]
    """A token has to be meant for one of them (`aud`): the issuer's tokens for others let nobody in."""
    jwks: Jwks
    """The keys by which the issuer signs."""
    client_claim: Annotated[str, Field(pattern=CLAIM_NAME)] = "sub"
    """The claim that is the client's name."""
    team_claim: Annotated[str, Field(pattern=CLAIM_NAME)] | None = None
    """The claim that is the client's team. Unless given, nobody is of any."""
    without_team: Literal["refuse", "allow"] = "refuse"
    """What becomes of a token that hasn't that claim. A client that no team bounds may do more than one of a team."""
