"""The catalogue, as tables: a case is an input, host settings, and what is expected beyond the invariants.

case.py      what a case is, and how an outcome is judged
layouts.py   LAY: each pair of body modes; what hosts do with overrides
ends.py      END: pieces, ends and trailers
headers.py   HDR: odd headers
mutating.py  MUT: servers that change bodies
liveness.py  LIV: ends of calls, many calls, health
unknown.py   UNK: messages that no host should send
openai.py    OAI: tool calling, judged at the client
"""

from __future__ import annotations

from extproc.conformance.cases.case import Case
from extproc.conformance.cases.ends import ENDS
from extproc.conformance.cases.headers import HEADERS
from extproc.conformance.cases.layouts import LAYOUTS
from extproc.conformance.cases.liveness import LIVENESS
from extproc.conformance.cases.mutating import MUTATING
from extproc.conformance.cases.openai import OPENAI
from extproc.conformance.cases.unknown import UNKNOWN

CASES: tuple[Case, ...] = (*LAYOUTS, *ENDS, *HEADERS, *MUTATING, *LIVENESS, *UNKNOWN, *OPENAI)
