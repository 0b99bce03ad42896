"""Who gets to see the page: whoever knows the token, by a browser that was sent here and nowhere else.

Prompts and answers are on it, so four things are asked of every request, whatever it is for. It comes to a name of ours
(a page elsewhere that has had its own name point here, DNS rebinding, comes to its own); it isn't made by a page of
another site; it has the token, in the cookie or, the first time, in the URL; and it is a GET, for there is nothing here
to be changed. What goes out forbids the browser to load, send or show anything elsewhere.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """Stands in front of the application."""

    def __init__(self, application: ASGIApp, token: str, hosts: Iterable[str], cookie: str) -> None:
        """`hosts` are the names that it is asked by, with the port. `cookie` is the name of its own: browsers send a
        host's cookies to all of its ports."""
        self._application = application
        self._token = token.encode()
        self._hosts = frozenset(hosts)
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refused = self._refused(scope)
        if refused is not None:
            await refused(scope, receive, _with_headers(send))
            return
        await self._application(scope, receive, _with_headers(send))

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("This isn't a name of extproc watch.\n", 421)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return PlainTextResponse("Not for pages of other sites.\n", 403)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("GET only.\n", 405, {"allow": "GET, HEAD"})
        if self._is_token(cookie_parser(headers.get("cookie", "")).get(self._cookie)):
            return None
        if self._is_token(QueryParams(scope["query_string"]).get("token")):
            # From here on by the cookie, so that the token stands in no history and behind no link.
            entered = RedirectResponse(scope["path"], 303)
            entered.set_cookie(self._cookie, self._token.decode(), httponly=True, samesite="strict", path="/")
            return entered
        return PlainTextResponse(
            "The token is missing or wrong: open the address that `extproc watch` has printed.\n", 403
        )

    def _is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), self._token)


def _with_headers(send: Send) -> Any:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {name for name, _ in message["headers"]}
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in there]
            message = {**message, "headers": [*message["headers"], *own]}
        await send(message)

    return with_headers
