"""What Envoy's filter says of a token that it refuses, in words: as much as it tells.

The names are those of `response.code_details` in Envoy 1.40.
"""

from __future__ import annotations

from collections.abc import Iterator

from extproc.config import Jwt
from extproc.contract.errors import ApiError

_DENIED = "jwt_authn_access_denied{"


def refusals(jwt: Jwt) -> Iterator[tuple[str, ApiError]]:
    """How the details of such replies begin, each with its answer: of two that fit the first counts."""
    ask = "Sign in again, or ask for a new one."
    audiences, issuer = " or ".join(map(_literal, jwt.audiences)), _literal(jwt.issuer)
    yield (
        f"{_DENIED}Jwt_is_missing",
        ApiError(
            401,
            "You didn't provide a token. Send one as the header 'Authorization: Bearer YOUR_TOKEN'.",
            code="missing_token",
        ),
    )
    yield f"{_DENIED}Jwt_is_expired", _invalid(f"The token has expired. {ask}")
    yield f"{_DENIED}Jwt_not_yet_valid", _invalid("The token isn't valid yet ('nbf'): the clocks may differ.")
    yield (
        f"{_DENIED}Audiences_in_Jwt_are_not_allowed",
        _invalid(f"The token is meant for somebody else: its audience ('aud') has to be {audiences}."),
    )
    yield (
        f"{_DENIED}Jwt_issuer_is_not_configured",
        _invalid(f"The token is by another issuer: its 'iss' has to be {issuer}, letter by letter."),
    )
    yield (
        f"{_DENIED}Jwks_doesn",  # 't have key to match kid or alg
        _invalid(f"The token is signed by an unknown key, or in a way that no key of the issuer's is for. {ask}"),
    )
    yield (
        f"{_DENIED}Jwt_verification_fails",
        _invalid(f"The token's signature isn't the issuer's, or it has no end ('exp'). {ask}"),
    )
    yield (
        f"{_DENIED}Jwt_is_not_in_the_form",
        _invalid(
            "What came as a token is none: it has three parts, with dots between. Each that is sent has to be good."
        ),
    )
    yield (
        f"{_DENIED}Jwks_",  # can't be fetched, or can't be read
        ApiError(
            503,
            "The gateway has no keys to check tokens with. Try again in a moment.",
            "server_error",
            code="signing_keys_unavailable",
        ),
    )
    yield _DENIED, _invalid("The token isn't one that this gateway takes: %RESPONSE_CODE_DETAILS%.")


def _literal(text: str) -> str:
    """In quotes, and so that Envoy takes nothing of it for an %OPERATOR%."""
    return repr(text).replace("%", "%%")


def _invalid(message: str) -> ApiError:
    return ApiError(401, message, code="invalid_token")
