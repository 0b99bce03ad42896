"""What the arguments of a command line may be: each function reads one, or says in a sentence what it should be."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from extproc.config import Address
from extproc.config.settings import MOST_WORKERS

if TYPE_CHECKING:
    from extproc.probe import Origin

_LARGEST_NUMBER = 10_000


def address(text: str) -> str:
    try:
        return str(Address.parse(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def socket_or_address(text: str) -> str:
    if text.startswith(("unix:/", "/")):
        return f"unix:{text.removeprefix('unix:')}"
    try:
        return str(Address.parse(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; or a socket such as unix:/run/extproc.sock") from error


def backend(text: str) -> Address:
    url = urlsplit(text if "//" in text else f"//{text}")
    try:
        port = url.port
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"invalid port in {text!r}") from error
    if url.scheme == "https":
        raise argparse.ArgumentTypeError("only http:// works here; for TLS, name the backend in a configuration file")
    if url.scheme not in ("", "http") or not url.hostname or url.path.rstrip("/") not in ("", "/v1"):
        raise argparse.ArgumentTypeError(f"expected a URL such as http://127.0.0.1:8000, got {text!r}")
    return Address(url.hostname, port or 80)


def base_url(text: str) -> str:
    """Where an OpenAI-compatible API is; `/v1` is added to a host alone."""
    url = urlsplit(text if "//" in text else f"http://{text}")
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        raise argparse.ArgumentTypeError(f"expected a URL such as http://127.0.0.1:10000/v1, got {text!r}")
    return f"{url.scheme}://{url.netloc}{url.path.rstrip('/') or '/v1'}"


def seconds(text: str) -> float:
    try:
        length = float(text)
    except ValueError:
        length = -1
    if not 0 <= length < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got {text!r}")
    return length


def interval(text: str) -> float:
    length = seconds(text)
    if length == 0:
        raise argparse.ArgumentTypeError("expected more than 0 seconds")
    return length


def number(text: str) -> int:
    return between(1, _LARGEST_NUMBER)(text)


def between(least: int, most: int) -> Callable[[str], int]:
    """A reader of numbers within these bounds."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"expected a number from {least} to {most}, got {text!r}")
        return int(text)

    return read


def quarters(text: str) -> int:
    count = between(4, 80)(text)
    if count % 4:
        raise argparse.ArgumentTypeError(f"expected a number that four kinds can share, got {text!r}")
    return count


def workers(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {MOST_WORKERS}, or auto, got {text!r}")
    return int(text)


def origin(text: str) -> Origin:
    from extproc.probe import Origin

    try:
        return Origin.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
