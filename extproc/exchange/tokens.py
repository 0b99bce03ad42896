"""What whoever comes with a token, or without, is told of it (`jwt` in the settings).

The processor doesn't look at tokens: Envoy checks them, tells whose they are, and keeps them
(extproc.envoy.token_check). So a request without a name has no good token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import orjson

from extproc.config import Jwt
from extproc.contract.errors import ApiError

NO_TOKEN = ApiError(
    401,
    "No token has come with this request that Envoy has checked. Send one as the header "
    "'Authorization: Bearer YOUR_TOKEN'; where that was done, try again: the gateway's settings have just changed.",
    code="missing_token",
)
UNCHECKED_TOKEN = ApiError(
    401,
    "This gateway takes tokens only through an Envoy that `extproc envoy` configures: by this one nobody comes in.",
    code="missing_token",
)

LONGEST_NAME = 255
"""Bytes of a client's name, as it is written: what OpenID Connect allows a `sub`."""


def claim_errors(jwt: Jwt) -> Mapping[str, ApiError]:
    """The answers to tokens that are good, but whose claims aren't, by the reasons that Envoy's check knows."""
    return {
        "no_name": _invalid(
            f"The token's claim '{jwt.client_claim}' is no client's name: it has to be text, and not too long "
            f"({LONGEST_NAME} characters; others than letters, digits, '_', '.', '@' and '-' count for three or more)."
        ),
        "no_team": _invalid(
            f"The token has no claim '{jwt.team_claim}', which says whose team the client is of. Without a team nobody "
            "comes in here."
        ),
        "wrong_team": _invalid(
            f"The token's claim '{jwt.team_claim}' is no team's name: it has to be one text, of at most 64 letters, "
            "digits, '_', '.', '@' and '-'."
        ),
    }


def key_set_complaints(content: bytes) -> Iterator[str]:
    """What is wrong with the text of a JSON Web Key Set, as far as it can be told without using its keys."""
    try:
        keys = orjson.loads(content)["keys"]
        kinds = [key["kty"] for key in keys]
    except (ValueError, LookupError, TypeError):
        yield "is no JSON Web Key Set, which is an object with a list `keys`, so no client could get in"
        return
    if not kinds:
        yield "holds no keys, so no client could get in"
    if "oct" in kinds:
        yield "holds a shared secret (`oct`): whoever knows it can make tokens. Leave it out"


def _invalid(message: str) -> ApiError:
    return ApiError(401, message, code="invalid_token")
