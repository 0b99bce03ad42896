"""What is known about writing one format's calls: what prompt mode shows to a model, and forced decoding goes by.

What is written here the parser of the same format reads back as the same call, as far as the format can say it
(`arguments` names what can't be). Sources: the models' chat templates, the tests of vLLM and SGLang, and the notations
of xgrammar 0.2.8, whose structural tags accept what is written with a `style`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from extproc.toolcalls.syntax.arguments import Arguments, Harmless, Json, Style, as_it_is


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSyntax:
    """How a format writes calls: `opening`, then for each call `begin`, its arguments and `end`, then `closing`.

    Placeholders are plain text, for `str.replace`: `{name}` in `begin` stands for the tool's name, `{index}` for the
    number of calls before this one in the whole conversation, `{number}` for its place in the answer, from 1.

    Formats with messages of their own (harmony, Muse, Beam) are written as their models write behind the beginning of
    an assistant's turn, which the chat template has opened.
    """

    format: str = ""
    """The name of the format; the format fills it in."""
    opening: str = ""
    """Before the first call of an answer."""
    begin: str
    arguments: Arguments = field(default=Json())
    end: str
    separator: str = "\n"
    closing: str = ""
    """After the last call."""
    result_tag: tuple[str, str] | None = None
    """What the model's own chat template writes around a tool's result; `{name}` and `{index}` as in `begin`. None
    when it has nothing but a role for it, or nothing is known."""
    turn_tokens: tuple[str, ...] = ()
    """What the family's chat templates and vocabularies have for turns, where it has another shape than most
    (`extproc.prompts.markers`). One that isn't closed stands for all that begin so."""

    @property
    def style(self) -> Style | None:
        """How the arguments are spelled, in xgrammar's terms; None when decoding can't be forced into this format."""
        return self.arguments.style

    @property
    def markup(self) -> list[str]:
        """The tags of calls and results, without what stands between them."""
        parts = (self.opening, self.begin, self.end, self.separator, self.closing, *self.arguments.markup)
        return [tag for part in (*parts, *(self.result_tag or ())) for tag in _TAG.findall(part)]

    def write(self, calls: Sequence[tuple[str, str]], *, first: int = 0, harmless: Harmless = as_it_is) -> str:
        """What the model writes to make these calls: (name, arguments as JSON text).

        `first` is the number of calls before them in the conversation. `harmless` is applied to all text that stands
        as it is, which in JSON is only the name. Arguments that are no JSON object are written as the text they are.
        """
        if not calls:
            return ""
        written = (
            self.begin_of(harmless(name), index=first + place, number=place + 1)
            + self.arguments.write(arguments, harmless)
            + self.end
            for place, (name, arguments) in enumerate(calls)
        )
        return self.opening + self.separator.join(written) + self.closing

    def begin_of(self, name: str, *, index: int = 0, number: int = 1) -> str:
        """`begin` for a call of `name`. A name that could be a tool's stands as it is."""
        return _filled(self.begin.replace("{number}", str(number)), name, index)

    def tags_of_result(self, name: str, *, index: int = 0) -> tuple[str, str]:
        """What stands around the result of the call number `index` of the conversation; nothing without a tag."""
        before, behind = self.result_tag or ("", "")
        return _filled(before, name, index), _filled(behind, name, index)


_TAG = re.compile(r"[<\[\]][^\s{<\[\]]*[^\W_][^\s{<]*")
"""A tag as far as it is the same in every call: up to its attributes, or to a placeholder."""


def _filled(template: str, name: str, index: int) -> str:
    # Nearly everywhere the name stands between quotes. What a tool can be named needs no escapes.
    spelled = json.dumps(name, ensure_ascii=False)[1:-1]
    return template.replace("{index}", str(index)).replace("{name}", spelled)
