"""A corpus of malformed requests: what each has wrong, and which error its client has to get.

Each row is a legal request (`legal`) with one mistake in one field (`edits`), or a body that is no request at all.
"""

from tests.malformed import bodies, calls, choices, messages, parameters, tools
from tests.malformed.edits import Row

ROWS: tuple[Row, ...] = (
    *bodies.ROWS,
    *messages.ROWS,
    *calls.ROWS,
    *tools.ROWS,
    *choices.ROWS,
    *parameters.ROWS,
)

__all__ = ["ROWS", "Row"]
