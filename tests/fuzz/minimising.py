"""Makes an input that fails as small as it can be, and still fail alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.fuzz.inputs import Input

_MOST_TRIES = 300


def smallest(input_: Input, fails: Callable[[Input], bool]) -> Input:
    """Less text, fewer tools and nothing special, as long as it `fails`: what goes, goes greedily."""
    tries = 0

    def still_fails(candidate: Input) -> bool:
        nonlocal tries
        tries += 1
        return tries <= _MOST_TRIES and fails(candidate)

    for plain in (
        replace(input_, tools=()),
        replace(input_, hidden=False),
        replace(input_, cut_off=False),
        replace(input_, thinking=False),
    ):
        candidate = Input(
            input_.format,
            input_.text,
            input_.tools and plain.tools,
            input_.thinking and plain.thinking,
            input_.hidden and plain.hidden,
            input_.cut_off and plain.cut_off,
        )
        if candidate != input_ and still_fails(candidate):
            input_ = candidate
    input_ = _shortened(input_, still_fails)
    for tool in input_.tools:
        candidate = replace(input_, tools=tuple(other for other in input_.tools if other is not tool))
        if still_fails(candidate):
            input_ = candidate
    return input_


def _shortened(input_: Input, fails: Callable[[Input], bool]) -> Input:
    size = max(len(input_.text) // 2, 1)
    while True:
        at = 0
        shorter = False
        while at < len(input_.text):
            candidate = replace(input_, text=input_.text[:at] + input_.text[at + size :])
            if fails(candidate):
                input_, shorter = candidate, True
            else:
                at += size
        if size == 1 and not shorter:
            return input_
        size = max(size // 2, 1)
