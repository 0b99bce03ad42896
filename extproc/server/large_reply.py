"""A reply with a large body, serialised so that the body is copied once.

Protobuf's own way takes the message, a buffer as large again, and the bytes that come of it, all at a time.
"""

from __future__ import annotations

from google.protobuf.message import Message

from extproc.wire import BodyMutation, BodyResponse, CommonResponse, ProcessingResponse

_BODY = BodyMutation.DESCRIPTOR.fields_by_name["body"].number
_BODY_MUTATION = CommonResponse.DESCRIPTOR.fields_by_name["body_mutation"].number
_RESPONSE = BodyResponse.DESCRIPTOR.fields_by_name["response"].number
_LENGTH_DELIMITED = 2


def body_apart(reply: ProcessingResponse) -> tuple[bytes, bytes]:
    """The two parts of the serialised reply, of which the second is the body that it puts in the place of the one that
    Envoy has, or b"" if there is none. Takes the message apart.

    Fields may come in any order (protobuf.dev, "Encoding"), so what holds the body comes last at each level.
    """
    kind = reply.WhichOneof("response")
    if kind not in ("request_body", "response_body"):
        return reply.SerializeToString(), b""
    common: CommonResponse = getattr(reply, kind).response
    if common.body_mutation.WhichOneof("mutation") != "body":
        return reply.SerializeToString(), b""
    body = common.body_mutation.body
    common.ClearField("body_mutation")
    head = _key(_BODY, len(body))
    head = _key(_BODY_MUTATION, len(head) + len(body)) + head
    head = common.SerializeToString() + head
    head = _key(_RESPONSE, len(head) + len(body)) + head
    head = _key(_number(reply, kind), len(head) + len(body)) + head
    reply.ClearField(kind)
    return reply.SerializeToString() + head, body


def _number(message: Message, name: str) -> int:
    return message.DESCRIPTOR.fields_by_name[name].number


def _key(number: int, size: int) -> bytes:
    """What stands before a field's value of so many bytes."""
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(size)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
