"""Frames of all kinds, right and wrong ones, in any order, some of them damaged: what must hold for any bytes.

A script is drawn from a seed: what the peer sends, and what the server does in between. It is played whole and in other
cuts. `python -m tests.http2.fuzz --damaged SEED` plays one again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TypeAlias

from extproc.http2 import Connection, DataCame, ErrorCode, Event, RequestBegun, StreamReset, TrailersCame
from tests.http2.exchanges import WrongError
from tests.http2.peer import ANSWERED, ENDED, OPENING, TIGHT, Act, room
from tests.http2.wire import (
    ACK,
    DATA,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PREFACE,
    REQUEST,
    SETTINGS,
    Frame,
    block,
    continuation,
    data,
    frame,
    frames_in,
    goaway,
    headers,
    padded,
    ping,
    priority,
    rst_stream,
    settings,
    trailers,
    window_update,
)

Script: TypeAlias = Sequence[bytes | Act]
_SIZES = (0, 1, 5, 100, 16_384, 40_000)
_NUMBERS = (0, 1, 2, 100, 16_384, 65_535, 2**24, 2**31 - 1, 2**32 - 1)


class Draw:
    """A script's pieces. Streams are mostly such as are open, or come next."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.last = -1

    def stream(self) -> int:
        choice, last = self.chance.choice, max(self.last, 1)
        if self.chance.random() < 0.01:
            return choice((last + 2, 0, 2))
        return choice((last, last, last, max(1, last - 2), self.chance.randrange(1, last + 1, 2)))

    def request(self) -> bytes:
        self.last += 2 if self.chance.random() < 0.97 else self.chance.choice((4, 0))
        more = self.chance.choice(((), (), (), (("content-length", "5"),), (("X", "1"),), (("x", "y" * 300),)))
        flags = 0 if self.chance.random() < 0.01 else self.chance.choice((4, 4, 5))
        return headers(max(self.last, 1), *more, flags=flags)

    def data(self) -> bytes:
        size, flags = self.chance.choice(_SIZES), self.chance.choice((0, 0, 0, END_STREAM))
        if self.chance.random() < 0.2:
            return padded(DATA, flags, self.stream(), bytes(size), self.chance.randrange(256))
        return data(self.stream(), self.chance.randbytes(size), flags)

    def settings(self) -> bytes:
        number = self.chance.choice
        if self.chance.random() < 0.1:
            return settings(*[(number(range(8)), number(_NUMBERS)) for _ in range(number((0, 1, 1, 2)))])
        return settings((4, number((0, 1, 100, 16_384, 65_535))), (5, number((16_384, 20_000))))

    def frame(self) -> bytes:
        kind, size = self.chance.randrange(12), self.chance.choice((0, 4, 5, 6, 8, 20))
        return frame(kind, self.chance.choice((0, ACK, 4, PADDED, 0xFF)), self.stream(), self.chance.randbytes(size))

    def piece(self) -> bytes:
        chance = self.chance
        usual: tuple[Callable[[], bytes], ...] = (
            self.request,
            self.request,
            self.request,
            self.data,
            self.data,
            self.data,
            self.settings,
            lambda: trailers(self.stream()),
            lambda: window_update(self.stream(), chance.choice((1, 100, 16_384))),
            lambda: window_update(0, chance.choice((1, 1000, 100_000))),
            lambda: rst_stream(self.stream()),
            lambda: priority(self.stream(), 0),
            lambda: ping(flags=chance.choice((0, ACK))),
        )
        odd: tuple[Callable[[], bytes], ...] = (
            self.frame,
            lambda: continuation(self.stream(), block(REQUEST)[: chance.choice((0, 5, 100))], chance.choice((0, 4))),
            lambda: window_update(self.stream(), chance.choice(_NUMBERS)),
            lambda: priority(self.stream(), chance.choice((0, 1, 3))),
            lambda: frame(SETTINGS, ACK),
            goaway,
            lambda: frame(HEADERS, 5, max(1, self.last + 2), chance.randbytes(chance.choice((1, 10, 100)))),
        )
        piece = chance.choice(usual if chance.random() < 0.97 else odd)()
        return self.damaged(piece) if chance.random() < 0.003 else piece

    def damaged(self, piece: bytes) -> bytes:
        at = self.chance.randrange(len(piece))
        match self.chance.randrange(4):
            case 0:
                return piece[:at] + bytes((self.chance.randrange(256),)) + piece[at + 1 :]
            case 1:
                return piece[:at]
            case 2:
                return piece[:at] + self.chance.randbytes(3) + piece[at:]
            case _:
                return piece * 2

    def act(self) -> Act:
        stream = max(1, self.stream())
        size = self.chance.choice(_SIZES)
        return self.chance.choice(
            (
                lambda connection: connection.respond(stream, ANSWERED),
                lambda connection: connection.send(stream, bytes(size)),
                lambda connection: connection.send(stream, bytes(size)),
                lambda connection: connection.end(stream, ENDED),
                lambda connection: connection.reset(stream, ErrorCode.CANCEL),
                lambda connection: connection.expect(stream, size),
                Connection.output,
                Connection.output,
                Connection.shut_down,
            )
        )


def drawn(seed: int) -> Script:
    chance = random.Random(seed)
    draw = Draw(chance)
    opening = OPENING if chance.random() < 0.95 else draw.damaged(PREFACE + settings((1, 2)))
    script: list[bytes | Act] = [opening, draw.request()]
    for _ in range(chance.randint(1, 60)):
        script.append(b"".join(draw.piece() for _ in range(chance.choice((1, 1, 2, 5)))))
        if chance.random() < 0.5:
            script.append(draw.act())
    return script


def played(script: Script, cut: Callable[[bytes], list[bytes]]) -> tuple[list[Event], list[Frame], Connection]:
    """What is told and what is said. Bytes are consumed as soon as they are told."""
    connection = Connection(TIGHT)
    told: list[Event] = []
    said: list[bytes] = []
    for step in script:
        if isinstance(step, bytes):
            for piece in cut(step):
                closed = connection.closed
                events = connection.receive(piece, 0.0)
                if closed and events:
                    raise WrongError("something is told after the end")
                told += events
            for event in told[-1:]:
                if isinstance(event, DataCame):
                    connection.consumed(event.stream_id, len(event.data))
        else:
            came = step(connection)
            if isinstance(came, bytes):
                said.append(came)
    while came := connection.output():
        said.append(came)
    return told, frames_in(b"".join(said)), connection


def check(script: Script, told: list[Event], said: list[Frame], connection: Connection) -> None:
    check_order(told)
    goodbyes = [frame for frame in said if frame.kind == GOAWAY and frame.code]
    if [frame.code for frame in goodbyes] != ([] if connection.fault is None else [connection.fault.code]):
        raise WrongError(f"{connection.fault!r} isn't what the peer was told: {goodbyes}")
    if connection.closed != (connection.fault is not None):
        raise WrongError("it is closed without a fault, or the other way round")
    if goodbyes and said[-1] != goodbyes[-1]:
        raise WrongError("something is said behind the end")
    sent = sum(len(step) for step in script if isinstance(step, bytes))
    spoken = sum(1 for step in script if not isinstance(step, bytes))
    if sum(9 + len(frame.payload) for frame in said if frame.kind != DATA) > 2 * sent + 200 * (spoken + 2):
        raise WrongError("much is said of little")
    if not connection.closed:
        check_windows(script, said)


def check_order(told: list[Event]) -> None:
    """Streams begin in their order, and say nothing behind their end."""
    last, goes_on = 0, dict[int, bool]()
    for event in told:
        stream = event.stream_id
        if isinstance(event, RequestBegun):
            if stream <= last:
                raise WrongError(f"stream {stream} begins behind {last}")
            last = stream
            goes_on[stream] = not event.ended
        elif isinstance(event, StreamReset):
            if goes_on.pop(stream, None) is None:
                raise WrongError(f"stream {stream} ends without having begun, or twice")
        elif not goes_on.get(stream):
            raise WrongError(f"stream {stream} goes on behind its end")
        else:
            goes_on[stream] = not (isinstance(event, TrailersCame) or event.ended)


def check_windows(script: Script, said: list[Frame]) -> None:
    """Of the connection's window nothing is lost, whatever became of the data."""
    whole = b"".join(step for step in script if isinstance(step, bytes))
    at, used = len(PREFACE), 0
    while at + 9 <= len(whole):
        size = int.from_bytes(whole[at : at + 3], "big")
        if whole[at + 3] == DATA and at + 9 + size <= len(whole):
            used += size
        at += 9 + size
    given = room(said, 0) - (TIGHT.connection_window - 65_535)
    if not 0 <= used - given <= TIGHT.connection_window // 4:
        raise WrongError(f"{used} bytes came, and {given} were given back")


def by(size: int, data: bytes) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def play(seed: int) -> Counter[str]:
    """How it ended. Raises WrongError, or what the connection raises, with the seed."""
    try:
        script = drawn(seed)
        told, said, connection = played(script, lambda data: [data])
        check(script, told, said, connection)
        chance = random.Random(seed)
        for size in (chance.choice((1, 2, 3, 7)), chance.choice((9, 10, 100, 5000))):
            if size < 9 and sum(len(step) for step in script if isinstance(step, bytes)) > 20_000:
                continue
            other = played(script, partial(by, size))
            if (told, said) != other[:2]:
                raise WrongError(f"in pieces of {size} something else comes of it")
    except Exception as error:
        error.add_note(f"seed {seed}: python -m tests.http2.fuzz --damaged {seed}")
        raise
    return Counter([connection.fault.code.name if connection.fault else "goes on"])


def many(seeds: range) -> Counter[str]:
    return Counter(chain.from_iterable(play(seed).elements() for seed in seeds))
