"""Our subset of Envoy's messages is Envoy's on the wire.

The independent side is `envoy-data-plane`: classes generated from Envoy's own protos by another compiler.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import betterproto2
import pytest
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.data.accesslog import v3 as accesslog
from envoy_data_plane.envoy.extensions.filters.http.ext_proc import v3 as filter_config
from envoy_data_plane.envoy.service.ext_proc import v3 as service
from envoy_data_plane.envoy.type import v3 as envoy_type
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extproc import wire
from extproc.wire import access_log_pb2, core_pb2, ext_proc_pb2, http_status_pb2, processing_mode_pb2
from tests.generate_protos import ROOT, generate

# Some fields are deprecated and still part of the wire format; envoy-data-plane warns of them.
pytestmark = pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning")

OURS = (ext_proc_pb2, core_pb2, http_status_pb2, processing_mode_pb2)
THEIRS = {
    "envoy.service.ext_proc.v3": service,
    "envoy.config.core.v3": core,
    "envoy.type.v3": envoy_type,
    "envoy.extensions.filters.http.ext_proc.v3": filter_config,
}

MESSAGES = [message for module in OURS for message in module.DESCRIPTOR.message_types_by_name.values()]
ENUMS = [enum for module in OURS for enum in module.DESCRIPTOR.enum_types_by_name.values()] + [
    enum for message in MESSAGES for enum in message.enum_types
]


def their_class(descriptor: Descriptor | EnumDescriptor) -> Any:
    """Theirs has no nested classes: ProcessingMode.BodySendMode is ProcessingModeBodySendMode."""
    package = descriptor.file.package
    return getattr(THEIRS[package], descriptor.full_name.removeprefix(package).replace(".", ""))


def name_of(descriptor: Descriptor | EnumDescriptor) -> str:
    return str(descriptor.full_name).removeprefix(descriptor.file.package + ".")


quickly = settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
each_message = pytest.mark.parametrize("descriptor", MESSAGES, ids=name_of)
each_enum = pytest.mark.parametrize("descriptor", ENUMS, ids=name_of)


# ---- the generated code


def test_generated_code_is_what_the_protos_say(tmp_path: Path) -> None:
    fresh = {path.name: path.read_text() for path in generate(tmp_path)}
    committed = {path.name: path.read_text() for path in (ROOT / "extproc" / "wire").glob("*_pb2.py*")}
    assert committed == fresh, "run `make protos`"


def test_every_message_has_its_plain_name_in_the_package() -> None:
    exported = {name for name in wire.__all__ if name not in {"SERVICE", "StatusCode"}}
    assert exported == {message.name for message in MESSAGES}
    for message in MESSAGES:
        assert getattr(wire, message.name).DESCRIPTOR is message


def test_the_service_is_envoys() -> None:
    ours = ext_proc_pb2.DESCRIPTOR.services_by_name["ExternalProcessor"]
    process = ours.methods_by_name["Process"]
    assert ours.full_name == wire.SERVICE
    assert (process.client_streaming, process.server_streaming) == (True, True)
    assert [process.input_type.name, process.output_type.name] == ["ProcessingRequest", "ProcessingResponse"]
    assert list(service.ExternalProcessorBase().__mapping__()) == [f"/{wire.SERVICE}/Process"]


# ---- names, numbers, types


def shape_of_ours(field: FieldDescriptor) -> tuple[int, str, bool]:
    names = {
        getattr(FieldDescriptor, name): name.removeprefix("TYPE_").lower()
        for name in dir(FieldDescriptor)
        if name.startswith("TYPE_")
    }
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return field.number, "map", False
    return field.number, names[field.type], field.is_repeated


def their_fields(cls: type[betterproto2.Message]) -> dict[str, Any]:
    return {field.name: field.metadata["betterproto"] for field in dataclasses.fields(cast("Any", cls))}


@each_message
def test_fields_have_envoys_names_numbers_and_types(descriptor: Descriptor) -> None:
    ours = {field.name: shape_of_ours(field) for field in descriptor.fields}
    theirs = {
        name: (meta.number, meta.proto_type, meta.repeated)
        for name, meta in their_fields(their_class(descriptor)).items()
    }
    assert ours == theirs


@each_message
def test_oneofs_are_envoys(descriptor: Descriptor) -> None:
    ours = {field.name: field.containing_oneof and field.containing_oneof.name for field in descriptor.fields}
    theirs = {name: meta.group for name, meta in their_fields(their_class(descriptor)).items()}
    assert ours == theirs


@each_enum
def test_enums_have_envoys_names_and_numbers(descriptor: EnumDescriptor) -> None:
    assert dict(descriptor.values_by_name.items()).keys() == {value.name for value in their_class(descriptor)}
    for value in their_class(descriptor):
        assert descriptor.values_by_name[value.name].number == value.value


def test_no_message_that_an_exchange_can_carry_is_missing() -> None:
    seen: set[type] = set()

    def visit(cls: type[betterproto2.Message]) -> None:
        if cls in seen or cls.__module__.startswith("envoy_data_plane.google"):
            return
        seen.add(cls)
        for types in betterproto2_message_types(cls):
            visit(types)

    visit(service.ProcessingRequest)
    visit(service.ProcessingResponse)
    assert seen == {their_class(message) for message in MESSAGES}


# ---- the access log, of whose messages we have a part


@pytest.mark.parametrize(
    "descriptor", [*access_log_pb2.DESCRIPTOR.message_types_by_name.values()], ids=lambda descriptor: descriptor.name
)
def test_what_we_read_of_the_access_log_has_envoys_names_numbers_and_types(descriptor: Descriptor) -> None:
    their_name = descriptor.name.replace("HTTP", "Http")
    theirs = {
        name: (meta.number, meta.proto_type, meta.repeated)
        for name, meta in their_fields(getattr(accesslog, their_name)).items()
    }
    for field in descriptor.fields:
        assert shape_of_ours(field) == theirs[field.name], field.full_name


def betterproto2_message_types(cls: type[betterproto2.Message]) -> Iterator[type[betterproto2.Message]]:
    for name in their_fields(cls):
        hint = cls._type_hint(name)
        for candidate in (hint, *getattr(hint, "__args__", ())):
            if isinstance(candidate, type) and issubclass(candidate, betterproto2.Message):
                yield candidate


# ---- the same bytes


def structs() -> st.SearchStrategy[Struct]:
    scalars = st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5)
    values = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    )
    return st.dictionaries(st.text(max_size=5), values, max_size=2).map(struct)


def struct(values: dict[str, Any]) -> Struct:
    message = Struct()
    message.update(values)
    return message


# Values of google.protobuf's own types, as the constructors of our messages take them.
WELL_KNOWN: dict[str, st.SearchStrategy[Any]] = {
    "google.protobuf.Struct": structs(),
    "google.protobuf.Any": st.builds(dict, type_url=st.just("type.googleapis.com/x"), value=st.binary(max_size=5)),
    # Their side computes with floats, and wrongly below zero; Envoy's durations are short.
    "google.protobuf.Duration": st.timedeltas(min_value=timedelta(), max_value=timedelta(days=1)),
    "google.protobuf.BoolValue": st.builds(dict, value=st.booleans()),
}


def values(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        name = field.message_type.full_name
        return WELL_KNOWN[name] if name in WELL_KNOWN else messages(field.message_type)
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return st.text(max_size=5)
        case FieldDescriptor.TYPE_BYTES:
            return st.binary(max_size=5)
        case FieldDescriptor.TYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.TYPE_UINT32:
            return st.integers(0, 2**32 - 1)
    raise NotImplementedError(f"no values for {field.full_name}")


def fields(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return st.dictionaries(values(key), values(value), max_size=2)
    return st.lists(values(field), max_size=3) if field.is_repeated else values(field)


@st.composite
def messages(draw: st.DrawFn, descriptor: Descriptor) -> Message:
    """Messages of ours with any of their fields, and of each oneof at most one."""
    chosen = draw(st.sets(st.sampled_from(list(descriptor.fields))))
    single = {field.containing_oneof.name if field.containing_oneof else field.name: field for field in chosen}
    return GetMessageClass(descriptor)(**{field.name: draw(fields(field)) for field in single.values()})


UNKNOWN = b"\xc2\x3e\x03new" + b"\xc8\x3e\x07"
"""Fields 1000 (a string) and 1001 (a number), which neither side knows."""


def assert_survives(ours: Message) -> None:
    """There and back through the other side's classes, and the same from there."""
    their = their_class(cast("Descriptor", ours.DESCRIPTOR))
    theirs = their.parse(ours.SerializeToString())
    back = type(ours).FromString(bytes(theirs))
    assert back == ours
    assert their.parse(back.SerializeToString()) == theirs


@pytest.mark.parametrize(
    "field", [field for message in MESSAGES for field in message.fields], ids=lambda field: str(field.full_name)
)
@quickly
@given(data=st.data())
def test_every_field_survives_the_other_side(field: FieldDescriptor, data: st.DataObject) -> None:
    message = GetMessageClass(cast("Descriptor", field.containing_type))
    assert_survives(message(**{field.name: data.draw(fields(field))}))


@each_message
@quickly
@given(data=st.data())
def test_messages_survive_the_other_side(descriptor: Descriptor, data: st.DataObject) -> None:
    assert_survives(data.draw(messages(descriptor)))


@pytest.mark.long
@each_message
@quickly
@given(data=st.data())
def test_unknown_fields_are_passed_on(descriptor: Descriptor, data: st.DataObject) -> None:
    known = data.draw(messages(descriptor))
    ours = type(known).FromString(known.SerializeToString() + UNKNOWN)
    assert ours.SerializeToString().endswith(UNKNOWN)
    assert bytes(their_class(descriptor).parse(ours.SerializeToString())).endswith(UNKNOWN)
    assert_survives(ours)
