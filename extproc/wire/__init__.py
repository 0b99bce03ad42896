"""Envoy's external-processing messages under their plain names.

The modules beside this one are generated from `protos/` by `make protos`. They hold the part of Envoy's API
(v3) that one exchange is made of, compatible with it on the wire. Only google.protobuf is used here: its C
parser reads a message in under a microsecond, and every chunk of a streamed answer is a message.
"""

from __future__ import annotations

from extproc.wire.core_pb2 import HeaderMap, HeaderValue, HeaderValueOption, Metadata
from extproc.wire.ext_proc_pb2 import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    GrpcStatus,
    HeaderMutation,
    HeadersResponse,
    HttpBody,
    HttpHeaders,
    HttpTrailers,
    ImmediateResponse,
    ProcessingRequest,
    ProcessingResponse,
    ProtocolConfiguration,
    StreamedBodyResponse,
    StreamedImmediateResponse,
    TrailersResponse,
)
from extproc.wire.http_status_pb2 import HttpStatus, StatusCode
from extproc.wire.processing_mode_pb2 import ProcessingMode

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
"""The full name of the gRPC service; its one method is `Process`, a stream both ways."""

__all__ = [
    "SERVICE",
    "BodyMutation",
    "BodyResponse",
    "CommonResponse",
    "GrpcStatus",
    "HeaderMap",
    "HeaderMutation",
    "HeaderValue",
    "HeaderValueOption",
    "HeadersResponse",
    "HttpBody",
    "HttpHeaders",
    "HttpStatus",
    "HttpTrailers",
    "ImmediateResponse",
    "Metadata",
    "ProcessingMode",
    "ProcessingRequest",
    "ProcessingResponse",
    "ProtocolConfiguration",
    "StatusCode",
    "StreamedBodyResponse",
    "StreamedImmediateResponse",
    "TrailersResponse",
]
