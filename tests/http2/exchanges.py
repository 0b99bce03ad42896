"""An honest client and the server, in a world of chance: whatever they say, whenever, all of it arrives.

The client is PyPI's `h2`, which knows HTTP/2 by itself and takes nothing wrong. A seed decides what both sides say, how
large their windows and frames are, when who reads, sends, consumes, resets or changes its settings, and how their bytes
are cut. `python -m tests.http2.fuzz --exchange SEED` plays one again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain

import h2.events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes, Settings

from extproc.http2 import (
    Connection,
    DataCame,
    ErrorCode,
    Event,
    Limits,
    RequestBegun,
    StreamReset,
    TrailersCame,
    written,
)
from tests.http2.wire import REQUEST

_STREAMS = 12
_MOST_STEPS = 60_000
_TRAILERS = ((b"grpc-status", b"0"), (b"x-end", b"yes"))
_ROOM = 65_535


class WrongError(AssertionError):
    """Something was lost, changed, or never comes."""


@dataclass(slots=True)
class Exchange:
    """One stream: what each side has to say, how far it is, and what the other has heard."""

    request: bytes
    answer: bytes
    trailers: bool
    """The request ends with some."""
    early: bool
    """The server may end before the request does."""
    client_resets: bool
    server_resets: bool
    asked: int = 0
    asked_all: bool = False
    heard_request: bytearray = field(default_factory=bytearray)
    request_ended: bool = False
    unconsumed: int = 0
    responded: bool = False
    answered: int = 0
    answered_all: bool = False
    heard_answer: bytearray = field(default_factory=bytearray)
    heard_trailers: object = None
    unacknowledged: int = 0
    client_over: bool = False
    """For the client; so is `server_over`."""
    server_over: bool = False
    was_reset: bool = False


class World:
    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.limits = Limits(
            concurrent_streams=chance.choice((2, 5, 100)),
            stream_window=chance.choice((_ROOM, 65_536, 200_000)),
            connection_window=chance.choice((_ROOM, 100_000, 10**6)),
            frame_size=chance.choice((16_384, 65_536)),
            fruitless=10**6,
        )
        self.server = Connection(self.limits)
        small = chance.random() < 0.5
        self.sizes = (0, 1, 2, 10, 300) if small else (0, 1, 1000, 16_384, 50_000, 150_000)
        """Of bodies,"""
        self.windows = (0, 1, 10, 1000) if small else (0, 5000, _ROOM, 200_000)
        """of windows,"""
        self.cuts = (1, 9, 50, 1000) if small else (100, 5000, 20_000, 10**6)
        """and of what is sent and arrives at a time."""
        self.client = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.client.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.INITIAL_WINDOW_SIZE: chance.choice(self.windows),
                SettingCodes.MAX_FRAME_SIZE: chance.choice((16_384, 20_000, 100_000)),
                SettingCodes.HEADER_TABLE_SIZE: chance.choice((0, 100, 4096, 10_000)),
                SettingCodes.ENABLE_PUSH: 0,
            },
        )
        self.client.max_inbound_frame_size = self.client.local_settings.max_frame_size
        self.client.decoder.max_allowed_table_size = self.client.local_settings.header_table_size
        self.client.initiate_connection()
        if chance.random() < 0.5:
            self.client.increment_flow_control_window(chance.choice((1, 100_000, 10**7)))
        self.to_server, self.to_client = bytearray(), bytearray()
        self.exchanges: dict[int, Exchange] = {}
        self.left = chance.randint(1, _STREAMS)
        self.resets = chance.random() < 0.5
        self.settings_left = chance.randint(0, 5)
        self.pings_left = chance.randint(0, 3)
        self.helps_left = _STREAMS
        self.acknowledged = False
        self.counts: Counter[str] = Counter()

    def run(self) -> Counter[str]:
        acts: tuple[Callable[[], bool], ...] = (
            self.client_opens,
            self.client_sends,
            self.client_sends,
            self.client_acknowledges,
            self.client_resets,
            self.client_changes_settings,
            self.client_pings,
            self.bytes_to_server,
            self.bytes_to_server,
            self.bytes_to_client,
            self.bytes_to_client,
            self.server_speaks,
            self.server_speaks,
            self.server_consumes,
            self.server_output,
        )
        for _ in range(_MOST_STEPS):
            if self.chance.choice(acts)() or any(act() for act in self.chance.sample(acts, len(acts))):
                continue
            if not self.unstuck():
                self.check_all()
                return self.counts
        raise WrongError("it has no end")

    def pick(self, allowed: Callable[[int, Exchange], bool]) -> tuple[int, Exchange] | None:
        found = [item for item in self.exchanges.items() if allowed(*item)]
        return self.chance.choice(found) if found else None

    # The client

    def client_opens(self) -> bool:
        most = min(self.client.remote_settings.max_concurrent_streams, self.limits.concurrent_streams)
        if not self.left or self.client.open_outbound_streams >= most:
            return False
        self.left -= 1
        chance = self.chance
        stream = self.client.get_next_available_stream_id()
        self.exchanges[stream] = Exchange(
            chance.randbytes(chance.choice(self.sizes)),
            chance.randbytes(chance.choice(self.sizes)),
            trailers=chance.random() < 0.2,
            early=chance.random() < 0.3,
            client_resets=self.resets and chance.random() < 0.2,
            server_resets=self.resets and chance.random() < 0.2,
        )
        self.client.send_headers(stream, list(REQUEST))
        return True

    def client_sends(self) -> bool:
        window = self.client.local_flow_control_window

        def can(stream: int, one: Exchange) -> bool:
            return not (one.client_over or one.asked_all) and (one.asked == len(one.request) or window(stream) > 0)

        if (found := self.pick(can)) is None:
            return False
        stream, one = found
        rest = len(one.request) - one.asked
        padding = self.chance.choice((None, None, None, 0, 9, 200))
        most = min(window(stream), self.client.max_outbound_frame_size) - (0 if padding is None else padding + 1)
        size = min(rest, most, self.chance.choice(self.cuts))
        if size < 0 or (size == 0 and rest):
            size, padding = min(rest, window(stream), self.client.max_outbound_frame_size), None
        last = size == rest
        if last and one.trailers:
            if size:
                self.client.send_data(stream, one.request[one.asked :])
            self.client.send_headers(stream, [("x-last", "1")], end_stream=True)
        else:
            self.client.send_data(
                stream, one.request[one.asked : one.asked + size], end_stream=last, pad_length=padding
            )
        one.asked += size
        one.asked_all = last
        return True

    def client_acknowledges(self) -> bool:
        if (found := self.pick(lambda _, one: one.unacknowledged > 0)) is None:
            return False
        stream, one = found
        size = self.chance.choice((one.unacknowledged, self.chance.randint(1, one.unacknowledged)))
        one.unacknowledged -= size
        self.client.acknowledge_received_data(size, stream)
        return True

    def client_resets(self) -> bool:
        found = self.pick(lambda _, one: one.client_resets and not one.client_over)
        if found is None or self.chance.random() < 0.8:
            return False
        stream, one = found
        self.client.reset_stream(stream, ErrorCodes.CANCEL)
        one.client_over = one.was_reset = True
        return True

    def client_changes_settings(self) -> bool:
        # h2 takes the first acknowledgement for that of the first settings that it changes.
        if not (self.acknowledged and self.settings_left) or self.chance.random() < 0.7:
            return False
        self.settings_left -= 1
        self.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: self.chance.choice(self.windows)})
        return True

    def client_pings(self) -> bool:
        if not self.pings_left:
            return False
        self.pings_left -= 1
        self.client.ping(bytes(8))
        return True

    # Between them

    def bytes_to_server(self) -> bool:
        self.to_server += self.client.data_to_send()
        if not self.to_server:
            return False
        size = self.chance.choice(self.cuts)
        piece, self.to_server = bytes(self.to_server[:size]), self.to_server[size:]
        for event in self.server.receive(piece, 0.0):
            self.server_hears(event)
        if self.server.closed:
            raise WrongError(f"the server takes it for a fault: {self.server.fault}")
        return True

    def bytes_to_client(self) -> bool:
        if not self.to_client:
            return False
        size = self.chance.choice(self.cuts)
        piece, self.to_client = bytes(self.to_client[:size]), self.to_client[size:]
        for event in self.client.receive_data(piece):
            self.client_hears(event)
        return True

    def client_hears(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.DataReceived(stream_id=int(stream), data=bytes(data), flow_controlled_length=int(size)):
                one = self.exchanges[stream]
                one.heard_answer += data
                one.unacknowledged += size
            case h2.events.TrailersReceived(stream_id=int(stream)):
                self.exchanges[stream].heard_trailers = tuple(
                    (bytes(name), bytes(value)) for name, value in event.headers or ()
                )
            case h2.events.StreamEnded(stream_id=int(stream)):
                one = self.exchanges[stream]
                one.client_over = one.client_over or one.asked_all or one.answered_all
            case h2.events.StreamReset(stream_id=int(stream)):
                one = self.exchanges[stream]
                one.client_over = True
                self.counts[f"reset {int(event.error_code or 0)}"] += 1
            case h2.events.SettingsAcknowledged():
                self.acknowledged = True
            case h2.events.ConnectionTerminated():
                raise WrongError(f"the server has gone: {event.error_code}")

    # The server

    def server_hears(self, event: Event) -> None:
        one = self.exchanges[event.stream_id]
        match event:
            case RequestBegun():
                if self.chance.random() < 0.2:
                    self.server.expect(event.stream_id, len(one.request))
            case DataCame():
                one.heard_request += event.data
                one.unconsumed += len(event.data)
                one.request_ended = event.ended
            case TrailersCame():
                one.request_ended = True
            case StreamReset():
                if not one.was_reset:
                    raise WrongError(f"stream {event.stream_id} is reset: {event.code}")
                one.server_over = True
        if self.server.streams > self.limits.concurrent_streams:
            raise WrongError("more streams than are allowed")

    def server_speaks(self) -> bool:
        def can(stream: int, one: Exchange) -> bool:
            known = stream in self.server._streams
            return known and not (one.server_over or one.answered_all) and (one.early or one.request_ended)

        if (found := self.pick(can)) is None:
            return False
        stream, one = found
        if one.server_resets and self.chance.random() < 0.1:
            one.was_reset = one.server_over = True
            self.server.reset(stream, ErrorCode.INTERNAL_ERROR)
        elif not one.responded:
            one.responded = True
            self.server.respond(stream, written([(b":status", b"200")]))
        elif one.answered < len(one.answer):
            size = self.chance.choice(self.cuts)
            self.server.send(stream, one.answer[one.answered : one.answered + size])
            one.answered = min(one.answered + size, len(one.answer))
        else:
            one.answered_all = True
            self.server.end(stream, written(_TRAILERS))
        return True

    def server_consumes(self) -> bool:
        if (found := self.pick(lambda _, one: one.unconsumed > 0)) is None:
            return False
        stream, one = found
        size = self.chance.choice((one.unconsumed, self.chance.randint(1, one.unconsumed)))
        one.unconsumed -= size
        self.server.consumed(stream, size)
        return True

    def server_output(self) -> bool:
        piece = self.server.output()
        self.to_client += piece
        return bool(piece)

    # The end

    def unstuck(self) -> bool:
        """Nothing goes on: that may only be for want of the client's windows."""
        waits = [stream for stream, one in self.exchanges.items() if not one.client_over]
        if not waits or not self.helps_left:
            return False
        self.helps_left -= 1
        for stream in waits:
            self.client.increment_flow_control_window(10**6, stream)
        self.client.increment_flow_control_window(10**6)
        return True

    def check_all(self) -> None:
        for stream, one in self.exchanges.items():
            if one.was_reset:
                self.counts["reset"] += 1
                continue
            if self.server.unsent(stream) or not one.client_over:
                raise WrongError(
                    f"stream {stream} never ends: {one.asked_all=} {one.request_ended=} {one.answered_all=}"
                )
            if bytes(one.heard_request) != one.request[: len(one.heard_request)]:
                raise WrongError(f"the request of stream {stream} has changed")
            if not one.early and len(one.heard_request) != len(one.request):
                raise WrongError(f"the request of stream {stream} isn't whole")
            if bytes(one.heard_answer) != one.answer:
                raise WrongError(f"the answer of stream {stream} isn't what was said")
            if one.heard_trailers != _TRAILERS:
                raise WrongError(f"the trailers of stream {stream} are {one.heard_trailers}")
            self.counts["whole"] += 1
        if self.server.streams:
            raise WrongError(f"{self.server.streams} streams are left over")
        window, whole = self.client.outbound_flow_control_window, self.limits.connection_window
        if not whole - whole // 4 - 1 <= window <= whole:
            raise WrongError(f"{window} bytes are left of the connection's window of {whole}")


def play(seed: int) -> Counter[str]:
    """How its exchanges ended. Raises WrongError, which names the seed."""
    try:
        return World(seed).run()
    except Exception as error:
        error.add_note(f"seed {seed}: python -m tests.http2.fuzz --exchange {seed}")
        raise


def many(seeds: range) -> Counter[str]:
    return Counter(chain.from_iterable(play(seed).elements() for seed in seeds))
