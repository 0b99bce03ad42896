"""Writes a tree as the text of a template."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from tests.chart.tree import Block, Either, Entry, Further, Hole, Item, Map, Node, Scalar, Seq, Template

LONG = 2000
"""Characters from which a text is kept in a file of its own, and read from there."""


def template(each: Template, files: dict[str, str]) -> str:
    """Texts that are long go to `files`, by their names."""
    lines = [f"{'':{depth}}{line}" if line else "" for depth, line in _Writer(files).map(each.tree, 0)]
    if each.conditions:
        both = each.conditions[0] if len(each.conditions) == 1 else f"and {' '.join(each.conditions)}"
        lines = [f"{{{{- if {both} }}}}", *lines, "{{- end }}"]
    return "\n".join([*lines, ""])


Lines = Iterator[tuple[int, str]]
"""Each with the number of spaces before it: actions of the template have none."""


class _Writer:
    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def map(self, tree: Map, depth: int) -> Lines:
        for each in tree.entries:
            if isinstance(each, Further):
                yield from _further(each, depth)
            else:
                yield from _given(each.when, self._entry(each, depth))

    def _entry(self, entry: Entry, depth: int) -> Lines:
        key = _scalar(entry.key)
        match entry.value:
            case Either(when, yes, no):
                yield 0, f"{{{{- if {when} }}}}"
                yield from self._entry(Entry(entry.key, yes), depth)
                yield 0, "{{- else }}"
                yield from self._entry(Entry(entry.key, no), depth)
                yield 0, "{{- end }}"
            case Map(entries) if entries:
                if all(isinstance(each, Further) for each in entries):
                    (only,) = entries
                    assert isinstance(only, Further)
                    yield 0, f"{{{{- with .Values.{only.path} }}}}"
                    yield depth, f"{key}:"
                    yield depth + 2, f"{{{{- toYaml . | nindent {depth + 2} }}}}"
                    yield 0, "{{- end }}"
                else:
                    yield depth, f"{key}:"
                    yield from self.map(entry.value, depth + 2)
            case Seq(items) if items:
                yield depth, f"{key}:"
                yield from self._seq(entry.value, depth + 2)
            case Block(text, literal):
                yield depth, f"{key}: |" if literal else f"{key}:"
                yield depth + 2, f"{{{{- {text} | nindent {depth + 2} }}}}"
            case str(text) if len(text) > LONG:
                self._files[entry.key] = text
                yield depth, f"{key}: |"
                yield depth + 2, f'{{{{- .Files.Get "files/{entry.key}" | trimSuffix "\\n" | nindent {depth + 2} }}}}'
            case value:
                first, *rest = self._flat(value)
                yield depth, f"{key}: {first}"
                yield from ((depth + 2 if line else 0, line) for line in rest)

    def _seq(self, tree: Seq, depth: int) -> Lines:
        for each in tree.items:
            if isinstance(each, Further):
                yield from _further(each, depth)
            else:
                yield from _given(each.when, self._item(each, depth))

    def _item(self, item: Item, depth: int) -> Lines:
        value = item.value
        if isinstance(value, Map) and value.entries:
            lines = list(self.map(value, depth + 2))
            at = next(n for n, (spaces, line) in enumerate(lines) if not line.startswith("{{-"))
            assert lines[at][0] == depth + 2
            assert at == 0, "a list's item begins with what everybody has"
            yield depth, f"- {lines[0][1]}"
            yield from lines[1:]
        else:
            assert not isinstance(value, Seq | Block | Either), value
            first, *rest = self._flat(value)
            yield depth, f"- {first}"
            yield from ((depth + 2 if line else 0, line) for line in rest)

    def _flat(self, value: Node) -> list[str]:
        match value:
            case Map():
                return ["{}"]
            case Seq():
                return ["[]"]
            case Hole(text):
                return [f"{{{{ {text} }}}}"]
            case str(text) if "\n" in text:
                assert text == f"{text.strip()}\n", "other texts need more than a bare |"
                return ["|", *_escaped(text).splitlines()]
            case str() | int() | float() | None:
                return [_escaped(_scalar(value))]
        raise TypeError(value)


def _further(each: Further, depth: int) -> Lines:
    yield 0, f"{{{{- with .Values.{each.path} }}}}"
    yield depth, f"{{{{- toYaml . | nindent {depth} }}}}"
    yield 0, "{{- end }}"


def _given(when: str | None, lines: Lines) -> Lines:
    if when is None:
        yield from lines
        return
    yield 0, f"{{{{- if {when} }}}}"
    yield from lines
    yield 0, "{{- end }}"


def _scalar(value: Scalar) -> str:
    text = yaml.safe_dump(value, width=10**6, allow_unicode=True).removesuffix("...\n")
    assert text.count("\n") == 1, text
    return text.removesuffix("\n")


def _escaped(text: str) -> str:
    """Prometheus writes its own templates in the same brackets."""
    return text.replace("{{", '{{ "{{" }}')
