"""Addresses in Envoy's terms."""

from __future__ import annotations

import ipaddress

from envoy_data_plane.envoy.config.core import v3 as core

from extproc.config import Address


def tcp(address: Address) -> core.Address:
    return core.Address(socket_address=core.SocketAddress(address=address.host, port_value=address.port))


def listening(address: Address) -> core.Address:
    """Where something listens: on `[::]`, for clients of either family."""
    made = tcp(address)
    if address.is_dual_stack:
        assert made.socket_address is not None  # it was made of one
        made.socket_address.ipv4_compat = True
    return made


def unix(path: str) -> core.Address:
    """A unix socket. The system allows paths of about 100 bytes; Envoy refuses longer ones when it starts."""
    return core.Address(pipe=core.Pipe(path=path))


def listening_socket(path: str) -> core.Address:
    """One that Envoy makes, for nobody but its own user and group."""
    return core.Address(pipe=core.Pipe(path=path, mode=0o660))


def tcp_or_unix(text: str) -> core.Address:
    """`text` is a path beginning with a slash, or host:port. Raises ValueError with a sentence for the user."""
    return unix(text) if text.startswith("/") else tcp(Address.parse(text))


def is_name(address: core.Address) -> bool:
    """Whether the address has to be looked up in the DNS."""
    return address.socket_address is not None and not is_ip(address.socket_address.address)


def is_ip(host: str) -> bool:
    """Whether the host is an address of its own, and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
