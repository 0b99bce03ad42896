"""What a server has to make of what comes: the rules of RFC 9113 and RFC 7541 as a table of cases.

A case says what comes, behind the peer's preface and settings unless it begins with something else; and what has to
come of it: an error of the connection, an error of a stream, or none. `tests/http2/test_rules.py` plays them. Where the
RFC leaves a server a choice, the case has what ours chose.
"""

from tests.http2.rules.case import Case, StreamError
from tests.http2.rules.connection import BEGINNINGS, FRAMES, STREAMS
from tests.http2.rules.frames import KINDS
from tests.http2.rules.hpack import HPACK
from tests.http2.rules.requests import REQUESTS

CASES = (*BEGINNINGS, *FRAMES, *STREAMS, *KINDS, *REQUESTS, *HPACK)

__all__ = ["CASES", "Case", "StreamError"]
