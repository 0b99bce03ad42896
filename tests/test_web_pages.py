"""Envoy with our bootstrap: which web pages may use the gateway, and what browsers are told of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from extproc.config import ConfigError, parse
from extproc.exchange.admission import KEY_HEADERS
from extproc.names import COUNT_TOKENS_PATH, MESSAGES_PATH
from tests.scripted_processor import CHAT, Envoy, error, running_backend, running_envoy, running_processor

ALLOWED = "https://chat.example.org"
OTHERS = [
    "http://page.example",
    "null",
    "http://chat.example.org",
    "https://chat.example.org:8443",
    "https://chat.example.org.evil.example",
    "https://evil.example, https://chat.example.org",
    "chrome-extension://abc",
]
PATHS = [
    CHAT,
    f"{CHAT}/",
    "/chat/completions",
    "/v1/completions",
    "/embeddings",
    "/v1/embeddings",
    "/tokenize",
    "/nowhere",
]
MESSAGES_PATHS = [MESSAGES_PATH, "/messages", COUNT_TOKENS_PATH]

NAMES = [
    *(*KEY_HEADERS, "content-type", "x-stainless-os"),
    *("anthropic-version", "anthropic-beta", "anthropic-dangerous-direct-browser-access"),
]
"""Headers that pages send with a request, of which browsers ask whether they may."""


def with_settings(folder: Path, settings: str) -> Iterator[Envoy]:
    with (
        running_backend() as backend,
        running_processor(folder),
        running_envoy(folder, backend, settings=settings) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def envoy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Envoy]:
    """One page is allowed, and no key asked for."""
    yield from with_settings(tmp_path_factory.mktemp("one"), f"allowed_origins: [{ALLOWED}]")


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Envoy]:
    """As the gateway is by itself."""
    yield from with_settings(tmp_path_factory.mktemp("closed"), "")


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Envoy]:
    """Keys are asked for, and nothing said of pages."""
    folder = tmp_path_factory.mktemp("keyed")
    (folder / "keys").write_text("")
    yield from with_settings(folder, f"api_keys: {folder / 'keys'}")


def asks(envoy: Envoy, path: str, **headers: str) -> httpx.Response:
    """As a page does that need not ask before: a form, or a text."""
    sent = {"content-type": "text/plain", "x-processor": "backend fine", **headers}
    return envoy.post(path, content=b'{"model": "m"}', headers=sent)


def question(envoy: Envoy, path: str, origin: str) -> httpx.Response:
    """A browser's, before a request that no form could make."""
    asked = {"access-control-request-method": "POST", "access-control-request-headers": ",".join(NAMES)}
    return envoy.request("OPTIONS", path, headers={"origin": origin, **asked})


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", OTHERS)
def test_a_page_that_is_not_allowed_reaches_nothing(envoy: Envoy, closed: Envoy, path: str, origin: str) -> None:
    for running in (envoy, closed):
        for answer in (asks(running, path, origin=origin), question(running, path, origin)):
            said = error(answer, 403, "invalid_request_error")
            assert said["code"] == "origin_not_allowed"
            assert origin in said["message"]
            assert "allowed_origins" in said["message"]
            assert not any(name.startswith("access-control-") for name in answer.headers)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_nor_does_one_whose_origin_was_taken_away(envoy: Envoy, site: str) -> None:
    assert asks(envoy, CHAT, **{"sec-fetch-site": site}).status_code == 403
    assert envoy.get("/v1/score", headers={"sec-fetch-site": site}).status_code == 200, "a link on a page"


def test_by_itself_the_gateway_allows_no_page(closed: Envoy) -> None:
    assert asks(closed, CHAT, origin=ALLOWED).status_code == 403
    assert question(closed, CHAT, ALLOWED).status_code == 403


@pytest.mark.parametrize("path", MESSAGES_PATHS)
def test_what_is_refused_of_messages_is_told_as_anthropic_would(envoy: Envoy, path: str) -> None:
    for answer in (asks(envoy, path, origin=OTHERS[0]), question(envoy, path, OTHERS[0])):
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")
        assert OTHERS[0] in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", [*PATHS[:-1], *MESSAGES_PATHS])
def test_an_allowed_page_may_ask_and_read(envoy: Envoy, path: str) -> None:
    before = question(envoy, path, ALLOWED)
    assert (before.status_code, before.headers["access-control-allow-origin"]) == (200, ALLOWED)
    assert "POST" in before.headers["access-control-allow-methods"]
    assert (
        before.headers["access-control-allow-headers"] == "authorization, *"
    )  # but for the first, all are in the second
    assert "access-control-allow-credentials" not in before.headers
    answer = asks(envoy, path, origin=ALLOWED)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, ALLOWED)
    assert answer.headers["access-control-expose-headers"] == "*"


def test_what_is_no_page_has_no_origin_and_is_served(envoy: Envoy, closed: Envoy) -> None:
    for running in (envoy, closed):
        for path in PATHS[:-1]:
            answer = asks(running, path)
            assert answer.status_code == 200
            assert not any(name.startswith("access-control-") for name in answer.headers), "not the backend's either"


def test_where_a_key_is_asked_for_any_page_may_come_with_one(keyed: Envoy) -> None:
    before = question(keyed, CHAT, "http://page.example")
    assert (before.status_code, before.headers["access-control-allow-origin"]) == (200, "http://page.example")
    for script in ("backend fine", "refuse request_headers", "backend refusing"):
        answer = asks(keyed, CHAT, origin="http://page.example", **{"x-processor": script})
        assert answer.headers["access-control-allow-origin"] == "http://page.example", "errors can be read too"


@pytest.mark.parametrize("origin", ["https://a.example/", "a.example", "HTTPS://a.example", "https://a.example/x", ""])
def test_an_origin_that_no_browser_sends_is_a_mistake(origin: str) -> None:
    with pytest.raises(ConfigError, match="allowed_origins"):
        parse(
            f"allowed_origins: ['{origin}']\nmodels: [{{name: m, backend: b, tools: prompt}}]\n"
            "backends: [{name: b, address: 'b:80'}]"
        )
