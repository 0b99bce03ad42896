"""What a client isn't trusted with never reaches a backend: dropped and named, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extproc.config import Config, ConfigError, parse
from extproc.contract.errors import ApiError
from extproc.contract.media_urls import url_fault
from extproc.contract.parameters import PARAMETERS
from extproc.contract.withheld import WITHHELD, without
from extproc.surfaces import find_problems, prepare
from extproc.turn.upstream import UpstreamRequest
from scripted_vllm import Reply
from tests.gateway import Gateway

SETTINGS = """
models:
  - {{name: m, backend: b, tools: native, defaults: {{priority: 5}}}}
backends:
  - {{name: b, address: "127.0.0.1:8000"{backend}}}
{more}
"""
VALUES: dict[str, Any] = {
    "priority": -1,
    "request_id": "x",
    "session_id": "x",
    "chat_template": "{{ 1 }}",
    "cache_salt": "x",
    "kv_transfer_params": {"remote_host": "10.0.0.7"},
    "ec_transfer_params": {"remote_host": "10.0.0.7"},
    "vllm_xargs": {"a": 1},
    "mm_processor_kwargs": {"max_pixels": 10**9},
    "media_io_kwargs": {"video": {"num_frames": 9}},
}
DROPPED = [name for name, (fate, _) in WITHHELD.items() if fate == "dropped"]
REFUSED = [name for name, (fate, _) in WITHHELD.items() if fate == "refused" and not name.startswith("content.")]
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}}
TEMPLATE_ARGUMENTS = [name.partition(".")[2] for name in DROPPED if "." in name]


def config(more: str = "", backend: str = "") -> Config:
    return parse(SETTINGS.format(more=more, backend=backend))


def body(*parts: Any, **fields: Any) -> bytes:
    content = list(parts) or "Hello!"
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": content}], **fields}).encode()


def having(name: str) -> dict[str, Any]:
    """The fields of a request with this one."""
    outer, _, inner = name.partition(".")
    return {outer: {inner: 1, "enable_thinking": False}} if inner else {outer: VALUES[outer]}


def prepared(fields: dict[str, Any], settings: Config) -> tuple[UpstreamRequest, dict[str, Any]]:
    it = prepare(body(**fields), settings)
    return it, json.loads(it.body or body(**fields))


def refused(data: bytes, settings: Config) -> ApiError:
    with pytest.raises(ApiError) as caught:
        prepare(data, settings)
    assert str(find_problems(data, settings)[0]) == str(caught.value)
    return caught.value


def test_all_that_is_withheld_is_something_that_could_be_sent() -> None:
    known = {row.name for row in PARAMETERS}
    assert {name.partition(".")[0] for name in WITHHELD} <= known | {"content"}
    assert {name for name in WITHHELD if "." not in name} == VALUES.keys()


@pytest.mark.parametrize("name", DROPPED)
def test_by_itself_it_is_dropped_and_named(name: str) -> None:
    it, sent = prepared(having(name), config())
    assert it.dropped == (name,)
    if "." in name:
        assert sent["chat_template_kwargs"] == {"enable_thinking": False}, "what templates are made for passes"
    elif name == "priority":
        assert sent["priority"] == 5, "what the settings say is no client's"
    else:
        assert name not in sent


@pytest.mark.parametrize("name", REFUSED)
def test_or_refused_where_the_answer_would_be_another(name: str) -> None:
    error = refused(body(**having(name)), config())
    assert (error.status, error.param, error.code) == (400, name, "parameter_withheld")
    assert "withheld" in error.message


@pytest.mark.parametrize("name", DROPPED + REFUSED)
def test_settings_can_let_it_through_to_all_or_to_one_backend(name: str) -> None:
    for settings in (config("withheld: []"), config(backend=f", parameters: [{name}]")):
        it, sent = prepared(having(name), settings)
        assert it.dropped == ()
        assert sent == {**json.loads(body(**having(name))), "priority": sent["priority"]}


def test_settings_can_withhold_more() -> None:
    settings = config("withheld: [n, best_of, logit_bias, priority]")
    it, sent = prepared({"n": 3, "best_of": 3, "logit_bias": {"1": 1}, "chat_template": "x", "top_k": 1}, settings)
    assert it.dropped == ("best_of", "logit_bias", "n")
    assert sent.keys() == {"model", "messages", "chat_template", "top_k", "priority"}


@pytest.mark.parametrize("name", DROPPED)
def test_what_is_not_given_is_not_named(name: str) -> None:
    outer, _, inner = name.partition(".")
    for fields in ({}, {outer: None}, {outer: {"other": 1}} if inner else {}):
        assert prepared(fields, config())[0].dropped == ()


def test_a_wrong_value_is_a_mistake_all_the_same() -> None:
    assert refused(body(priority="first"), config()).param == "priority"
    assert refused(body(chat_template_kwargs=["tokenize"]), config()).param == "chat_template_kwargs"


def test_the_request_itself_stays_as_it_is() -> None:
    fields = {"chat_template_kwargs": {"tokenize": False}, "priority": 1}
    assert without(fields, ["priority", "chat_template_kwargs.tokenize"])[0] == {"chat_template_kwargs": {}}
    assert fields == {"chat_template_kwargs": {"tokenize": False}, "priority": 1}


@pytest.mark.parametrize(
    ("more", "backend", "place"),
    [
        ("withheld: [tools]", "", r"withheld\[0\]"),
        ("withheld: [priority, messages]", "", r"withheld\[1\]"),
        ("withheld: [content.audio]", "", r"withheld\[0\]"),
        ("withheld: ['a b']", "", r"withheld\[0\]"),
        ("withheld: [priority]", ", parameters: [priority]", r"backends\[0\].parameters"),
        ("media_urls: all", "", "media_urls"),
        ("", ", headers: [Authorization]", r"backends\[0\].headers\[0\]"),
        ("", ", headers: [x-api-key]", r"backends\[0\].headers\[0\]"),
        ("", ", headers: [x-extproc-backend]", r"backends\[0\].headers\[0\]"),
    ],
)
def test_what_cant_be_meant_is_a_mistake(more: str, backend: str, place: str) -> None:
    with pytest.raises(ConfigError, match=place):
        config(more, backend)


# ---- content parts


@pytest.mark.parametrize("kind", ["image_embeds", "audio_embeds"])
def test_tensors_are_refused_unless_allowed(kind: str) -> None:
    part = {"type": kind, kind: "AAAA"}
    error = refused(body(part), config())
    assert (error.param, error.code) == ("messages[0].content[0].type", "parameter_withheld")
    for settings in (config("withheld: []"), config(backend=f", parameters: [content.{kind}]")):
        assert prepare(body(part), settings).dropped == ()


def test_so_is_what_is_cached_under_a_name_of_the_clients() -> None:
    error = refused(body({"type": "text", "text": "?"}, {**IMAGE, "uuid": "1"}), config())
    assert (error.param, error.code) == ("messages[0].content[1].uuid", "parameter_withheld")
    assert prepare(body({**IMAGE, "uuid": None}), config()).dropped == ()
    assert prepare(body({**IMAGE, "uuid": "1"}), config(backend=", parameters: [content.uuid]")).dropped == ()


PUBLIC = """
https://example.org/a.png http://8.8.8.8:80/x?y=1#z https://[2606:4700:4700::1111]/a https://EXAMPLE.org
https://a-b.example.co.uk/%C3%A4?u=http://127.0.0.1/ https://example.org./x data:image/png;base64,AA DATA:,x
""".split()
PRIVATE = [
    *"""
    file:///etc/passwd FILE:///etc/passwd ftp://example.org/x gopher://example.org/ s3://bucket/x javascript:alert(1)
    unix:///x //example.org/x /etc/passwd example.org http:example.org http:///etc http://
    http://127.0.0.1:8000/ HTTP://127.0.0.1 http://2130706433/ http://0x7f.1/ http://0177.0.0.1/ http://127.1/
    http://1.1.1/ http://0.0.0.0/ http://10.1.2.3/ http://192.168.1.1 http://172.16.0.1?x http://100.64.0.1/
    http://169.254.169.254/latest/meta-data http://224.0.0.1/ http://255.255.255.255/ http://240.0.0.1/
    http://[::1]/ http://[::]/ http://[::ffff:127.0.0.1]/ http://[::ffff:8.8.8.8]/ http://[64:ff9b::7f00:1]/
    http://[2002:7f00:1::]/ http://[fe80::1]/ http://[fe80::1%25eth0]/ http://[fd00::1]/ http://[ff02::1]/ http://[x]/
    http://localhost/ http://LOCALHOST./ http://a.localhost/ http://redis/ http://metadata.google.internal/
    http://vllm.models.svc.cluster.local/ http://vllm.models.svc/ http://nas.lan/ http://x.home.arpa/
    http://user@example.org/ http://example.org@127.0.0.1/ http://a:b@example.org/ http://example.org:port/
    http://example.org\\@127.0.0.1/ http://example.org\\.127.0.0.1/ http://%31%32%37.0.0.1/ http://127.0.0.1%2f@a.org/
    http://１２７.0.0.1/ http://ⓛocalhost/ http://exämple.org/
    """.split(),
    *("", " http://example.org/", "http://exa mple.org/", "http://example.org/a b", "http://example.org/\n", "\0"),
]


@pytest.mark.parametrize("url", PUBLIC)
def test_what_is_public_or_in_the_request_passes(url: str) -> None:
    assert url_fault(url, "public") is None
    assert (url_fault(url, "none") is None) is url.lower().startswith("data:")


@pytest.mark.parametrize("url", PRIVATE)
@pytest.mark.parametrize("kind", ["image_url", "audio_url", "video_url"])
def test_a_backend_is_sent_nowhere_else(kind: str, url: str) -> None:
    for value, place in ((url, kind), ({"url": url}, f"{kind}.url")):
        part = {"type": kind, kind: value}
        error = refused(body({"type": "text", "text": "?"}, part), config())
        assert (error.status, error.param, error.code) == (400, f"messages[0].content[1].{place}", "invalid_value")
        assert prepare(body(part), config("media_urls: any")).dropped == ()


def test_settings_can_allow_no_url_at_all() -> None:
    error = refused(body(IMAGE), config("media_urls: none"))
    assert "data:" in error.message
    assert prepare(body({"type": "image_url", "image_url": "data:,x"}), config("media_urls: none")).body


# ---- at the front door


def test_what_is_withheld_does_not_come_through_the_gateway(gateway: Gateway) -> None:
    gateway.backend.play(Reply("Fine."))
    fields = {**VALUES, "chat_template_kwargs": {"tokenize": False, "enable_thinking": False}, "model": "coder"}
    del fields["chat_template"], fields["cache_salt"]
    answer = gateway.http.post("/v1/chat/completions", json=json.loads(body(**fields)))
    named = {*VALUES, "chat_template_kwargs.tokenize"} - {"chat_template", "cache_salt"}
    assert answer.headers["x-extproc-dropped"] == ", ".join(sorted(named))
    sent = json.loads(gateway.backend.requests[-1].body)
    assert sent.keys() == {"model", "messages", "chat_template_kwargs"}
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    for part in ({"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}, {"type": "image_embeds"}):
        refusal = gateway.http.post("/v1/chat/completions", json=json.loads(body(part, model="coder")))
        assert (refusal.status_code, len(gateway.backend.requests)) == (400, 1)
        assert refusal.json()["error"]["param"].startswith("messages[0].content[0].")


@pytest.mark.parametrize("name", sorted(WITHHELD))
def test_the_page_of_parameters_tells_why(name: str) -> None:
    page = (Path(__file__).parents[1] / "docs" / "parameters.md").read_text(encoding="utf-8")
    assert f"| `{name}` | {WITHHELD[name][0]} | {WITHHELD[name][1]} |" in page
