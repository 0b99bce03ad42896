"""Reads the YAML file; every fault is told with its file, its line and its field, and never with what stands there.

A key may have been written where the path of its file belongs, or anywhere else: what is shown of a file's values are
words like those that settings and formats are named by. The line tells the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from extproc.config.address import AddressError
from extproc.config.base import DIRECTORY, FieldError, FieldErrors, Location, PathError, Settings
from extproc.config.files import check_file, read_file, shown
from extproc.config.mistakes import message_of
from extproc.config.references import broken_references
from extproc.config.settings import Config
from extproc.toolcalls import UnknownFormatError

_PLAIN = re.compile(r"[a-z_]{1,40}")
"""What a message may quote. A key has digits, capitals or signs, even the shortest that vLLM's documentation shows."""
_LONG = 8
"""A shorter text may stand in a message by chance, as the 1 of a number does."""
_GOT = re.compile(r", got .*\Z", re.DOTALL)
_QUOTED = re.compile(r" ?(?:'[^']{2,}'|\"[^\"]{2,}\")")
"""In the words of the YAML reader: names of anchors and tags."""
_TOKEN = re.compile(r" ?'<[a-z ]+>'")
"""And this is what it calls the parts of YAML itself."""
_MISSING = "no such file (its path isn't shown, because it may be a key)"


class _Reader(yaml.composer.Composer, yaml.CSafeLoader):
    """The parser in C takes a tenth of the time: a file of 40 models is read in 5 ms instead of 40, at each start, and
    beside all exchanges when it changes. Nodes are made in Python all the same, whose recursion has an end: brackets in
    brackets would overflow C's stack."""

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        yaml.composer.Composer.__init__(self)


class ConfigError(Exception):
    """The configuration can't be used; the text says where and why, ready to be shown to a person."""


class MissingConfigError(ConfigError):
    """There is no such file."""

    def __init__(self, path: Path, reason: str | None) -> None:
        super().__init__(f"{path}: can't be read: {reason}")
        self.path = path


def load(path: Path) -> Config:
    """Read and validate the file at `path`. Raises ConfigError naming the file, the line and the field."""
    return parse(read(path), source=str(path))


def read(path: Path) -> str:
    """The text of the file. Raises ConfigError, as MissingConfigError if there is none."""
    try:
        return decoded(read_file(path), source=str(path))
    except FileNotFoundError as error:
        raise MissingConfigError(path, error.strerror) from error
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from error


def decoded(content: bytes, *, source: str) -> str:
    """Raises ConfigError."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{source}:{line}: can't be read: it isn't UTF-8") from None


def parse(text: str, *, source: str = "configuration") -> Config:
    """Like `load`, for a text; `source` names it in messages."""
    try:
        root = _composed(text)
        if root is not None:
            _refuse_duplicates(root, source, set())
        data = yaml.constructor.SafeConstructor().construct_document(root) if root is not None else None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{source}:{line}: not valid YAML: {_unquoted(error.problem or error.context)}") from None
    except yaml.YAMLError:
        raise ConfigError(f"{source}: not valid YAML: it has characters that YAML doesn't allow") from None
    except (ValueError, RecursionError):  # a date without a month, a number of too many digits; brackets in brackets
        raise ConfigError(
            f"{source}: not valid YAML: it has an impossible date or number, or is nested too deeply"
        ) from None
    if not isinstance(data, dict):
        raise ConfigError(f"{source}:1: expected a mapping with 'models' and 'backends'")
    try:
        return Config.model_validate(data, context={DIRECTORY: Path(source).parent})
    except ValidationError as error:
        faults = error.errors()
        # A sequence whose only item is faulty is also reported as too short: the item's own fault says it all.
        places = [fault["loc"] for fault in faults]
        told = [f for f in faults if not any(p != f["loc"] and p[: len(f["loc"])] == f["loc"] for p in places)]
        lines = [line for fault in told for line in _describe(fault, root, source)]
        lines += [
            _line(broken.location, str(broken), root, source)
            for broken in _broken_references(data)
            if not any(fault["loc"] == broken.location[: len(fault["loc"])] for fault in told)
        ]
        raise ConfigError("\n".join(lines)) from None


def _composed(text: str) -> yaml.Node | None:
    """The document. Raises YAMLError in the words of the reader in Python: they are those whose parts are known."""
    try:
        return _Reader(text).get_single_node()
    except yaml.YAMLError:
        return yaml.compose(text, Loader=yaml.SafeLoader)


def fault(location: Location, message: str, text: str, *, source: str) -> ConfigError:
    """An error for what is said at `location` of the file `source`, in which `text` is."""
    return ConfigError(f"{_place(location, _composed(text), source)}: {message}")


def check_files(config: Config, text: str, *, source: str, there: bool = False) -> None:
    """Whether the files that `config` names could be read by whoever reads them; with `there`, only if they exist.

    Without it they may come later, or be somewhere else: in a pod the processor doesn't see the certificate of the
    listener. Raises ConfigError for one that Envoy, or a thread, would wait for without an end: a FIFO, a device.
    """
    complaints = []
    for location, path in named_files(config):
        reason = None
        try:
            check_file(path)
        except (FileNotFoundError, NotADirectoryError):
            if there and location != ("api_keys",):
                reason = _MISSING
        except PermissionError:
            pass  # Envoy may be another user
        except OSError as error:
            reason = f"{shown(path, 'it')}: {error.strerror}"
        if reason is not None:
            complaints.append(f"{_place(location, _composed(text), source)}: {reason}")
    if complaints:
        raise ConfigError("\n".join(complaints))


def named_files(config: Config) -> Iterator[tuple[Location, Path]]:
    """All files that are named in settings, and where."""
    for location, path in _paths(config, ()):
        if location[0] not in ("recording", "characters", "sockets"):  # which are directories
            yield location, path


def _paths(value: object, location: Location) -> Iterator[tuple[Location, Path]]:
    if isinstance(value, Path):
        yield location, value
    elif isinstance(value, Settings):
        for name in type(value).model_fields:
            yield from _paths(getattr(value, name), (*location, name))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _paths(item, (*location, index))


def _refuse_duplicates(node: yaml.Node, source: str, looked_at: set[int]) -> None:
    """YAML takes the last of two equal keys and says nothing: a list of models would be lost."""
    if id(node) in looked_at:  # aliases lead to the same node from many places, even from inside of itself
        return
    looked_at.add(id(node))
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise ConfigError(f"{source}:{key.start_mark.line + 1}: {_name(key.value)}: given twice")
                seen.add(key.value)
            _refuse_duplicates(value, source, looked_at)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_duplicates(item, source, looked_at)


def _broken_references(data: dict[Any, Any]) -> Iterator[FieldError]:
    """Those of a file with other faults, as far as it can be told what its names are."""
    models, backends, recording = (data.get(key) for key in ("models", "backends", "recording"))
    backend_names = _texts(backends, "name")
    model_names = _texts(models, "name")
    recorded = recording.get("model") if isinstance(recording, dict) else None
    if model_names is not None and backend_names is not None:
        yield from broken_references(
            model_names,
            [one if isinstance(one := model.get("backend"), str) else None for model in models or ()],
            backend_names,
            recorded if isinstance(recorded, str) else None,
        )


def _texts(entries: Any, key: str) -> list[str] | None:
    """What each of them has there; None unless all have a text."""
    if not isinstance(entries, list) or not entries:
        return None
    found = [entry.get(key) if isinstance(entry, dict) else None for entry in entries]
    return [text for text in found if isinstance(text, str)] if all(isinstance(one, str) for one in found) else None


def _describe(fault: ErrorDetails, root: yaml.Node | None, source: str) -> Iterator[str]:
    """A line for each mistake that it tells of."""
    location: Location = fault["loc"]
    cause = fault.get("ctx", {}).get("error")
    match cause:
        case FieldErrors(faults=faults):
            for one in faults:
                yield _line((*location, *one.location), str(one), root, source)
        case FieldError():
            yield _line((*location, *cause.location), str(cause), root, source)
        case PathError():
            yield f"{_place(location, root, source)}: {cause}"
        case AddressError():
            yield f"{_place(location, root, source)}: {cause.expected}"
        case UnknownFormatError():
            name = str(cause).removesuffix(cause.hint)
            yield _line(location, name, root, source) + cause.hint
        case None:
            yield _line(location, message_of(fault), root, source)
        case _:
            yield _line(location, str(cause), root, source)


def _line(location: Location, message: str, root: yaml.Node | None, source: str) -> str:
    """One mistake, without the values that may not be shown."""
    message = _GOT.sub("", message)
    for value in _scalars(_found(root, location)[1]):
        if not _PLAIN.fullmatch(value):
            message = message.replace(value, "...") if len(value) >= _LONG else message.replace(repr(value), "'...'")
    return f"{_place(location, root, source)}: {message}"


def _place(location: Location, root: yaml.Node | None, source: str) -> str:
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{_name(part)}" for part in location).lstrip(".")
    return f"{source}:{_found(root, location)[0]}: {field}"


def _name(text: str) -> str:
    """The name of a setting, or what stands where one belongs."""
    return text if _PLAIN.fullmatch(text) else "(a name that isn't shown)"


def _unquoted(problem: str | None) -> str:
    """What the YAML reader says, without what it quotes."""
    return _QUOTED.sub(lambda found: found[0] if _TOKEN.fullmatch(found[0]) else "", problem or "it can't be read")


def _found(node: yaml.Node | None, location: Location) -> tuple[int, yaml.Node | None]:
    """The deepest part of `location` that stands in the document: its 1-based line, and its value."""
    line = 1
    for part in location:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == part), None)
            if found is None:
                break
            line = found[0].start_mark.line + 1
            node = found[1]
        else:
            break
    return line, node


def _scalars(node: yaml.Node | None) -> Iterator[str]:
    """The texts in the part of the document at `node`."""
    waiting, looked_at = [node], set[int]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.ScalarNode):
            if node.value:
                yield str(node.value)
        elif isinstance(node, yaml.CollectionNode) and id(node) not in looked_at:
            looked_at.add(id(node))
            for item in node.value:
                waiting += item if isinstance(item, tuple) else (item,)
