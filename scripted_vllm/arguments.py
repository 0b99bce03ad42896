"""Fills a tool's parameters from a request, as a small model would: by schema, and with what the request mentions.

The outcome fits the schema as far as this module understands it: types, enum, const, required, nested objects and
arrays, local `$ref`s. A required parameter that the request says nothing about gets something of its type. Nothing is
used twice in one call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from scripted_vllm.mentions import Kind, Mention, enumerated, find

Schema = Mapping[str, Any]

_WORDING: Sequence[tuple[frozenset[str], Sequence[Kind]]] = (
    (frozenset({"path", "paths", "file", "files", "filename", "filepath", "dir", "directory", "folder"}), (Kind.PATH,)),
    (frozenset({"url", "urls", "uri", "link", "href", "website"}), (Kind.URL,)),
    (frozenset({"email", "mail", "recipient", "recipients", "address"}), (Kind.EMAIL,)),
    (frozenset({"date", "day"}), (Kind.DATE,)),
    (
        frozenset(
            """body cmd code command commands content contents expression input message note prompt query question
            reason result search subject task text title""".split()
        ),
        (),
    ),
)
"""What the words of a parameter's name promise about its value; without any of them it is taken for a name."""

_SAID = re.compile(r"(?:: |\b[Ff]or |\b[Aa]bout )(.+?)[.?!]*$", re.DOTALL)
"""The part of a request that is its matter: "search for this", "write: that"."""

_NEGATED = re.compile(r"\b(?:no|not|without|don't|never|disable)\s+(?:\w+\s+){0,2}$", re.IGNORECASE)


def words(text: str) -> list[str]:
    """The words of an identifier or a sentence in lower case: `getWeather_now` has three."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", text)]


def fill(schema: Schema, request: str, no_names: Collection[str] = ()) -> list[dict[str, Any]]:
    """The arguments of each call that `request` asks for: several when it lists several things for one parameter.

    The words `no_names` are not values though they may be capitalised.
    """
    mentions = find(request, no_names)
    call = _Filling(schema, request, mentions)
    free = [mention for mention in mentions if mention.kind in call.main_kinds() and not call.is_choice(mention)]
    listed = enumerated(free, request)
    if not listed:
        return [call.arguments()]
    others = [mention for mention in mentions if mention not in listed]
    return [_Filling(schema, request, [one, *others]).arguments() for one in listed]


class _Filling:
    """One call's arguments in the making; `_left` are the mentions that no parameter has taken yet."""

    def __init__(self, root: Schema, request: str, mentions: Sequence[Mention]) -> None:
        self._root = root
        self._request = request
        self._left = list(mentions)

    def arguments(self) -> dict[str, Any]:
        return self._object(self._root)

    def main_kinds(self) -> Sequence[Kind]:
        """What the only free string that a call needs may be; nothing if there isn't exactly one."""
        properties = self._properties(self._root)
        required = [name for name in self._root.get("required", ()) if name in properties]
        strings = [name for name in required or properties if _is_free_string(self._resolve(properties[name]))]
        return _kinds(strings[0]) if len(strings) == 1 else ()

    def is_choice(self, mention: Mention) -> bool:
        """Whether it is one of a parameter's fixed values."""
        parts = map(self._resolve, self._properties(self._root).values())
        return any(mention.text.lower() == str(option).lower() for part in parts for option in part.get("enum", ()))

    def _object(self, schema: Schema) -> dict[str, Any]:
        """Choices and numbers first: they know what they look for, while strings, also in lists, take what is left."""
        properties = {name: self._resolve(part) for name, part in self._properties(schema).items()}
        required = set(schema.get("required", ()))
        order = sorted(properties, key=lambda name: (self._takes_any(properties[name]), name not in required))
        values = {name: self._value(name, properties[name], required=name in required) for name in order}
        return {name: values[name] for name in properties if values[name] is not None}

    def _properties(self, schema: Schema) -> Mapping[str, Schema]:
        properties = schema.get("properties")
        return properties if isinstance(properties, Mapping) else {}

    def _takes_any(self, schema: Schema) -> bool:
        """Whether it is a string, or a list of them."""
        return _is_free_string(self._resolve(schema.get("items")) if _type(schema) == "array" else schema)

    def _resolve(self, schema: Any) -> Schema:
        """The schema itself, behind references and without the alternative null."""
        for _ in range(10):  # References may be circular.
            if not isinstance(schema, Mapping):
                return {}
            if isinstance(reference := schema.get("$ref"), str):
                target: Any = self._root
                for key in reference.removeprefix("#/").split("/"):
                    target = target.get(key) if isinstance(target, Mapping) else None
                schema = target
                continue
            options = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
            if not options:
                return schema
            # An option may be a bare true or false.
            objects = (option for option in options if isinstance(option, dict))
            schema = next((option for option in objects if option.get("type") != "null"), {})
        return {}

    def _value(self, name: str, schema: Schema, *, required: bool) -> Any:
        """A value for one parameter, or None to leave it out."""
        if "const" in schema:
            return schema["const"]
        kind = _type(schema)
        value: Any = None
        if "enum" in schema:
            value = self._choice(schema["enum"])
        elif kind == "string":
            value = self._string(name, required=required)
        elif kind in ("integer", "number"):
            value = self._number(name, whole=kind == "integer", required=required)
        elif kind == "boolean":
            value = self._flag(name)
        elif kind == "array":
            value = self._list(name, self._resolve(schema.get("items")), required=required) or None
        elif kind == "object":
            value = self._object(schema) or None
        return self._something(schema, kind) if value is None and required else value

    def _choice(self, options: Sequence[Any]) -> Any:
        for option in options:
            if re.search(rf"(?<!\w){re.escape(str(option))}(?!\w)", self._request, re.IGNORECASE):
                self._left = [one for one in self._left if one.text.lower() != str(option).lower()]
                return option
        return None

    def _string(self, name: str, *, required: bool) -> str | None:
        for kind in (*_kinds(name), Kind.QUOTED):
            taken = self._take(kind)
            if taken is not None:
                return taken
        if not required:
            return None
        fallback = self._take(Kind.NAME)
        if fallback is not None and _kinds(name):
            return fallback
        said = _SAID.search(self._request)
        return self._request if said is None else said[1]

    def _number(self, name: str, *, whole: bool, required: bool) -> float | int | None:
        """The number beside the parameter's name; if it must have one, any."""
        usable = [one for one in self._left if one.kind is Kind.NUMBER and not (whole and "." in one.text)]
        named = [one for one in usable if set(words(name)) & set(self._beside(one))]
        for one in named or (usable if required else ()):
            self._left.remove(one)
            return int(one.text) if whole or "." not in one.text else float(one.text)
        return None

    def _beside(self, mention: Mention) -> list[str]:
        """The two words before it and the one after, each also without a plural s."""
        near = words(self._request[: mention.start])[-2:] + words(self._request[mention.end :])[:1]
        return near + [word.removesuffix("s") for word in near]

    def _flag(self, name: str) -> bool | None:
        for word in words(name):
            found = re.search(rf"\b{re.escape(word)}", self._request, re.IGNORECASE)
            if found and len(word) > 2:
                return _NEGATED.search(self._request[: found.start()]) is None
        return None

    def _list(self, name: str, items: Schema, *, required: bool) -> list[Any]:
        values: list[Any] = []
        while True:
            before = len(self._left)
            value = self._value(name, items, required=required and not values)
            taken = len(self._left) < before
            if value is not None and (taken or not values):
                values.append(value)
            if not taken:  # Each further item needs a mention of its own.
                return values

    def _something(self, schema: Schema, kind: str) -> Any:
        """A value for a required parameter of which the request says nothing."""
        if "default" in schema:
            return schema["default"]
        if schema.get("enum"):
            return schema["enum"][0]
        if kind in ("integer", "number"):
            return schema.get("minimum", 1)
        return {"boolean": False, "array": [], "object": {}, "null": None}.get(kind, self._request)

    def _take(self, kind: Kind) -> str | None:
        for one in self._left:
            if one.kind is kind:
                self._left.remove(one)
                return one.text
        return None


def _is_free_string(schema: Schema) -> bool:
    return _type(schema) == "string" and "enum" not in schema and "const" not in schema


def _kinds(name: str) -> Sequence[Kind]:
    """What a string parameter of this name may be besides something quoted."""
    parts = set(words(name))
    return next((kinds for hints, kinds in _WORDING if hints & parts), (Kind.NAME,))


def _type(schema: Schema) -> str:
    given = schema.get("type")
    if isinstance(given, list):
        given = next((one for one in given if one != "null"), None)
    if isinstance(given, str):
        return given
    return "object" if "properties" in schema else "string"
