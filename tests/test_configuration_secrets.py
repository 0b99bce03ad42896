"""What is wrong with a configuration is told without what stands there: it may be a key."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.test_cli import GOOD, run

KEYS = ["sk-proj-Ab3dEf6hIj9kLm2nOp5q", "token-abc123", "/9j4AAQSkZJRgABAQ/Ks+w=="]
"""As OpenAI has them, as vLLM's documentation has one, and in base64."""

WRONG = [
    "api_keys: KEY",
    "api_keys: [KEY]",
    "api_keys: {alice: KEY}",
    "api_keys: 'alice: KEY'",
    "KEY: api_keys",
    "KEY: {KEY: KEY}",
    "tls: KEY",
    "tls: {certificate: KEY, key: KEY}",
    "tls: {certificate: /KEY, key: /a/KEY}",
    "tls: {KEY: x}",
    "listen: KEY",
    "listen: KEY:443",
    "listen: 'KEY@127.0.0.1:1'",
    "other_paths: [KEY]",
    "other_paths: KEY",
    "limits: {max_body_bytes: KEY}",
    "limits: {silence_seconds: KEY}",
    "limits: {KEY: 1}",
    "limits: KEY",
    "recording: {directory: KEY}",
    "recording: {directory: /tmp, model: KEY}",
    "limits: *KEY",
    "limits: &KEY *x",
    "limits: !KEY x",
    "limits: !!KEY x",
    "limits: !KEY!x y",
    "%KEY\n---\na: b",
    "limits: {a: 'KEY",
    'limits: "\\KEY"',
    "limits: [KEY",
    "limits: KEY: KEY",
    "limits: @KEY",
    "limits: `KEY",
    "limits:\n\tKEY: x",
    "? [KEY]\n: x",
    "KEY: 1\nKEY: 2",
    "limits: {KEY: 1, KEY: 2}",
    "limits: |KEY\n x",
    "limits: KEY\n x: KEY",
    "\x00KEY: 1",
]

OF_BACKENDS = ["api_key: KEY", "api_key: [KEY]", "api_key: {KEY: x}", "tls: {ca: KEY}", "tls: {sni: [KEY]}", "KEY: x"]
OF_BACKENDS += ["max_requests: KEY", "parameters: ['KEY+']", "parameters: KEY", "api_key: /KEY", "api_key: /run/KEY/x"]
OF_MODELS = ["defaults: {tools: KEY}", "defaults: {temperature: KEY}", "defaults: {KEY: x, 'a b': KEY}", "format: KEY"]
OF_MODELS += ["thinking: KEY", "max_tools: KEY", "allowed_tools: KEY", "KEY: x", "retry: KEY"]


REPLACED = [
    ("127.0.0.1:8000", "KEY"),
    ("127.0.0.1:8000", "'http://KEY@127.0.0.1:8000'"),
    ("backend: qwen", "backend: KEY"),
    ("tools: prompt", "tools: KEY"),
    ("models:", "KEY:"),
    ("models:", "models: KEY"),
]


def texts() -> list[str]:
    backend, model = "address: 127.0.0.1:8000", "tools: prompt"
    return [
        *(f"{wrong}\n{GOOD}" for wrong in WRONG),
        *(GOOD.replace(backend, f"{backend}\n    {wrong}") for wrong in OF_BACKENDS),
        *(GOOD.replace(model, f"{model}\n    {wrong}") for wrong in OF_MODELS),
        *(GOOD.replace(was, becomes, 1) for was, becomes in REPLACED),
        "KEY", "KEY: [", "[KEY]", "{KEY",
    ]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_no_mistake_shows_a_key(tmp_path: Path, key: str) -> None:
    file = tmp_path / "extproc.yaml"
    for text in texts():
        file.write_text(text.replace("KEY", key))
        done = run("check", file, "--envoy", "/bin/true")
        said = done.stdout + done.stderr
        assert key not in said, text
        assert key[4:] not in said, text
        assert str(file) in said, "it is told all the same"


def test_what_was_meant_as_the_name_of_something_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "extproc.yaml"
    file.write_text(GOOD.replace("hermes", "hermas"))
    assert "'hermas'; did you mean 'hermes'?" in run("check", file).stderr


@pytest.mark.parametrize("key", KEYS[:2])
def test_probe_does_not_show_a_key_that_was_given_for_its_file(key: str) -> None:
    done = run("probe", "http://127.0.0.1:1", "--api-key-file", key)
    assert key not in done.stderr
    assert "--api-key-file (its path isn't shown, because it may be a key): can't be read" in done.stderr


# Files that are no files


def fifo(path: Path) -> None:
    os.mkfifo(path)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


KINDS: list[tuple[Callable[[Path], None], str]] = [
    (fifo, "it is a FIFO, not a regular file"),
    (Path.mkdir, "it is a directory, not a regular file"),
    (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a regular file"),
    (huge, "it is larger than 4194304 bytes"),
]


@pytest.mark.parametrize(("make", "reason"), KINDS)
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None], reason: str) -> None:
    other, file = tmp_path / "other", tmp_path / "extproc.yaml"
    make(other)
    assert f"extproc: {other}: can't be read: {reason}\n" in run("check", other).stderr
    named = ["tls.certificate", "tls.key", "tls.client_ca", "api_keys", "backends[0].api_key", "backends[0].tls.ca"]
    tls = f"tls: {{certificate: {other}, key: {other}, client_ca: {other}}}\napi_keys: {other}\n"
    file.write_text(f"{tls}{GOOD}    api_key: {other}\n    tls: {{ca: {other}}}\n")
    for command in (("check", str(file)), ("up", "--config", str(file)), ("serve", "--config", str(file))):
        done = run(*command)
        assert done.status == 1
        assert [f"{field}: {other}: {reason}" in done.stderr for field in named] == [True] * len(named), done.stderr


def test_files_that_are_not_there_are_told_by_line_and_field(tmp_path: Path) -> None:
    file = tmp_path / "extproc.yaml"
    file.write_text(f"tls: {{certificate: {tmp_path}/c, key: {tmp_path}/k}}\n{GOOD}    api_key: {tmp_path}/b\n")
    assert run("check", file).stderr.splitlines() == [
        f"extproc: {file}:1: tls.certificate: no such file (its path isn't shown, because it may be a key)",
        f"extproc: {file}:1: tls.key: no such file (its path isn't shown, because it may be a key)",
        f"extproc: {file}:10: backends[0].api_key: no such file (its path isn't shown, because it may be a key)",
    ]


def test_check_warns_of_keys_that_would_let_nobody_in(tmp_path: Path) -> None:
    file, keys = tmp_path / "extproc.yaml", tmp_path / "keys"
    file.write_text(f"api_keys: {keys}\n{GOOD}")
    assert f"warning: {keys}: can't be read: No such file" in run("check", file, "--envoy", "/bin/true").stderr
    keys.write_text(f"alice: {'0' * 64}\nbob: {KEYS[0]}\n")
    done = run("check", file, "--envoy", "/bin/true")
    assert f"warning: {keys}:2: expected 'name: hash'" in done.stderr
    assert KEYS[0] not in done.stderr
    assert done.status == 0


def test_yaml_that_would_take_for_ever_or_has_impossible_values_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "extproc.yaml"
    levels = pairwise("abcdefghij")
    laughs = "a: &a [x]\n" + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in levels)
    for text in (laughs, "a: &a [*a]\n", "a: " + "[" * 5000, "a: 2024-13-45\n", f"a: {'9' * 5000}\n"):
        file.write_text(text)
        done = run("check", file)
        assert done.stderr.startswith(f"extproc: {file}:")
        assert done.status == 1
