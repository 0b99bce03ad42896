"""Addresses as the configuration writes them."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple, Self


class AddressError(ValueError):
    """What should be an address is none: what was expected, and what is there."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"{expected}, got {got!r}")
        self.expected = expected


class Address(NamedTuple):
    """A TCP endpoint; `host` is a name or an IP address without brackets."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, such_as: str = "127.0.0.1:8000") -> Self:
        """Read `host:port` or `[ipv6]:port`. Raises AddressError, with an example."""
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise AddressError(f"expected host:port such as {such_as}", text)
        if "/" in host:
            raise AddressError("expected host:port without a scheme or path", text)
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise AddressError("an IPv6 address needs brackets, as in [::1]:8000", text)
        return cls(host, int(port))

    @property
    def is_dual_stack(self) -> bool:
        """Whether what listens there is meant to be found at all addresses of both families, as by `[::]`."""
        return ":" in self.host and not self.host.strip("0:")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def check_address(text: str) -> str:
    Address.parse(text)
    return text


def check_listen(text: str) -> str:
    host = Address.parse(text, "127.0.0.1:10000").host
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise AddressError("expected an IP address to listen on, such as 127.0.0.1 or 0.0.0.0", host) from None
    return text


def reachable(address: Address) -> Address:
    """Where clients on this machine find what listens on `address`."""
    try:
        if not ipaddress.ip_address(address.host).is_unspecified:
            return address
    except ValueError:  # a name
        return address
    return Address("::1" if ":" in address.host else "127.0.0.1", address.port)
