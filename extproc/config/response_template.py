"""The response template of a checkpoint, which stands in a file beside the configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationInfo

from extproc.config.base import DIRECTORY, PathError
from extproc.config.files import read_file
from extproc.toolcalls import ResponseTemplateError, compile_template


def read_response_template(value: Any, info: ValidationInfo) -> Any:
    """The template, as JSON text.

    `value` is the path of its file, or of the tokenizer_config.json that holds it; or the template itself, as a
    configuration has it that was written from another one.
    """
    if value is None:
        return None
    grammar = _loaded(value, info) if isinstance(value, str) else value
    if not isinstance(grammar, Mapping):
        raise ValueError("expected the path of a JSON file")
    try:
        compile_template(grammar)
    except ResponseTemplateError as error:
        raise ValueError(f"the gateway can't read answers by it: {error}") from None
    template = grammar if "fields" in grammar else grammar["response_template"]
    return json.dumps(template, ensure_ascii=False, sort_keys=True)


def _loaded(value: str, info: ValidationInfo) -> Any:
    content: str | bytes = value
    if not value.startswith("{"):
        path = Path((info.context or {}).get(DIRECTORY, "")) / value
        try:
            content = read_file(path)
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError):
                raise PathError(f"no such file: {path}") from None
            raise PathError(f"{path}: {error.strerror if isinstance(error, OSError) else 'not a path'}") from None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("the file isn't JSON") from None
