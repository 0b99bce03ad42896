"""What Envoy's messages have to be, and what is read of their header fields."""

from __future__ import annotations

from collections.abc import Mapping

from extproc.wire import HeaderMap, ProcessingMode, ProtocolConfiguration


class ProtocolError(Exception):
    """Envoy is configured otherwise than this processor needs, or sent what can't come now."""


def check_protocol(protocol: ProtocolConfiguration) -> bool:
    """Whether nothing but headers will come."""
    known = (ProcessingMode.BUFFERED, ProcessingMode.NONE)
    if protocol.request_body_mode not in known or protocol.response_body_mode != ProcessingMode.NONE:
        names = ProcessingMode.BodySendMode.Name
        raise ProtocolError(
            "configure Envoy's processing_mode with request_body_mode BUFFERED and response_body_mode NONE "
            f"(and allow_mode_override); it has {names(protocol.request_body_mode)} "
            f"and {names(protocol.response_body_mode)}"
        )
    return protocol.request_body_mode == ProcessingMode.NONE


def fields_of(headers: HeaderMap, *wanted: str) -> dict[str, str]:
    """The header fields of these names that are there; Envoy sends names in lower case, values as raw bytes."""
    return {
        field.key: field.raw_value.decode("utf-8", "replace") or field.value
        for field in headers.headers
        if field.key in wanted
    }


def is_event_stream(fields: Mapping[str, str]) -> bool:
    """Whether a response says that it is one."""
    return fields.get("content-type", "").lower().startswith("text/event-stream")


def may_be_an_answer(fields: Mapping[str, str]) -> bool:
    """Whether a response can be a chat completion: a web page can't, whatever its status."""
    kind = fields.get("content-type", "").lower()
    return not kind or is_event_stream(fields) or kind.partition(";")[0].rstrip().endswith("json")


def kept(fields: Mapping[str, str]) -> dict[str, str]:
    """What of the backend's headers has to outlive a replaced response."""
    return {name: fields[name] for name in ("retry-after",) if name in fields}
