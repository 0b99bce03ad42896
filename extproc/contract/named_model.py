"""The model that a request names, found and replaced in its bytes: all else in them stays as the client wrote it.

For paths whose requests nobody here needs to understand: a backend has its own ideas of an embedding's parameters, and
tells the client itself what is wrong with them. So this reads no more than it takes to find `model`: the members of
the outermost object, or the parts of a form (RFC 7578). What two readers could find different models in is refused,
since by the model it is decided who may ask: `model` given twice, or in letters of another case, an encoding other than
UTF-8; two boundaries, something before the first part, a part with two names. In time that is linear in the bytes.
"""

from __future__ import annotations

import json
import re
from email.message import Message
from email.utils import collapse_rfc2231_value
from typing import NamedTuple

import orjson

from extproc.contract.errors import ApiError, invalid_json, invalid_request, invalid_type, invalid_value

MOST_PARTS = 1000
"""Of a form; vLLM's own reader takes no more."""

_FIELD = "model"
_FORM = "multipart/form-data"
_DISPOSITION = "content-disposition"
_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*\{")
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["{}\[\]]', re.DOTALL)
"""What the depth of a place hangs on: whole strings, and brackets. A quote alone begins a string that doesn't end."""
_COLON = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*")
_SCALAR = re.compile(rb"[^ \t\r\n,}\]]{1,30}")
_PADDING = re.compile(rb"[ \t]*(?:\r\n|(--))")


class NamedModel(NamedTuple):
    """A model's name, and where it stands in the body."""

    name: str
    start: int
    end: int
    in_form: bool

    def renamed(self, body: bytes, name: str) -> bytes:
        """The body with another name in its place."""
        written = name.encode() if self.in_form else orjson.dumps(name)
        return b"".join((body[: self.start], written, body[self.end :]))


def named_model(body: bytes, content_type: str) -> NamedModel | None:
    """The model that a body names; None when it names none. Raises ApiError (400) for one that can't be read."""
    told = Message()
    told["content-type"] = content_type
    found = _in_form(body, told) if told.get_content_type() == _FORM else _in_object(body)
    if found is not None and not found.name:
        raise invalid_value(_FIELD, "expected the name of a model, got an empty string.")
    return found


def _in_object(body: bytes) -> NamedModel | None:
    if b"\0" in body:
        raise invalid_json("it has NUL characters in it, or another encoding")
    if (begin := _BEGIN.match(body)) is None:
        raise invalid_json("it is not an object with 'model'")
    depth = 0
    found: NamedModel | None = None
    for token in _TOKEN.finditer(body, begin.end() - 1):
        match token[0]:
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
                if depth == 0:
                    return found
            case b'"':
                raise invalid_json("it ends inside a string")
            case text if (
                depth == 1
                and (colon := _COLON.match(body, token.end()))
                and (key := _decoded(text)).casefold() == _FIELD
            ):
                if key != _FIELD:
                    raise invalid_json(f"it has the key {key!r}, which some take for 'model'", _FIELD)
                if found is not None:
                    raise invalid_json("the key 'model' is given twice", _FIELD)
                found = _value(body, colon.end())
    raise invalid_json("it ends too early")


def _value(body: bytes, start: int) -> NamedModel | None:
    """What stands there as the model's name; `null` is none."""
    text = _TOKEN.match(body, start)
    if text is not None and len(text[0]) > 1:
        return NamedModel(_decoded(text[0]), start, text.end(), in_form=False)
    scalar = _SCALAR.match(body, start)
    if scalar is not None and scalar[0] == b"null":
        return None
    try:
        value = json.loads({b"{": b"{}", b"[": b"[]"}.get(body[start : start + 1]) or (scalar[0] if scalar else b""))
    except ValueError:
        raise invalid_json("what it has for 'model' can't be read", _FIELD) from None
    raise invalid_type(_FIELD, "a string", value)


def _decoded(text: bytes) -> str:
    try:
        decoded: str = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise invalid_json("it has a string that can't be read") from None
    return decoded


def _in_form(body: bytes, told: Message) -> NamedModel | None:
    boundary = told.get_boundary()
    if not boundary:
        raise _invalid_form("its content type names no boundary")
    if _given(told, "boundary", "content-type") > 1:
        raise _invalid_form("its content type names two boundaries")
    delimiter = b"--" + boundary.encode("utf-8", "surrogateescape")
    between = b"\r\n" + delimiter
    found: NamedModel | None = None
    begin = 2 if body.startswith(b"\r\n") else 0
    if not body.startswith(delimiter, begin):
        raise _invalid_form("it doesn't begin with the boundary of its content type")
    at = begin + len(delimiter)
    for _ in range(MOST_PARTS):
        line = _PADDING.match(body, at)
        if line is None:
            raise _invalid_form("something stands behind a boundary")
        if line[1]:
            return found
        head, begin = _head(body, line.end())
        end = body.find(between, begin)
        if end < 0:
            raise _invalid_form("its last boundary is missing")
        at = end + len(between)
        if _name(head) == _FIELD:
            if found is not None:
                raise _invalid_form("it has two parts named 'model'")
            try:
                found = NamedModel(body[begin:end].decode(), begin, end, in_form=True)
            except UnicodeDecodeError:
                raise invalid_value(_FIELD, "expected the name of a model in UTF-8.") from None
    raise _invalid_form(f"it has more than {MOST_PARTS} parts")


def _head(body: bytes, start: int) -> tuple[bytes, int]:
    """A part's header fields, and where its content begins."""
    if body.startswith(b"\r\n", start):
        return b"", start + 2
    end = body.find(b"\r\n\r\n", start)
    if end < 0:
        raise _invalid_form("a part of it has no end of its headers")
    return body[start:end], end + 4


def _name(head: bytes) -> str:
    fields = [field.partition(b":") for field in head.split(b"\r\n")]
    values = [value for name, _, value in fields if name.strip().lower() == _DISPOSITION.encode()]
    if not values:
        return ""
    told = Message()
    told[_DISPOSITION] = values[0].decode("utf-8", "replace").strip()
    if len(values) > 1 or _given(told, "name", _DISPOSITION) > 1:
        raise _invalid_form("a part of it has two names")
    return collapse_rfc2231_value(told.get_param("name", "", _DISPOSITION))


def _given(told: Message, parameter: str, header: str) -> int:
    """How often the parameter stands there, extended notation (RFC 5987) included."""
    return sum(name.partition("*")[0].lower() == parameter for name, _ in told.get_params([], header))


def _invalid_form(reason: str) -> ApiError:
    return invalid_request(f"The request body is not valid {_FORM}: {reason}.", code="invalid_form")
