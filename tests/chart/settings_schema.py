"""The JSON schema of the chart's `config`, made of the settings' classes: what may be said, in which types and bounds.

It knows names, types, enumerations, bounds and what has to be there. What the parser finds out by functions of its own
(whether an address is one, whether a model's backend exists) it leaves to the parser. In one thing it is stricter:
numbers and booleans have to be written as such, where the parser takes `"3"` and `"yes"` too.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from extproc.config import Config

Schema = dict[str, Any]

_SAID_ELSEWHERE = {"title", "description", "default", "format"}
"""Of what pydantic tells, what docs/configuration.md tells better; and that a text is a path, by a format that
JSON Schema doesn't know."""


class _Strict(GenerateJsonSchema):
    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        made = super().dict_schema(schema)
        if "patternProperties" in made:  # a name that has no such pattern is refused, and not something else
            made["additionalProperties"] = False
        return made


def settings_schema() -> tuple[Schema, Schema]:
    """That of the whole, and what it refers to, which has to stand in `definitions` of the same file (draft 7)."""
    made = Config.model_json_schema(ref_template="#/definitions/{model}", schema_generator=_Strict)
    definitions = made.pop("$defs")
    return _bare(made), {name: _bare(each) for name, each in sorted(definitions.items())}


def _bare(schema: Schema) -> Schema:
    """Without what is said elsewhere. The names of settings stand below `properties`, and stay."""
    made = {name: value for name, value in schema.items() if name not in _SAID_ELSEWHERE}
    for name, value in made.items():
        if name in ("properties", "patternProperties"):
            made[name] = {setting: _bare(each) for setting, each in value.items()}
        elif isinstance(value, dict):
            made[name] = _bare(value)
        elif name == "anyOf":
            made[name] = [_bare(each) for each in value]
    return made
