"""Addresses as the configuration writes them."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple, Self


class Address(NamedTuple):
    """A TCP endpoint; `host` is a name or an IP address without brackets."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `host:port` or `[ipv6]:port`. Raises ValueError with a sentence for the user."""
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"expected host:port such as 127.0.0.1:8000, got {text!r}")
        if "/" in host:
            raise ValueError(f"expected host:port without a scheme or path, got {text!r}")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError(f"an IPv6 address needs brackets, as in [::1]:8000, got {text!r}")
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
    host = Address.parse(text).host
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise ValueError(f"expected an IP address to listen on, such as 127.0.0.1 or 0.0.0.0, got {host!r}") from None
    return text
