"""Clients that come with tokens of an identity provider: who comes in, under which name, and what the others read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from extproc.cli import main
from extproc.config import ConfigError, parse
from extproc.control.reloading import changes_for_envoy
from extproc.envoy.dynamic import ENVOY_ARGUMENTS
from extproc.exchange.context import ExchangeContext
from extproc.exchange.host import Host
from extproc.exchange.machine import Exchange
from extproc.exchange.tokens import key_set_complaints
from extproc.observability.telemetry import Telemetry
from scripted_vllm import Reply
from scripted_vllm.checks import ChatRequest
from tests.gateway import MODEL, AskedVLLM, Gateway, configured_gateway, put, wait_until
from tests.test_api_keys import error_of
from tests.test_exchange import CHAT, metadata, only, request_headers
from tests.tokens import AUDIENCE, ISSUER, Signer, claims, key_set, part, published

BASE = "models: [{name: m, backend: b, tools: prompt}]\nbackends: [{name: b, address: '127.0.0.1:1'}]\n"
JWT = f"jwt: {{issuer: '{ISSUER}', audiences: [{AUDIENCE}], team_claim: team, jwks: {{file: /jwks.json}}}}\n"
RSA, EC, STRANGER = Signer("rsa"), Signer("ec", "ES256"), Signer("rsa")


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "told"),
        [
            (JWT + "api_keys: /keys\n", "jwt: clients come with keys or with tokens, not with both"),
            (JWT.replace("team_claim: team, ", "") + "teams: [{name: a}]\n", "without `jwt.team_claim` nobody is of"),
            (JWT.replace("[extproc]", "[]"), "jwt.audiences"),
            (JWT.replace("{file: /jwks.json}", "{}"), "expected either `file` or `url`"),
            (JWT.replace("/jwks.json", "/jwks.json, url: https://a/b"), "expected either `file` or `url`"),
            (JWT.replace("/jwks.json", "/jwks.json, ca: /ca.pem"), "a `file` needs none"),
            (JWT.replace("file: /jwks.json", "url: http://login.example.org/keys"), "by https"),
            (JWT.replace("file: /jwks.json", "url: https://login.example.org:70000/keys"), "by https"),
            (JWT.replace("team_claim: team", "team_claim: 'te\"am'"), "jwt.team_claim"),
        ],
    )
    def test_what_can_not_be_is_refused(self, settings: str, told: str) -> None:
        with pytest.raises(ConfigError) as error:
            parse(BASE + settings)
        assert told in str(error.value)

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            (key_set(RSA, EC), []),
            ("{}", ["is no JSON Web Key Set, which is an object with a list `keys`, so no client could get in"]),
            ("[]", ["is no JSON Web Key Set, which is an object with a list `keys`, so no client could get in"]),
            ("secret", ["is no JSON Web Key Set, which is an object with a list `keys`, so no client could get in"]),
            (key_set(), ["holds no keys, so no client could get in"]),
            (
                '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
                ["holds a shared secret (`oct`): whoever knows it can make tokens. Leave it out"],
            ),
        ],
    )
    def test_what_a_file_of_keys_holds(self, content: str, told: list[str]) -> None:
        assert [*key_set_complaints(content.encode())] == told

    def test_check_looks_into_the_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "jwks.json").write_text(key_set())
        config = tmp_path / "extproc.yaml"
        config.write_text(BASE + JWT.replace("/jwks.json", f"{tmp_path}/jwks.json"))
        main(["check", str(config)])
        assert "jwks.json: holds no keys, so no client could get in" in "".join(capsys.readouterr())

    def test_envoy_has_to_know(self) -> None:
        assert changes_for_envoy(parse(BASE), parse(BASE + JWT)) == ["jwt"]
        assert parse(BASE + JWT).origins == ("*",)


class TestProcessor:
    """Which believes what Envoy says of a client, and nobody else."""

    def begins(self, more: str = "", host: Host | None = None, **fields: str) -> Any:
        config = parse(BASE + JWT + more)
        exchange = Exchange(ExchangeContext(config), Telemetry(config), host=host)
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        return only(exchange.receive(request_headers({**CHAT, **named})))

    def test_a_name_by_envoy_is_the_clients(self) -> None:
        assert metadata(self.begins(x_extproc_client="search/alice")) == {"client": "search/alice", "team": "search"}

    def test_a_team_has_to_be_known_where_some_are(self) -> None:
        reply = self.begins("teams: [{name: shop}]\n", x_extproc_client="search/alice")
        assert (reply.immediate_response.status.code, error_of(reply)["code"]) == (403, "unknown_team")

    def test_without_one_nobody_comes_in(self) -> None:
        reply = self.begins(authorization=f"Bearer {RSA.token()}")
        assert (reply.immediate_response.status.code, error_of(reply)["code"]) == (401, "missing_token")

    def test_another_envoy_may_name_nobody(self) -> None:
        """Its clients may send the header themselves."""
        reply = self.begins(host=Host(time.monotonic), x_extproc_client="search/alice")
        assert (reply.immediate_response.status.code, error_of(reply)["code"]) == (401, "missing_token")
        assert "by this one nobody comes in" in error_of(reply)["message"]


def settings(jwks: str, port: int, more: str = "", without_team: str = "allow") -> str:
    """Of a gateway with teams."""
    claims = f"team_claim: team, without_team: {without_team}"
    return f"""
models: [{{name: {MODEL}, backend: qwen, tools: native}}]
backends: [{{name: qwen, address: "127.0.0.1:{port}", health_check: false}}]
jwt: {{issuer: '{ISSUER}', audiences: ['other%20one', {AUDIENCE}], {claims}, jwks: {jwks}}}
{more}"""


TEAMS = """
teams: [{name: search, models: [MODEL]}, {name: few, requests_per_minute: 3}, {name: one, concurrent_requests: 1}]
""".replace("MODEL", MODEL)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """With the keys in a file, and a bootstrap that never changes."""
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "jwks.json").write_text(key_set(RSA, EC))
    with AskedVLLM(model=MODEL, speak=speak).running() as backend:
        told = settings(f"{{file: {folder}/jwks.json}}", backend.port, TEAMS)
        with configured_gateway(folder, told, backend) as running:
            yield running


def speak(asked: ChatRequest) -> Reply:
    return Reply("It is fine.", pace=2 if "slowly" in str(asked.messages) else 0)


def ask(gateway: Gateway, token: str | None, **fields: str) -> httpx.Response:
    authorization = {"authorization": f"Bearer {token}"} if token is not None else {}
    return gateway.chat(MODEL, **authorization, **{name.replace("_", "-"): it for name, it in fields.items()})


def test_a_token_lets_in_and_its_claims_are_the_clients_name(gateway: Gateway) -> None:
    for token, told in (
        (RSA.token(team="search"), {"client": "search/alice", "team": "search"}),
        (EC.token(sub="bob"), {"client": "bob"}),
        (RSA.token(aud=f"https://{AUDIENCE}/"), {"client": "alice"}),
        (RSA.token(aud=["somebody", AUDIENCE], team=["search"]), {"client": "search/alice", "team": "search"}),
    ):
        answer = ask(gateway, token, x_extproc_client="root", x_extproc_team="shop")
        assert answer.status_code == 200, answer.text
        line = gateway.access_log(answer.headers["x-request-id"])["extproc"]
        assert {name: line[name] for name in ("client", "team") if name in line} == told
        assert token not in str(gateway.backend.requests[-1].headers)


def test_without_a_team_nobody_comes_in_unless_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_text(key_set(RSA))
    with AskedVLLM(model=MODEL, speak=speak).running() as backend:
        told = settings(f"{{file: {tmp_path}/jwks.json}}", backend.port, TEAMS, without_team="refuse")
        with configured_gateway(tmp_path, told, backend) as running:
            assert ask(running, RSA.token(team="search")).status_code == 200
            refused = ask(running, RSA.token())
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_token")
    assert "has no claim 'team'" in refused.json()["error"]["message"]
    assert len(backend.requests) == 1


def test_anthropics_and_azures_clients_send_it_as_they_send_keys(gateway: Gateway) -> None:
    body = {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": "Hello!"}]}
    for name, value in (
        ("x-api-key", RSA.token()),
        ("api-key", RSA.token()),
        ("authorization", f"bearer {RSA.token()}"),
    ):
        answer = gateway.http.post("/v1/messages", json=body, headers={name: value})
        assert answer.status_code == 200, answer.text
        assert name not in dict(gateway.backend.requests[-1].headers)
    # One that isn't good spoils the other: nothing of it may be taken for the good one's.
    assert ask(gateway, RSA.token(), x_api_key=RSA.token(exp=1)).status_code == 401


GOOD = RSA.token().split(".")
BAD = {
    "missing": (None, "missing_token", "You didn't provide a token."),
    "a key": ("sk-1234567890123456", "invalid_token", "What came as a token is none"),
    "expired": (RSA.token(exp=int(time.time()) - 120), "invalid_token", "has expired"),
    "endless": (RSA.token(exp=None), "invalid_token", "has no end"),
    "not yet": (RSA.token(nbf=int(time.time()) + 600), "invalid_token", "isn't valid yet"),
    "for others": (RSA.token(aud="other-service"), "invalid_token", f"has to be 'other%20one' or '{AUDIENCE}'"),
    "for nobody": (RSA.token(aud=None), "invalid_token", "meant for somebody else"),
    "another issuer": (RSA.token(iss="https://evil.example/"), "invalid_token", f"has to be '{ISSUER}'"),
    "no issuer": (RSA.token(iss=None), "invalid_token", "another issuer"),
    "unknown key": (Signer("new").token(), "invalid_token", "signed by an unknown key"),
    "stranger's key": (STRANGER.token(), "invalid_token", "signature isn't the issuer's"),
    "tampered": (
        ".".join((GOOD[0], part(claims(sub="root")), GOOD[2])),
        "invalid_token",
        "signature isn't the issuer's",
    ),
    "alg none": (f"{part({'alg': 'none'})}.{GOOD[1]}.", "invalid_token", "What came as a token is none"),
    "alg none, signed": (f"{part({'alg': 'none'})}.{GOOD[1]}.{GOOD[2]}", "invalid_token", "[alg]_is_not_supported"),
    "by a shared secret": (RSA.token(head={"alg": "HS256"}), "invalid_token", "signed by an unknown key"),
    "no name": (RSA.token(sub=None), "invalid_token", "claim 'sub' is no client's name"),
    "a long name": (RSA.token(sub="x" * 256), "invalid_token", "claim 'sub' is no client's name"),
    "a long odd name": (RSA.token(sub="|" * 86), "invalid_token", "claim 'sub' is no client's name"),
    "a slash in its team": (RSA.token(team="search/x"), "invalid_token", "claim 'team' is no team's name"),
    "two teams": (RSA.token(team=["search", "few"]), "invalid_token", "claim 'team' is no team's name"),
    "a number as its team": (RSA.token(team=5), "invalid_token", "claim 'team' is no team's name"),
    "a header in its team": (RSA.token(team="a\r\nx-extproc-client: root"), "invalid_token", "is no team's name"),
}


@pytest.mark.parametrize("case", BAD)
def test_nobody_else_comes_in(gateway: Gateway, case: str) -> None:
    token, code, words = BAD[case]
    before = len(gateway.backend.requests)
    answer = ask(gateway, token)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["type"]) == (401, code, "invalid_request_error")
    assert words in error["message"]
    assert answer.headers.get_list("www-authenticate") == ['Bearer realm="extproc"']
    body = {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": "Hello!"}]}
    fields = {"x-api-key": token} if token is not None else {}
    of_anthropic = gateway.http.post("/v1/messages", json=body, headers=fields)
    assert (of_anthropic.status_code, of_anthropic.json()["error"]["type"]) == (401, "authentication_error")
    assert of_anthropic.json()["error"]["message"] == error["message"]
    assert len(gateway.backend.requests) == before
    assert token is None or token not in str(gateway.whole_access_log())


@pytest.mark.parametrize(
    ("sub", "name"),
    [
        ("auth0|5f7c", "auth0%7C5f7c"),
        ("search/alice", "search%2Falice"),
        ("a%2Fb", "a%252Fb"),
        ("zoë", "zo%C3%AB"),
        ("a\r\nx-extproc-team: search", "a%0D%0Ax-extproc-team%3A%20search"),
        ("a\x00b", "a%00b"),
        ("x" * 255, "x" * 255),
    ],
)
def test_a_name_of_odd_characters_is_one_name_and_nothing_else(gateway: Gateway, sub: str, name: str) -> None:
    answer = ask(gateway, RSA.token(sub=sub))
    assert answer.status_code == 200, answer.text
    line = gateway.access_log(answer.headers["x-request-id"])["extproc"]
    assert line["client"] == name
    assert "team" not in line


def test_teams_limits_hold(gateway: Gateway) -> None:
    answers = [ask(gateway, RSA.token(sub=f"client-{number}", team="few")) for number in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert 2 <= int(answers[-1].headers["retry-after"]) <= 20  # three a minute: one in 20 seconds
    assert answers[-1].headers["x-ratelimit-limit-requests"] == "3"
    assert ask(gateway, RSA.token(team="search")).status_code == 200
    unknown = ask(gateway, RSA.token(team="nowhere"))
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (403, "unknown_team")

    def second() -> httpx.Response | None:
        """Of a team that may send one at once, while there is one; None while there is one that has ended."""
        slowly = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "slowly"}]}
        token = {"authorization": f"Bearer {RSA.token(team='one')}"}
        with gateway.http.stream("POST", "/v1/chat/completions", json=slowly, headers=token) as first:
            assert first.status_code in (200, 429)
            return ask(gateway, RSA.token(sub="bob", team="one")) if first.status_code == 200 else None

    # Such requests go past the processor, which hears from Envoy that they have ended: a second later or so, and not
    # at all before Envoy's first has ended. Until then it counts none.
    came: list[httpx.Response] = []

    def is_refused() -> bool:
        if (answer := second()) is not None and (came or answer.status_code != 200):
            came.append(answer)
        return len(came) == 3

    wait_until(is_refused)
    for refused in came:  # from the first that is refused on, all are
        assert (refused.status_code, "of the team 'one'" in refused.json()["error"]["message"]) == (429, True)


def test_every_path_asks_for_one_but_health(gateway: Gateway) -> None:
    assert gateway.http.get("/health").status_code == 200
    good = {"authorization": f"Bearer {RSA.token()}"}
    for method, path in (
        ("GET", "/v1/models"),
        ("GET", "/models"),
        ("POST", "/v1/embeddings"),
        ("POST", "/tokenize"),
        ("POST", "/v1/responses"),
    ):
        assert gateway.http.request(method, path, json={}).status_code == 401, path
        assert gateway.http.request(method, path, json={}, headers=good).status_code != 401, path
    assert gateway.http.get("/no-such-path").status_code == 404
    # Pages may ask, as where there are keys, and read why they are refused.
    refused = gateway.http.get("/v1/models", headers={"origin": "https://chat.example.org"})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "https://chat.example.org")
    question = {"origin": "https://chat.example.org", "access-control-request-method": "POST"}
    assert gateway.http.options("/v1/chat/completions", headers=question).status_code == 200


@pytest.mark.long
def test_keys_from_a_url_and_an_envoy_that_follows_changes(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with (
        published(key_set(RSA), authority.issue_cert("localhost")) as port,
        AskedVLLM(model=MODEL, speak=lambda _: Reply("It is fine.")).running() as backend,
    ):
        jwks = f"{{url: 'https://localhost:{port}/keys', ca: {tmp_path}/ca.pem}}"
        with configured_gateway(
            tmp_path, settings(jwks, backend.port), backend, live=True, arguments=ENVOY_ARGUMENTS
        ) as gateway:
            assert ask(gateway, RSA.token()).status_code == 200
            assert ask(gateway, EC.token()).status_code == 401
            config = tmp_path / "extproc.yaml"
            put(config, config.read_text().replace("localhost", "127.0.0.1"))  # whose certificate is another's
            wait_until(lambda: ask(gateway, RSA.token()).status_code != 200)
            unfetched = ask(gateway, RSA.token())
            assert (unfetched.status_code, unfetched.headers["retry-after"]) == (503, "1")
            assert unfetched.json()["error"]["code"] == "signing_keys_unavailable"
            without, (told,) = _apart(config.read_text())
            put(config, without)
            wait_until(lambda: ask(gateway, None).status_code == 200)
            (tmp_path / "jwks.json").write_text(key_set(EC))
            from_a_file = told.partition("jwks:")[0] + f"jwks: {{file: {tmp_path}/jwks.json}}}}\n"
            put(config, without + from_a_file)
            asked = (None, EC.token(), RSA.token())
            wait_until(lambda: [ask(gateway, token).status_code for token in asked] == [401, 200, 401])


def _apart(text: str) -> tuple[str, list[str]]:
    """A configuration without its `jwt`, and that."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("jwt:")), [x for x in lines if x.startswith("jwt:")]
