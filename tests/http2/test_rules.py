"""Every rule of RFC 9113 and RFC 7541 that concerns a server (`rules.py`), whole and byte by byte."""

from __future__ import annotations

import pytest

from extproc.http2 import Event
from tests.http2.peer import Peer, resets
from tests.http2.rules import CASES, Case, StreamError
from tests.http2.wire import Frame


def played(case: Case, size: int | None) -> tuple[Peer, list[Event], list[Frame]]:
    """In pieces of so many bytes, or each step in one."""
    peer = Peer(opening=b"")
    heard = []
    for step in (case.opening, *case.steps):
        if isinstance(step, bytes):
            for at in range(0, len(step), size or max(1, len(step))):
                peer.say(step[at : at + size] if size else step)
        else:
            step(peer.connection)
        heard += peer.heard()
    return peer, peer.told, heard


@pytest.mark.parametrize("case", CASES, ids=[f"{case.section}: {case.says}" for case in CASES])
def test_what_a_server_makes_of_it(case: Case) -> None:
    peer, told, heard = played(case, None)
    if case.told is not None:
        assert tuple(type(event) for event in told) == case.told
    if isinstance(case.error, StreamError):
        assert resets(heard) == [(case.error.stream, case.error.code)]
        assert peer.is_served()
    elif case.error is None:
        assert resets(heard) == []
        assert peer.is_served()
    else:
        assert peer.connection.fault is not None
        assert (peer.connection.fault.code, heard[-1].code) == (case.error, case.error)
        assert peer.connection.closed
        assert not peer.is_served()
    if sum(len(step) for step in case.steps if isinstance(step, bytes)) < 1000:
        assert played(case, 1)[1:] == (told, heard)
