"""What no Envoy can be made to do: the settings and messages that only the simulated host can play."""

from __future__ import annotations

import re

from extproc.conformance.host.settings import BodyMode, HostSettings, HttpExchange, HttpMessage, Values

_STATUS = re.compile(rb"[2-5][0-9]{2}")
_PIECEWISE = (BodyMode.NONE, BodyMode.STREAMED, BodyMode.FULL_DUPLEX_STREAMED)


def obstacle(settings: HostSettings, exchange: HttpExchange) -> str | None:
    """Why Envoys since 1.36 can't play this, if they can't."""
    for found in (_of_settings(settings), _of_request(exchange.request), _of_response(exchange.response)):
        if found is not None:
            return found
    return None


def _of_settings(settings: HostSettings) -> str | None:
    if not settings.protocol_config:
        return "Envoy sends protocol_config since 1.34"
    if settings.told_modes is not None:
        return "Envoy's protocol_config says what is configured"
    if settings.values is not Values.RAW:
        return "Envoy puts values into raw_value since 1.30"
    if settings.empty_end:
        return "Envoy sends a buffered body as one message with end_of_stream"
    if settings.double_end:
        return "Envoy can't be made to end a body twice"
    if settings.end_before_trailers:
        return "Envoy ends a body that has trailers with them"
    if settings.early_response and settings.request_body not in _PIECEWISE:
        return "a buffered request reaches its upstream when it has ended"
    return None


def _of_request(request: HttpMessage) -> str | None:
    if any(request.first(name) is None for name in (":method", ":path", ":authority")):
        return "a request without :method, :path or :authority is none for Envoy"
    return _of_message(request)


def _of_response(response: HttpMessage) -> str | None:
    if not _STATUS.fullmatch(response.first(":status") or b""):
        return "Envoy refuses a response without a right :status"
    return _of_message(response)


def _of_message(message: HttpMessage) -> str | None:
    lengths = message.all("content-length")
    if lengths and lengths != [str(len(message.body)).encode()]:
        return "Envoy refuses a message with a wrong content-length"
    if any(name != name.lower() for name, _ in message.headers):
        return "Envoy shows names in lower case, however they come"
    if b"" in message.pieces[:-1]:
        return "no HTTP makes Envoy show an empty piece before the end"
    return None
