"""gRPC's reflection service, `grpc.reflection.v1alpha.ServerReflection`: what is served, and in which words.

What it is made of is imported when somebody first asks: that is a person at a terminal, once in a while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from extproc.transport.call import Call, Receiver, Services, Status

if TYPE_CHECKING:
    from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

NAME = "grpc.reflection.v1alpha.ServerReflection"


def reflection(names: tuple[str, ...]) -> Services:
    """Its method, for a server of these services and of itself."""

    def begun(call: Call) -> Receiver:
        return _Reflection((*names, NAME), call)

    return {f"/{NAME}/ServerReflectionInfo": begun}


class _Reflection:
    def __init__(self, names: tuple[str, ...], call: Call) -> None:
        self._names = names
        self._call = call

    def received(self, message: bytes) -> None:
        from google.protobuf.message import DecodeError
        from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

        try:
            request = ServerReflectionRequest.FromString(message)
        except DecodeError:
            self._call.finish(Status.INVALID_ARGUMENT, "not a ServerReflectionRequest")
            return
        answer = _answer(request, self._names)
        answer.valid_host = request.host
        answer.original_request.CopyFrom(request)
        self._call.send(answer.SerializeToString())

    def half_closed(self) -> None:
        self._call.finish()

    def closed(self) -> None:
        pass


def _answer(request: ServerReflectionRequest, names: tuple[str, ...]) -> ServerReflectionResponse:
    from google.protobuf import descriptor_pool
    from grpc_reflection.v1alpha.reflection_pb2 import (
        ExtensionNumberResponse,
        ListServiceResponse,
        ServerReflectionResponse,
        ServiceResponse,
    )

    pool = descriptor_pool.Default()
    match request.WhichOneof("message_request"):
        case "list_services":
            services = [ServiceResponse(name=name) for name in names]
            return ServerReflectionResponse(list_services_response=ListServiceResponse(service=services))
        case "file_by_filename":
            return _files(lambda: pool.FindFileByName(request.file_by_filename))
        case "file_containing_symbol":
            return _files(lambda: pool.FindFileContainingSymbol(request.file_containing_symbol))
        case "file_containing_extension":
            wanted = request.file_containing_extension
            extended = wanted.containing_type
            return _files(
                lambda: pool.FindExtensionByNumber(pool.FindMessageTypeByName(extended), wanted.extension_number).file  # type: ignore[attr-defined]
            )
        case "all_extension_numbers_of_type":
            extended = request.all_extension_numbers_of_type
            try:
                found = pool.FindAllExtensions(pool.FindMessageTypeByName(extended))
            except KeyError:
                return _error(Status.NOT_FOUND, "no such type")
            numbers = ExtensionNumberResponse(
                base_type_name=extended, extension_number=[extension.number for extension in found]
            )
            return ServerReflectionResponse(all_extension_numbers_response=numbers)
        case _:
            return _error(Status.INVALID_ARGUMENT, "nothing was asked")


def _files(find: Callable[[], Any]) -> ServerReflectionResponse:
    """The file, with those that it depends on."""
    from grpc_reflection.v1alpha.reflection_pb2 import FileDescriptorResponse, ServerReflectionResponse

    try:
        left = [find()]
    except KeyError:
        return _error(Status.NOT_FOUND, "not found")
    found: dict[str, bytes] = {}
    while left:
        file = left.pop()
        if file.name not in found:
            found[file.name] = file.serialized_pb
            left += file.dependencies
    return ServerReflectionResponse(
        file_descriptor_response=FileDescriptorResponse(file_descriptor_proto=list(found.values()))
    )


def _error(status: Status, words: str) -> ServerReflectionResponse:
    from grpc_reflection.v1alpha.reflection_pb2 import ErrorResponse, ServerReflectionResponse

    return ServerReflectionResponse(error_response=ErrorResponse(error_code=status, error_message=words))
