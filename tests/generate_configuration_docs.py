"""Writes docs/configuration-reference.md from the settings' classes: `python -m tests.generate_configuration_docs`.

A test fails when the page is stale. What a setting is called, may be, is by default and means is what its class says,
the last in the text below it; docs/configuration.md tells by hand how to use it.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BeforeValidator
from pydantic.fields import FieldInfo

from extproc.config import Config
from extproc.config.address import check_address, check_listen
from extproc.config.alias import Alias
from extproc.config.backend import _check_header, _check_health_path, _one_or_more, _written_health_check
from extproc.config.base import Settings, _check_path
from extproc.config.jwt import _check_url
from extproc.config.mistakes import PATTERNS
from extproc.config.model import _check_format
from extproc.config.origins import check_origin
from extproc.config.paths import check_exact_path
from extproc.config.response_template import read_response_template
from extproc.config.settings import MOST_WORKERS, _beside_the_file, _check_workers

PAGE = Path(__file__).parent.parent / "docs" / "configuration-reference.md"

VALIDATED: dict[Callable[..., Any], tuple[str, str]] = {
    check_address: ("`host:port`", ""),
    check_listen: ("`address:port`", "an IP address"),
    _check_path: ("path", "absolute"),
    _beside_the_file: ("path", "absolute, or from this file's own directory"),
    _check_url: ("URL", "by `https`"),
    _check_format: ("name of a [format](formats.md)", ""),
    read_response_template: ("path", "of a JSON file; absolute, or from this file's own directory"),
    check_origin: ("origin", "as browsers send it, or `*`"),
    check_exact_path: ("path of a URL", "exact, and not the gateway's own"),
    _check_header: ("name of a header", "in lower case; none that holds a key, and none of the gateway's own"),
    _check_health_path: ("path of a URL", ""),
    _check_workers: ("integer or `auto`", f"1 to {MOST_WORKERS}"),
    _one_or_more: ("`host:port`, or list of them", "at least one"),
    _written_health_check: ("`true`, `false` or mapping", ""),
}
"""The type and the bounds of what a function checks or reads: they are in no annotation."""

MORE = {
    "jwt": ("configuration.md#sign-in-with-oidc",),
    "teams": ("configuration.md#teams",),
    "models": ("configuration.md#models",),
    "models.steering": ("configuration.md#a-mode-that-finds-itself",),
    "backends": ("configuration.md#backends",),
    "aliases": ("fleets.md",),
    "rate_limit_service": ("configuration.md#limits-in-tokens", "configuration.md#requests-a-minute-at-all-replicas"),
    "tool_servers": ("configuration.md#tool-servers",),
    "recording": ("recording.md",),
    "tracing": ("tracing.md",),
    "metrics": ("observability.md#by-otlp",),
}
"""Where what is told of a section's settings stands, if not in the first table of docs/configuration.md."""
WHOLE = "configuration.md#the-whole"

_HEAD = """\
# Every setting

Each key of the configuration file: its type, its default, what it may be, and what it means. How to use them is in
[Configuration](configuration.md). What two settings ask of each other isn't in these tables: `extproc check FILE` says
it, with the line.

`NAME` stands for a key that you choose, and `[]` for each entry of a list. A setting whose default is "none" may be
left out, or `null`.

`python -m tests.generate_configuration_docs` writes this page from the classes in `extproc/config/`.
"""

_LONG = 60
"""Characters of a default that is only counted."""


@dataclass(frozen=True)
class Setting:
    """One key."""

    path: str
    """Such as `models[].steering.first`."""
    type: str
    bounds: str
    default: str
    meaning: str


@dataclass(frozen=True)
class Kind:
    """What a value may be."""

    name: str
    bounds: tuple[str, ...] = ()
    inside: tuple[str, type[Settings]] | None = None
    """What comes behind the path of what is inside, and its class."""


def sections() -> Iterator[tuple[str, list[Setting]]]:
    """The path of each mapping, "" for the whole file, with the keys in it."""
    yield from _sections("", "", Config)


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(_section(path, settings) for path, settings in sections())


def _section(path: str, settings: Sequence[Setting]) -> str:
    plain = re.sub(r"\[\]|\.NAME", "", path)
    first, *others = next((MORE[part] for part in _upwards(plain) if part in MORE), (WHOLE,))
    more = f"[More on these]({first}){''.join(f', and [more]({other})' for other in others)}."
    heading = f"## {path or 'The whole file'}\n\n{more}"
    rows = "".join(
        f"| `{one.path}` | {one.type} | {one.default} | {one.bounds} | {one.meaning} |\n" for one in settings
    )
    return f"\n{heading}\n\n| setting | type | default | bounds | meaning |\n| --- | --- | --- | --- | --- |\n{rows}"


def _upwards(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition(".")[0]


def _sections(path: str, before: str, settings: type[Settings]) -> Iterator[tuple[str, list[Setting]]]:
    hints = get_type_hints(settings, include_extras=True)
    told = meanings(settings)
    rows: list[Setting] = []
    deeper: list[tuple[str, type[Settings]]] = []
    for name, field in settings.model_fields.items():
        kind = kind_of(hints[name])
        type_ = kind.name
        if kind.inside is not None:
            inner = before + name + kind.inside[0]
            deeper.append((inner, kind.inside[1]))
            type_ = f"{type_.removesuffix('mapping')}[mapping](#{re.sub(r'[^a-z_]', '', inner.lower())})"
        if NoneType in get_args(hints[name]) and field.default is not None:
            type_ += " or `null`"
        rows.append(Setting(before + name, type_, "; ".join(kind.bounds), _default(field), _prose(told[name])))
    yield path, rows
    for inner, its in deeper:
        yield from _sections(inner, f"{inner}.", its)


def meanings(settings: type[Settings]) -> dict[str, str]:
    """What stands below each field, in one line. Raises KeyError for one where nothing does."""
    [body] = ast.parse(dedent(inspect.getsource(settings))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for statement, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found[statement.target.id] = " ".join(text.split())
    return found


def kind_of(hint: Any) -> Kind:
    """What a value of this type may be. Raises KeyError for a function that VALIDATED doesn't know."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(inner[0], inner[1:])
    if origin in (Union, UnionType):
        kinds = [kind_of(one) for one in inner if one is not NoneType]
        inside = next((kind.inside for kind in kinds if kind.inside), None)
        return Kind(_one_of([kind.name for kind in kinds]), sum((kind.bounds for kind in kinds), ()), inside)
    if origin is Literal:
        return Kind(_one_of([f"`{_written(value)}`" for value in inner]))
    if origin is tuple:
        each = kind_of(inner[0])
        inside = ("[]", each.inside[1]) if each.inside else None
        return Kind(f"list: {each.name}", tuple(f"each {bound}" for bound in each.bounds), inside)
    if origin is dict:
        key, value = map(kind_of, inner)
        inside = (".NAME", value.inside[1]) if value.inside else None
        keys = tuple(f"keys: {bound}" for bound in key.bounds)
        return Kind(f"mapping: {value.name}", (*keys, *value.bounds), inside)
    if isinstance(hint, type) and issubclass(hint, Settings):
        return Kind("mapping", (), ("", hint))
    return Kind({str: "text", int: "integer", float: "number", bool: "`true` or `false`", Any: "any value"}[hint])


def _annotated(hint: Any, metadata: Sequence[Any]) -> Kind:
    functions = [one.func for one in metadata if isinstance(one, AfterValidator | BeforeValidator)]
    if functions and functions[0] == Alias.written:
        return Kind("name of a model, or mapping", (), ("", Alias))
    kind = Kind("path") if hint is Path else kind_of(hint)
    limits = [*_limits(metadata, "in all" if get_origin(hint) is tuple else "characters")]
    if not functions:
        return Kind(kind.name, (*kind.bounds, *limits), kind.inside)
    type_, bounds = VALIDATED[functions[0]]
    return Kind(type_, tuple(filter(None, (bounds,))), kind.inside)


def _limits(metadata: Sequence[Any], counted: str) -> Iterator[str]:
    """Those that `Field` was given, alone or inside of an annotation."""
    given: dict[str, Any] = {}
    for one in (inner for outer in metadata for inner in (outer.metadata if isinstance(outer, FieldInfo) else [outer])):
        names = ("ge", "gt", "le", "lt", "min_length", "max_length", "pattern")
        given |= {name: getattr(one, name) for name in names if getattr(one, name, None) is not None}
    if "pattern" in given:
        yield re.sub(r"(https?://[^\s,]+)", r"`\1`", PATTERNS[given["pattern"]].replace("'", "`"))
    if "gt" in given:
        yield f"more than {given['gt']}"
    for least, most, unit in (("ge", "le", ""), ("min_length", "max_length", f" {counted}")):
        if least in given and most in given:
            yield f"{given[least]} to {given[most]}{unit}"
        elif least in given:
            yield f"at least {given[least]}{unit.removesuffix('s') if given[least] == 1 else unit}"
        elif most in given:
            yield f"at most {given[most]}{unit}"
    if "lt" in given:
        yield f"less than {given['lt']}"


def _one_of(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if isinstance(value, Settings):
        return "as below"
    text = _written(value)
    return f"`{text}`" if len(text) < _LONG else f"{len(value)} of them"


def _written(value: Any) -> str:
    """As YAML has it."""
    if isinstance(value, str | Path):
        return str(value)
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value)


def _prose(text: str) -> str:
    """With links to the pages that it names."""
    return re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", text).replace("|", "\\|").removesuffix(".")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(PAGE.parent.parent))
