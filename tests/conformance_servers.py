"""Broken ext_proc servers: the reference with a fault each, for tests/test_conformance_case_faults.py."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import count

from extproc.conformance.driver import DirectLink, Link, Unread
from extproc.conformance.host.outcome import Closed
from extproc.conformance.host.settings import BodyMode
from extproc.conformance.reference import HEADER, SUFFIX, Reference, body_reply
from extproc.wire import HttpHeaders, ProcessingRequest, ProcessingResponse

NONE, STREAMED, BUFFERED, PARTIAL, FULL = BodyMode


class Seen:
    """What a server knows when a message comes."""

    def __init__(self, message: ProcessingRequest, before: list[ProcessingRequest]) -> None:
        self.message, self.before = message, before
        self.kind = message.WhichOneof("request") or ""
        self.kinds = [each.WhichOneof("request") or "" for each in before]
        told = (before[0] if before else message).protocol_config
        self.modes = (int(told.request_body_mode), int(told.response_body_mode))

    def ended(self) -> bool:
        """Whether the body has ended before."""
        kind = self.kind
        return any(getattr(each, kind).end_of_stream for each in self.before if each.WhichOneof("request") == kind)

    def mode(self) -> int:
        return self.modes[self.kind.startswith("response")]

    def headers(self, way: str) -> dict[str, list[bytes]]:
        found: dict[str, list[bytes]] = {}
        for message in (*self.before, self.message):
            if message.WhichOneof("request") == f"{way}_headers":
                for each in headers_of(message, way).headers.headers:
                    found.setdefault(each.key, []).append(each.raw_value or each.value.encode())
        return found

    def body(self) -> tuple[bytes, bool] | None:
        if not self.kind.endswith("_body"):
            return None
        sent = getattr(self.message, self.kind)
        return sent.body, sent.end_of_stream


def headers_of(message: ProcessingRequest, way: str) -> HttpHeaders:
    found: HttpHeaders = getattr(message, f"{way}_headers")
    return found


Replies = list[ProcessingResponse | Closed]
When = Callable[[Seen], bool]
What = Callable[[Replies], Replies]


def twice(replies: Replies) -> Replies:
    return [*replies, *replies]


def silent(_: Replies) -> Replies:
    return []


def crash(_: Replies) -> Replies:
    return [Closed("INTERNAL", "a bug")]


class Broken(Reference):
    """The reference but for `what` it makes of its replies `when` something is so."""

    def __init__(self, when: When, what: What) -> None:
        super().__init__()
        self._when, self._what, self._before = when, what, list[ProcessingRequest]()

    def receive(self, message: ProcessingRequest) -> Replies:
        replies = super().receive(message)
        seen = Seen(message, self._before)
        self._before = [*self._before, message]
        return self._what(replies) if self._when(seen) else replies


def edited(edit: Callable[[ProcessingResponse], object]) -> What:
    def change(replies: Replies) -> Replies:
        for reply in replies:
            if isinstance(reply, ProcessingResponse):
                edit(reply)
        return replies

    return change


class Keeps(Reference):
    """Forgets to remove content-length."""

    def receive(self, message: ProcessingRequest) -> Replies:
        return edited(_keep_length)(super().receive(message))


def _keep_length(reply: ProcessingResponse) -> None:
    for name in ("request_headers", "response_headers"):
        if reply.HasField(name):
            del getattr(reply, name).response.header_mutation.remove_headers[:]


class Believes(Reference):
    """Asks for full duplex where bodies are buffered, and takes it for granted."""

    def __init__(self, response: BodyMode) -> None:
        super().__init__()
        self._response = response

    def receive(self, message: ProcessingRequest) -> Replies:
        replies = super().receive(message)
        if message.HasField("request_headers") and self.modes == {"request": BUFFERED, "response": NONE}:
            for reply in replies:
                assert isinstance(reply, ProcessingResponse)
                reply.mode_override.request_body_mode = reply.mode_override.response_body_mode = 0  # type: ignore[assignment]
                reply.mode_override.request_body_mode = int(FULL)  # type: ignore[assignment]
                reply.mode_override.response_body_mode = int(self._response)  # type: ignore[assignment]
                reply.mode_override.request_trailer_mode = reply.mode_override.response_trailer_mode = 1  # type: ignore[assignment]
            self.modes = {"request": FULL, "response": self._response}
        return replies


class Codes(Reference):
    """Changes bodies in a content coding as if they were text."""

    def __init__(self, *codings: bytes) -> None:
        super().__init__()
        self._codings = codings

    def receive(self, message: ProcessingRequest) -> Replies:
        if message.HasField("response_headers"):
            for header in message.response_headers.headers.headers:
                if header.key == "content-encoding" and header.raw_value in self._codings:
                    header.key = "x-coding"
        return super().receive(message)


class FirstMember(Reference):
    """Takes the coding off the responses that it changes, and knows of gzip that it has one member."""

    def receive(self, message: ProcessingRequest) -> Replies:
        coded = message.HasField("response_headers") and any(
            header.key == "content-encoding" and header.raw_value == b"gzip"
            for header in message.response_headers.headers.headers
        )
        self.decodes = getattr(self, "decodes", False) or coded
        replies = super().receive(message)
        if not (self.decodes and self.mutate and self.modes["response"] is BUFFERED):
            return replies
        for reply in replies:
            assert isinstance(reply, ProcessingResponse)
            if reply.HasField("response_headers"):
                reply.response_headers.response.header_mutation.remove_headers.extend(
                    ["content-encoding", "content-length"]
                )
            if reply.HasField("response_body"):
                decoder = zlib.decompressobj(31)
                plain = decoder.decompress(message.response_body.body)
                reply.response_body.response.body_mutation.body = plain + SUFFIX
        return replies


class Wishes(Reference):
    """What is to be mutated is decided otherwise than by the header alone."""

    def __init__(self, wish: Callable[[dict[str, bytes]], bool]) -> None:
        super().__init__()
        self._wish = wish

    def _headers(self, way: str, headers: HttpHeaders) -> Replies:
        if way == "request":
            values = {each.key: each.raw_value for each in headers.headers.headers}
            for each in headers.headers.headers:
                if each.key == HEADER and each.raw_value == b"mutate":
                    each.key = "x-wish"
            if self._wish(values):
                headers.headers.headers.add(key=HEADER, raw_value=b"mutate")
        return super()._headers(way, headers)


def alternating() -> Callable[[], Reference]:
    turns = count()
    return lambda: Wishes(lambda values: values.get(HEADER) == b"mutate" and next(turns) % 2 == 0)


def leaking(most: int, *, forgets: str | None) -> Callable[[], Reference]:
    held: list[object] = []
    return lambda: Leaks(held, most, forgets=forgets)


class Ends(Reference):
    """Ends the call as an error when the host has no more to say in the middle of an exchange."""

    def half_closed(self) -> Closed:
        whole = any(each.startswith("response_") for each in self.seen) or self.over
        return Closed("OK") if whole else Closed("UNKNOWN", "EOF")


class Leaks(Reference):
    """Serves no more once too many exchanges are open; `forgets` to close those that the host cancelled, if a message
    of this kind had come ("": all)."""

    def __init__(self, held: list[object], most: int, *, forgets: str | None) -> None:
        super().__init__()
        self._held, self._most, self._forgets = held, most, forgets
        held.append(self)

    def receive(self, message: ProcessingRequest) -> Replies:
        return [] if len(self._held) > self._most else super().receive(message)

    def half_closed(self) -> Closed:
        self._done()
        return super().half_closed()

    def cancelled(self) -> None:
        if self._forgets is None or self._forgets not in ("", *self.seen):
            self._done()

    def _done(self) -> None:
        self._held[:] = [each for each in self._held if each is not self]


class CancelLink(DirectLink):
    """Tells a processor that wants to know it of the host's cancelling."""

    def __init__(self, processor: Reference) -> None:
        super().__init__(processor)
        self._told = processor

    def cancel(self) -> None:
        super().cancel()
        if isinstance(self._told, Leaks):
            self._told.cancelled()


class FrailLink(DirectLink):
    """Bytes that are no message break all that is open, or are answered."""

    def __init__(self, beside: list[FrailLink], *, answers: bool) -> None:
        super().__init__(Reference())
        self._beside, self._answers_garbage = beside, answers
        beside.append(self)

    async def send(self, message: ProcessingRequest | bytes) -> None:
        if message != b"\xff\xff\xff\xff":
            await super().send(message)
        elif self._answers_garbage:
            self._take([ProcessingResponse()])
        else:
            for link in self._beside:
                link._take([Closed("UNAVAILABLE")])


class RestlessLink(DirectLink):
    """Its call ends when nothing happens."""

    def idle(self) -> None:
        self._take([Closed("UNAVAILABLE", "idle")])


class Sick:
    """A server that has every fault beside `Process`."""

    def __init__(self) -> None:
        self._seconds = count()
        self._links: list[RestlessLink] = []

    def open(self) -> Link:
        self._links.append(RestlessLink(Reference()))
        return self._links[-1]

    async def rest(self, _seconds: float) -> None:
        for link in self._links:
            link.idle()

    async def unread(self, messages: Sequence[ProcessingRequest]) -> Unread:
        return Unread(len(messages), self._goes_on, lambda: None)

    async def _goes_on(self) -> None:
        """A call that hasn't ended."""

    async def health(self, service: str) -> str:
        return "SERVING" if service else "NOT_SERVING"

    async def pings(self, number: int, seconds: float) -> str | None:
        return f"GOAWAY too_many_pings behind {number} PINGs, {seconds} s apart"

    def clock(self) -> float:
        return next(self._seconds)

    def open_compressed(self) -> Link:
        return DirectLink(Broken(lambda _: True, lambda _: [Closed("UNIMPLEMENTED")]))

    def open_with_deadline(self, _seconds: float) -> Link:
        return DirectLink(Reference())  # which has no clock


class Answers(Reference):
    """Replies to what comes behind its own answer, if it is of the request or of the response."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self._kind = f"{way}_body"

    def receive(self, message: ProcessingRequest) -> Replies:
        over = self.over
        replies = super().receive(message)
        late = over and message.WhichOneof("request") == self._kind
        return [body_reply(self._kind.partition("_")[0])] if late else replies


class Repeats(Reference):
    """Takes headers as often as they come."""

    def _misplaced(self, kind: str) -> bool:
        self.seen.add(kind)
        return False
