"""How Envoy's configuration carries the settings of extensions: by name, packed into an Any."""

from __future__ import annotations

from betterproto2 import Message
from envoy_data_plane.envoy.config.core.v3 import TypedExtensionConfig
from envoy_data_plane.google.protobuf import Any
from envoy_data_plane.message_pool import default_message_pool


def packed(settings: Message) -> Any:
    return Any.pack(settings)


def type_url(message: Message) -> str:
    """What an Any says that is in it, without packing."""
    return default_message_pool.type_to_url[type(message)]


def extension(name: str, settings: Message) -> TypedExtensionConfig:
    return TypedExtensionConfig(name=name, typed_config=packed(settings))
