"""Envoy's messages as JSON that a person can read, and back.

Names are those of Envoy's API, so that its documentation explains them. Unlike in protobuf's own JSON, bytes are text
where they are UTF-8 (an object with `base64` where not), and header fields are pairs. Only what is set is written.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeAlias, TypeVar

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

from extproc.wire import HeaderMap, HeaderValue

Json: TypeAlias = dict[str, Any]
_M = TypeVar("_M", bound=Message)


def bytes_as_json(data: bytes) -> str | Json:
    """The text, if it is one."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def bytes_from_json(value: Any) -> bytes:
    """Raises ValueError when `bytes_as_json` makes no such thing."""
    match value:
        case str():
            return value.encode("utf-8")
        case {"base64": str(text)} if len(value) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise ValueError(f"not base64: {error}") from error
        case _:
            raise ValueError("expected a text, or an object with 'base64' alone")


def as_json(message: Message) -> Any:
    """What is set in `message`: an object, or for header fields a list of pairs."""
    match message:
        case HeaderMap():
            return [[field.key, bytes_as_json(field.raw_value or field.value.encode())] for field in message.headers]
        case Struct():
            return MessageToDict(message)
        case _:
            return {field.name: _field_as_json(field, value) for field, value in message.ListFields()}


def from_json(value: Any, kind: type[_M]) -> _M:
    """The message of this kind that `as_json` made `value` of. Raises ValueError when it can't have."""
    message = kind()
    try:
        _fill(message, value)
    except (AttributeError, KeyError, TypeError, ParseError) as error:
        raise ValueError(f"not a {message.DESCRIPTOR.name}: {error}") from error
    return message


def _field_as_json(field: FieldDescriptor, value: Any) -> Any:
    if field.is_repeated:
        return [_one_as_json(field, each) for each in value]
    return _one_as_json(field, value)


def _one_as_json(field: FieldDescriptor, value: Any) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_MESSAGE:
            return as_json(value)
        case FieldDescriptor.TYPE_BYTES:
            return bytes_as_json(value)
        case FieldDescriptor.TYPE_ENUM:
            known = _enumeration(field).values_by_number.get(value)
            return value if known is None else known.name
        case _:
            return value


def _fill(message: Message, value: Any) -> None:
    match message:
        case HeaderMap():
            message.headers.extend(HeaderValue(key=key, raw_value=bytes_from_json(text)) for key, text in value)
        case Struct():
            ParseDict(value, message)
        case _:
            message.SetInParent()  # one that holds nothing says something too
            for name, item in value.items():
                _fill_field(message, name, item)


def _fill_field(message: Message, name: str, value: Any) -> None:
    field: Any = message.DESCRIPTOR.fields_by_name[name]  # its two implementations share no type
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        inner = getattr(message, field.name)
        for each in value if field.is_repeated else ():
            _fill(inner.add(), each)
        if not field.is_repeated:
            inner.SetInParent()
            _fill(inner, value)
    elif field.is_repeated:
        getattr(message, field.name).extend(_scalar(field, each) for each in value)
    else:
        setattr(message, field.name, _scalar(field, value))


def _scalar(field: FieldDescriptor, value: Any) -> Any:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return bytes_from_json(value)
    if field.type == FieldDescriptor.TYPE_ENUM and isinstance(value, str):
        return _enumeration(field).values_by_name[value].number
    return value


def _enumeration(field: FieldDescriptor) -> EnumDescriptor:
    assert field.enum_type is not None  # the field is of that type
    return field.enum_type
