"""`format: hf`: a model's answers are read by the response template that comes with its checkpoint."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from extproc.config import Config, ConfigError, load, parse
from extproc.surfaces import prepare, rewrite_completion

TEMPLATES = Path(__file__).parent / "samples" / "response_templates"
QWEN3 = (TEMPLATES / "qwen3.json").read_text(encoding="utf-8")
REQUEST = {
    "model": "m",
    "messages": [{"role": "user", "content": "What about <tool_call> and <function=f>?"}],
    "tools": [{"type": "function", "function": {"name": "f"}}],
}
ANSWER = "<think>Hm.</think>Look.<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"


def config(directory: Path, **settings: Any) -> Config:
    model = {"name": "m", "backend": "b", "tools": "template", "format": "hf", **settings}
    file = directory / "config.yaml"
    file.write_text(yaml.safe_dump({"models": [model], "backends": [{"name": "b", "address": "127.0.0.1:1"}]}))
    return load(file)


@pytest.mark.parametrize("content", [QWEN3, json.dumps({"response_template": json.loads(QWEN3), "eos_token": "x"})])
def test_a_file_beside_the_configuration_tells_how_answers_are_read(tmp_path: Path, content: str) -> None:
    (tmp_path / "qwen3.json").write_text(content)
    prepared = pickle.loads(
        pickle.dumps(prepare(orjson.dumps(REQUEST), config(tmp_path, response_template="qwen3.json")))
    )
    completion = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}],
    }
    message = orjson.loads(rewrite_completion(orjson.dumps(completion), prepared.answer).body)["choices"][0]["message"]
    (call,) = message["tool_calls"]
    assert (message["content"], message["reasoning"]) == ("Look.", "Hm.")
    assert call["function"] == {"name": "f", "arguments": '{"a": "1"}'}


def test_its_markers_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "qwen3.json").write_text(QWEN3)
    sent = orjson.loads(prepare(orjson.dumps(REQUEST), config(tmp_path, response_template="qwen3.json")).body or b"")
    assert sent["messages"][0]["content"] == "What about <\u200btool_call> and <\u200bfunction=f>?"


def test_a_configuration_that_was_read_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "qwen3.json").write_text(QWEN3)
    read = config(tmp_path, response_template="qwen3.json")
    assert parse(yaml.safe_dump(read.model_dump(mode="json"))) == read
    assert config(tmp_path, response_template=json.loads(QWEN3)) == read


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, r"response_template: `format: hf` and `response_template` need each other"),
        (
            {"format": "hermes", "response_template": "qwen3.json"},
            r"response_template: `format: hf` and `response_template` need each other",
        ),
        (
            {"tools": "prompt", "response_template": "qwen3.json"},
            r"format: it isn't for prompt mode: a response template",
        ),
        ({"response_template": "none.json"}, r"response_template: no such file: /\S*/none\.json$"),
        ({"response_template": "."}, r"response_template: .*is a directory"),
        ({"response_template": "a\0b"}, r"response_template: .*not a path|YAML"),
        ({"response_template": "config.yaml"}, r"response_template: the file isn't JSON"),
        ({"response_template": []}, r"response_template: expected the path"),
        (
            {"response_template": "kv.json"},
            r"response_template: the gateway can't read answers by it: fields\.tool_calls: content: 'kv-lines'",
        ),
    ],
)
def test_faults_are_told(tmp_path: Path, settings: dict[str, Any], why: str) -> None:
    (tmp_path / "qwen3.json").write_text(QWEN3)
    (tmp_path / "kv.json").write_text(QWEN3.replace("xml-inline", "kv-lines"))
    with pytest.raises(ConfigError, match=why):
        config(tmp_path, **settings)
