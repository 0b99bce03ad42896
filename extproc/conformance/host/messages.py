"""The messages that a host sends."""

from __future__ import annotations

from extproc.conformance.host.settings import Headers, HostSettings, Values
from extproc.wire import (
    HeaderMap,
    HeaderValue,
    HttpBody,
    HttpHeaders,
    HttpTrailers,
    ProcessingRequest,
    ProcessingResponse,
    ProtocolConfiguration,
)

_FILTER = "envoy.filters.http.ext_proc"


def headers(way: str, fields: Headers, settings: HostSettings, *, end: bool) -> ProcessingRequest:
    """`way` is `request` or `response`, here and below."""
    shown = tuple(pair for pair in fields if pair[0] not in settings.hidden)
    content = HttpHeaders(headers=_map(shown, settings.values), end_of_stream=end)
    return ProcessingRequest(**{f"{way}_headers": content})  # type: ignore[arg-type]


def body(way: str, piece: bytes, *, end: bool) -> ProcessingRequest:
    return ProcessingRequest(**{f"{way}_body": HttpBody(body=piece, end_of_stream=end)})  # type: ignore[arg-type]


def trailers(way: str, fields: Headers, settings: HostSettings) -> ProcessingRequest:
    content = HttpTrailers(trailers=_map(fields, settings.values))
    return ProcessingRequest(**{f"{way}_trailers": content})  # type: ignore[arg-type]


def dress(message: ProcessingRequest, settings: HostSettings, *, first: bool) -> None:
    """Add what the settings ask for beside the content."""
    if first and settings.protocol_config:
        request, response = settings.told_modes or (int(settings.request_body), int(settings.response_body))
        message.protocol_config.CopyFrom(
            ProtocolConfiguration(
                request_body_mode=request,  # type: ignore[arg-type]
                response_body_mode=response,  # type: ignore[arg-type]
                send_body_without_waiting_for_header_response=settings.send_body_without_waiting,
            )
        )
    message.observability_mode = settings.observability
    if settings.attributes:
        message.attributes[_FILTER].update({"request.path": "/conformance", "response.code": 200})
        message.metadata_context.filter_metadata["conformance"].update({"tenant": "t-1"})


def _map(fields: Headers, values: Values) -> HeaderMap:
    result = HeaderMap()
    for name, value in fields:
        if values is Values.TEXT or (values is Values.MIXED and name.startswith(":")):
            result.headers.append(HeaderValue(key=name, value=value.decode()))
        else:
            result.headers.append(HeaderValue(key=name, raw_value=value))
    return result


def described(message: ProcessingRequest | ProcessingResponse) -> str:
    """A message in a few words: its kind, sizes and ends, and nothing of its content."""
    if isinstance(message, ProcessingRequest):
        kind = message.WhichOneof("request") or "(nothing)"
        if kind.endswith("_headers"):
            return f"{kind}{' end' if getattr(message, kind).end_of_stream else ''}"
        if kind.endswith("_body"):
            sent = getattr(message, kind)
            return f"{kind}[{len(sent.body)}]{' end' if sent.end_of_stream else ''}"
        return kind
    kind = message.WhichOneof("response") or "(no content)"
    words = [kind]
    if kind == "immediate_response":
        words.append(str(message.immediate_response.status.code))
    if kind.endswith(("_body", "_headers")):
        mutation = getattr(message, kind).response.body_mutation
        form = mutation.WhichOneof("mutation")
        if form == "body":
            words.append(f"body[{len(mutation.body)}]")
        elif form == "streamed_response":
            end = " end" if mutation.streamed_response.end_of_stream else ""
            words.append(f"streamed_response[{len(mutation.streamed_response.body)}]{end}")
        elif form:
            words.append(form)
    beside = [field for field in ("mode_override", "override_message_timeout") if message.HasField(field)]
    return " ".join(words + beside)


def note(sent: list[tuple[str, int, bool]], message: ProcessingRequest) -> None:
    """Add a message by its kind, size and end; pieces of a body are one: where they are cut is the network's affair."""
    kind = message.WhichOneof("request") or ""
    content = getattr(message, kind, None)
    size = len(content.body) if content is not None and kind.endswith("_body") else 0
    end = bool(content.end_of_stream) if content is not None and not kind.endswith("_trailers") else True
    if sent and kind.endswith("_body") and sent[-1][0] == kind:
        _, before, ended = sent.pop()
        size, end = size + before, end or ended
    sent.append((kind, size, end))
