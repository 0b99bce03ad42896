"""Whether a call that is whole where the output is cut off is the same when the output goes on."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz.inputs import Input
from tests.fuzz.reading import Called, read
from tests.fuzz.watching import state_of


def wrong(input_: Input, at: int) -> str | None:
    """The state in which a call was taken for whole behind `text[:at]`, though more of it came; None when it wasn't."""
    early = _calls(input_, input_.text[:at])
    if not early or not early[-1].whole:
        return None
    last = len(early) - 1
    later = _calls(input_, input_.text)[last : last + 1]
    if later and (later[0].name, later[0].arguments) == (early[last].name, early[last].arguments):
        return None
    parser = input_.parser()
    parser.feed(input_.text[:at])
    return state_of(parser)


def _calls(input_: Input, text: str) -> list[Called]:
    return [item for item in read(replace(input_, cut_off=True), [text]) if isinstance(item, Called)]
