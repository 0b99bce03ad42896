"""The kinds of controllers as validators, by their custom resource definitions (`crds`).

They hold objects to what an API server holds them to: types, patterns, required fields, and none that the definition
doesn't know. Left out are the rules written in CEL, and defaults.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from jsonschema_rs import Draft202012Validator

from tests.k8s.rendered import Object

Kind: TypeAlias = tuple[str, str]
"""`apiVersion` and `kind`."""


def _validator(spec: Object) -> Draft202012Validator:
    return Draft202012Validator(_as_checked(spec))


def _as_checked(schema: Any) -> Any:
    """The schema as JSON Schema, and without the freedom to have fields that it doesn't name.

    What is in its `allOf`, `anyOf`, `oneOf` and `not` only says more of fields that are named beside them.
    """
    if not isinstance(schema, dict):
        return schema
    checked = {word: value for word, value in schema.items() if not word.startswith("x-") and word != "default"}
    if "properties" in schema:
        checked["properties"] = {name: _as_checked(member) for name, member in schema["properties"].items()}
    for word in ("items", "additionalProperties"):
        if word in schema:
            checked[word] = _as_checked(schema[word])
    if schema.get("type") == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
        checked.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        checked["type"] = ["integer", "string"]
    if checked.pop("nullable", False) and "type" in checked:
        checked["type"] = [checked["type"], "null"]
    return checked


def _definitions() -> dict[Kind, Draft202012Validator]:
    read = [json.loads(file.read_bytes()) for file in sorted(Path(__file__).with_name("crds").glob("*.json"))]
    return {(each["apiVersion"], each["kind"]): _validator(each["spec"]) for each in read}


DEFINITIONS: Mapping[Kind, Draft202012Validator] = _definitions()


def faults(each: Object) -> list[str]:
    """Where an object isn't what its definition says."""
    definition = DEFINITIONS[each["apiVersion"], each["kind"]]
    return [f"{'.'.join(map(str, it.instance_path))}: {it.message}" for it in definition.iter_errors(each["spec"])]
