"""Where a request may send a backend for images, audio and video.

vLLM fetches any URL that a content part names, from where it stands: behind the firewall, beside the cloud's metadata
service and its own unprotected API. So a URL has to be one that any reader takes the same way, and to lead to a public
place as far as it can be told without asking DNS. It can't be told where a public name leads to a private address, or a
server redirects to one: vLLM's own `--allowed-media-domains` and `VLLM_MEDIA_URL_ALLOW_REDIRECTS=0` are for that.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Literal, TypeAlias

MediaUrls: TypeAlias = Literal["none", "public", "any"]
"""`none`: only what is in the request itself (`data:`). `any`: whatever the backend takes, files too."""

_HTTP = re.compile(
    r"https?://(?P<host>\[[0-9a-f:.]{2,45}\]|[a-z0-9.-]{1,253})(?::[0-9]{1,5})?(?:[/?#][!-\[\]-~]*)?", re.I
)
"""No user, no escapes in the host, no backslash, no white space, nothing but ASCII: readers differ about those."""

_PRIVATE_ENDINGS = frozenset(
    """
    local localhost localdomain internal intranet private corp home lan svc test invalid onion alt arpa consul
    """.split()
)
"""The last parts of names that are nobody's in the public DNS: RFC 6761, 6762, 8375, 9476, what ICANN has reserved, and
what networks, Kubernetes and Consul use by custom."""

_SHOWN = "https://example.org/picture.png, or data: with the content itself"


def url_fault(url: str, allowed: MediaUrls) -> str | None:
    """What is wrong with a URL, in words for an error message; nothing of the URL is in them."""
    if allowed == "any" or url[:5].lower() == "data:":
        return None
    if allowed == "none":
        return "no URL is fetched here; send the content itself, as data:."
    match = _HTTP.fullmatch(url)
    if match is None:
        return f"expected a plain URL such as {_SHOWN}."
    if not _is_public(match["host"].lower().removesuffix(".")):
        return f"it has to lead to a public host, by its name or its address; send a URL such as {_SHOWN}."
    return None


def _is_public(host: str) -> bool:
    if host.startswith("["):
        return _is_public_v6(host[1:-1])
    ending = host.rpartition(".")[2]
    if ending[:1].isdigit():  # no name ends in a number: readers take it for an address, 0x7f.1 and 2130706433 as well
        try:
            return _is_global(ipaddress.IPv4Address(host))
        except ValueError:
            return False
    return "." in host and ending not in _PRIVATE_ENDINGS


_CARRIES_V4 = ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48")


def _is_public_v6(text: str) -> bool:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return False
    carries_v4 = address.ipv4_mapped or address.sixtofour or address.teredo
    return not carries_v4 and not any(address in net for net in _CARRIES_V4) and _is_global(address)


def _is_global(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.is_global and not address.is_multicast and not address.is_reserved
