"""Asks for a demanded call once more, by Envoy's inner listener.

Which replica gets it, whether there is room for it, with which key and by TLS or not: all that is Envoy's to decide, as
for any other request.
"""

from __future__ import annotations

import asyncio
import logging

from extproc.backends.fetch import Answer, fetch
from extproc.exchange.effects import BackendResponse, CallBackend
from extproc.names import CHAT_PATH

log = logging.getLogger(__name__)


async def call_again(effect: CallBackend) -> BackendResponse | None:
    """Perform the effect. What comes to nothing is logged."""
    about = {"exchange": effect.request_id}
    try:
        async with asyncio.timeout(effect.timeout):
            status, body = await _ask(effect)
    except TimeoutError:
        log.warning("the retry failed: there was no answer within %g seconds", effect.timeout, extra=about)
    except (OSError, ValueError) as error:
        log.warning("the retry by %s failed: %s", effect.socket, error, extra=about)
    else:
        if status != 200:
            log.warning("the retry failed: its answer is a %d", status, extra=about)
        return BackendResponse(status, body)
    return None


async def _ask(effect: CallBackend) -> Answer:
    streams = await asyncio.open_unix_connection(effect.socket)
    return await fetch(streams, "POST", CHAT_PATH, host="inner", headers=effect.headers, body=effect.body)
