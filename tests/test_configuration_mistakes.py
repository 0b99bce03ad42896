"""What is told of a configuration's mistakes: all of them at once, each in words of its own and with what was meant."""

from __future__ import annotations

import pytest

from extproc.config import ConfigError, parse
from tests.test_cli import GOOD


def complaints(text: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        parse(text, source="f")
    return str(error.value).splitlines()


def test_names_that_nothing_has_are_told_with_the_other_mistakes() -> None:
    text = """\
models:
  - {name: a, backend: qwen, tool: prompt}
  - {name: a, backend: other, tools: prompt}
backends: [{name: qwn}]
recording: {directory: /tmp, model: b}
"""
    assert complaints(text) == [
        "f:2: models[0].tools: is missing",
        "f:2: models[0].tool: no such setting; did you mean 'tools'?",
        "f:4: backends[0].address: is missing",
        "f:3: models[1].name: 'a' is used twice",
        "f:2: models[0].backend: no backend is named 'qwen'; there are: qwn",
        "f:3: models[1].backend: no backend is named 'other'; there are: qwn",
        "f:5: recording.model: no model is named 'b'",
    ]


def test_so_they_are_when_there_is_no_other_and_each_once() -> None:
    text = GOOD.replace("backend: qwen", "backend: quen") + "recording: {directory: /tmp, model: b}\n"
    assert complaints(text) == [
        "f:3: models[0].backend: no backend is named 'quen'; there are: qwen",
        "f:9: recording.model: no model is named 'b'",
    ]


@pytest.mark.parametrize(
    "backends", ["", "backends: 7", "backends: [7]", "backends: [{address: 'a:1'}]", "backends: []"]
)
def test_where_the_backends_names_are_not_known_no_model_is_blamed(backends: str) -> None:
    told = complaints(f"models: [{{name: a, backend: b, tools: prompt}}]\n{backends}\n")
    assert [line for line in told if "models" in line] == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("limits: {max_body_bytes: x}", "limits.max_body_bytes: expected an integer"),
        ("limits: {max_body_bytes: 1.5}", "limits.max_body_bytes: expected an integer"),
        ("limits: {max_body_bytes: 7}", "limits.max_body_bytes: expected at least 1024"),
        ("limits: {silence_seconds: x}", "limits.silence_seconds: expected a number"),
        ("limits: {silence_seconds: 0}", "limits.silence_seconds: expected more than 0"),
        ("limits: {silence_seconds: 9999}", "limits.silence_seconds: expected at most 1800"),
        ("limits: 7", "limits: expected a mapping"),
        ("limit: {}", "limit: no such setting; did you mean 'limits'?"),
        ("limits: {silence: 1}", "limits.silence: no such setting"),
        ("tls: {certificate: 7, key: /k}", "tls.certificate: expected a path"),
        ("tls: {keys: /k, certificate: /c, key: /k}", "tls.keys: no such setting; did you mean 'key'?"),
        ("other_paths: 7", "other_paths: expected a list"),
        ("other_paths: [7]", "other_paths[0]: expected a string"),
        ("withheld: [a b]", "withheld[0]: expected a name of 1 to 64 letters, digits, '_', '.' and '-'"),
        ("recording: {directory: /tmp, model: ''}", "recording.model: expected at least one character"),
        ("listen: 127.0.0.1", "listen: expected host:port such as 127.0.0.1:10000"),
        ("listen: a.b:1", "listen: expected an IP address to listen on, such as 127.0.0.1 or 0.0.0.0"),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_kind_is_told_in_the_words_that_all_messages_have(wrong: str, message: str) -> None:
    assert complaints(f"{wrong}\n{GOOD}") == [f"f:1: {message}"]


def test_the_name_and_the_url_of_a_tool_server_are_told_in_words() -> None:
    """Every pattern has some: the reference (tests/test_configuration_docs.py) is made of them."""
    assert complaints(f"tool_servers: [{{name: A b, url: ftp}}]\n{GOOD}") == [
        "f:1: tool_servers[0].name: expected lower-case letters and digits, with single '-' and '_' between them",
        "f:1: tool_servers[0].url: expected a URL such as https://tools.example.org/mcp, without spaces and '#'",
    ]


def test_a_format_with_digits_is_hidden_and_what_may_be_meant_is_not() -> None:
    assert complaints(GOOD.replace("hermes", "qwen3_cod")) == [
        "f:5: models[0].format: no tool-call format is named '...'; did you mean 'qwen3_coder'?"
    ]
