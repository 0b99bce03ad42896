"""Whether four times the text takes four times the work, whatever it repeats: each character is looked at once.

Time says it, of this process alone. It is looked at again before it counts, as a busy machine makes anything slow.
"""

from __future__ import annotations

import time

from tests.fuzz.inputs import Input

_SHORT, _TIMES = 8_000, 4
_TOO_MUCH = 2.5 * _TIMES
_TOO_SHORT = 0.02
"""Seconds that say nothing."""
_TRIES = 3
_PIECE = 16


def wrong(input_: Input, start: int, end: int) -> str | None:
    """How the work grows when `text[start:end]` is repeated; None when it grows as the text does."""
    unit = input_.text[start:end]
    if not unit:
        return None
    for size in (0, _PIECE):
        if all(_grows_too_much(input_, start, end, size) for _ in range(_TRIES)):
            return "whole" if size == 0 else f"in pieces of {size}"
    return None


def _grows_too_much(input_: Input, start: int, end: int, size: int) -> bool:
    much = _seconds(input_, _repeated(input_.text, start, end, _SHORT * _TIMES), size)
    return much > _TOO_SHORT and much > _TOO_MUCH * _seconds(input_, _repeated(input_.text, start, end, _SHORT), size)


def _repeated(text: str, start: int, end: int, size: int) -> str:
    return text[:start] + text[start:end] * (size // (end - start) + 1) + text[end:]


def _seconds(input_: Input, text: str, size: int) -> float:
    pieces = [text[at : at + size] for at in range(0, len(text), size)] if size else [text]
    begin = time.process_time()
    parser = input_.parser()
    for piece in pieces:
        parser.feed(piece)
    parser.close(cut_off=input_.cut_off)
    return time.process_time() - begin
