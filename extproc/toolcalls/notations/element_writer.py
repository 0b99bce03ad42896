"""Writes a call's arguments as JSON while elements open and close: `begin`, `text`, `close`, and at last `end`.

What an element is shows only in what follows: text makes it a leaf, elements an object or a list. The schema decides
where it can, and then a string leaves as it comes, an object member by member, a list item by item:

- an array's elements are its items, whatever they are called; one that repeats goes on where it left off, and one with
  nothing but text in it is an item itself. Elements that are properties of an item, without an `item` around, make one;
- an object with properties that repeats goes on as well;
- in an element that can only be a string, tags that nobody knows are text;
- where the tag of another argument comes while a text is still open, its closing tag is missing.

Everything else waits until it is complete, and until the next element shows that it isn't repeated: what is, becomes a
list. No key is written twice: one that comes again later gets a number (`city$2`). Text beside elements is the member
`$text`, or a list's last item.
"""

from __future__ import annotations

import re
from collections import Counter

from extproc.toolcalls.notations.element_schema import ElementSchema
from extproc.toolcalls.notations.free_elements import ITEM, TEXT, Json, array, beginning, counts, joined, tree, unused
from extproc.toolcalls.notations.open_element import LONG, Element, Kind, Waiting
from extproc.toolcalls.notations.values import object_members, quoted, typed

_is_name = re.compile(r"[\w:.\-]+").fullmatch
_MOST_LEVELS_UP = 16  # as far as a tag's place is looked for


class ElementWriter:
    """The arguments of one call. `take` returns the JSON text that has become certain."""

    __slots__ = ("_inner", "_open", "_out", "_tags")

    def __init__(self, schema: ElementSchema) -> None:
        self._open = [Element("", "", schema, Kind.OBJECT)]
        self._tags: Counter[str] = Counter()  # how many elements are open by each tag
        self._inner: Counter[str] = Counter()  # the same for tags that are text
        self._out: list[str] = []

    def take(self) -> str:
        taken = "".join(self._out)
        self._out.clear()
        return taken

    @property
    def in_text(self) -> bool:
        """Whether what comes is the text of an element that can only be a string."""
        element = self._open[-1]
        if element.kind is not Kind.TEXT or not element.schema.is_text:
            return element.kind is Kind.STRING
        return element.size > LONG or counts(element.text)

    def is_open(self, tag: str) -> bool:
        return self._tags[tag] > 0 or self._inner[tag] > 0

    def knows(self, key: str) -> bool:
        """Whether the element that is open has such a member."""
        return self._open[-1].schema.knows(key)

    # Text

    def text(self, text: str) -> None:
        element = self._open[-1]
        if element.kind is Kind.STRING:
            self._out.append(quoted(text)[1:-1])
            return
        element.pieces.append(text)
        element.size += len(text)
        if element.kind is not Kind.TEXT or element.size <= LONG or not element.schema.streams:
            return
        parent = self._open[-2]
        if self._repeated(parent, element.key) is None and element.can_only_be_a_string(text):
            self._lead(parent, element.key)
            self._out.append(quoted(element.text)[:-1])
            element.pieces.clear()
            element.kind = Kind.STRING

    # Tags

    def begin(self, tag: str, key: str, spelled: str) -> None:
        """`spelled` is the whole tag, which may prove to be text."""
        element = self._open[-1]
        if not element.has_room(key):
            level = self._level_for(tag, key)
            if level is None and element.kind in (Kind.STRING, Kind.TEXT) and element.schema.is_text:
                element.inner_tags.append(tag)
                self._inner[tag] += 1
                self.text(spelled)
                return
            while level is not None and len(self._open) > level + 1:
                self._close_last(complete=False)
        parent = self._open[-1]
        if parent.kind is Kind.TEXT:
            parent = self._decide(parent, key)
        elif not parent.tag and len(self._open) > 1 and self._begins_another(parent, key):
            self._close_last(complete=True)
            parent = self._begin_item(self._open[-1])
        self._push(parent, tag, key)

    def close(self, tag: str, spelled: str) -> None:
        element = self._open[-1]
        if element.inner_tags and self._inner[tag]:
            self._close_inner(element, tag)
            self.text(spelled)
        elif self._tags[tag]:
            while not self._close_last(complete=self._open[-1].tag == tag):
                pass
        elif element.kind is Kind.OBJECT and element.schema.knows(tag):
            self._without_opening(element, tag)
        elif not _is_name(tag):
            self.text(spelled)

    def _close_inner(self, element: Element, tag: str) -> None:
        closed = ""
        while closed != tag:
            closed = element.inner_tags.pop()
            self._inner[closed] -= 1

    def _without_opening(self, element: Element, tag: str) -> None:
        """A closing tag of what hasn't been opened: the text before it is its value."""
        text = "".join(element.pieces[element.since_child :]).strip()
        if counts(text):
            del element.pieces[element.since_child :]
            self._push(element, tag, tag)
            self.text(text)
            self._close_last(complete=True)

    def _level_for(self, tag: str, key: str) -> int | None:
        """Where this element belongs, if not into the one that is open."""
        element = self._open[-1]
        around = len(self._open) - 2
        levels: list[int] = [*range(around, max(around - _MOST_LEVELS_UP, 0), -1), 0]
        for level in levels if around >= 0 else []:
            kind = self._open[level].kind
            if kind is Kind.OBJECT and self._open[level].schema.knows(key):
                return level
            if kind is Kind.LIST and key == ITEM:
                return level
        return around if element.kind is Kind.TEXT and element.tag == tag and counts(element.text) else None

    def _push(self, parent: Element, tag: str, key: str) -> None:
        if parent.kind is Kind.OBJECT and self._repeated(parent, key) is None:
            self._settle(parent)
        match parent.kind:
            case Kind.OBJECT:
                schema = parent.schema.member(key)
            case Kind.LIST:
                schema = parent.schema.item(parent.count)
            case _:
                schema = parent.schema.nothing
        self._open.append(Element(tag, key, schema))
        self._tags[tag] += 1

    # What an element is

    def _decide(self, element: Element, key: str) -> Element:
        """The first element comes, `key`, in one that was but text. Returns the one that it belongs into."""
        schema = element.schema
        element.led = counts(element.text)
        is_list = schema.is_array and (not schema.is_object or (key == ITEM and not schema.knows(key)))
        if self._open[-2].kind is Kind.FREE or not (is_list or (schema.is_object and schema.says_members)):
            element.kind = Kind.FREE
            return element
        element = self._begin_container(element, Kind.LIST if is_list else Kind.OBJECT)
        if is_list and key != ITEM and schema.item(element.count).knows(key):
            return self._begin_item(element)
        return element

    def _begin_container(self, element: Element, kind: Kind) -> Element:
        parent = self._open[-2]
        before = self._repeated(parent, element.key)
        if before is not None and before.left is not None and before.left.kind is kind:
            parent.waiting = None
            before.left.pieces += element.pieces
            self._open[-1] = before.left
            return before.left
        items = before.values if before is not None and before.are_items and kind is Kind.LIST else []
        if items:
            parent.waiting = None
        element.kind = kind
        self._lead(parent, element.key)
        for item in items:
            self._lead(element, ITEM)
            self._out.append(joined(item))
        return element

    def _begin_item(self, items: Element) -> Element:
        """An item that is an object, of which only the members have tags."""
        item = Element("", ITEM, items.schema.item(items.count), Kind.OBJECT)
        self._lead(items, ITEM)
        self._open.append(item)
        return item

    def _begins_another(self, item: Element, key: str) -> bool:
        repeats = self._repeated(item, key) is not None and not item.schema.member(key).is_array
        return repeats or item.keys[key] > 0

    # The end of an element

    def _close_last(self, *, complete: bool) -> bool:
        """Close the last element; `complete` if its closing tag came."""
        element = self._open.pop()
        self._tags[element.tag] -= 1
        while element.inner_tags:
            self._inner[element.inner_tags.pop()] -= 1
        parent = self._open[-1]
        parent.since_child = len(parent.pieces)
        match element.kind:
            case Kind.STRING:
                self._out.append('"')
            case Kind.OBJECT | Kind.LIST:
                self._settle(element)
                if parent.kind is Kind.OBJECT:
                    parent.waiting = Waiting(element.key, left=element)
                else:
                    self._finish(element)
            case Kind.FREE if element.led and not complete:
                self._without_closing(parent, element)
            case Kind.FREE:
                json = tree(element.children, element.text, is_object=element.schema.is_object)
                self._deliver(parent, element.key, json)
            case Kind.TEXT:
                self._deliver_text(parent, element)
        return complete

    def _without_closing(self, parent: Element, element: Element) -> None:
        """What came behind the text of an element that wasn't closed doesn't belong into it."""
        self._deliver(parent, element.key, quoted(element.text))
        if parent.kind is not Kind.FREE:
            for key, value in element.children:
                self._deliver(parent, key, value)
        elif len(element.children) > len(parent.children):
            element.children.extendleft(reversed(parent.children))
            parent.children = element.children
        else:
            parent.children += element.children

    def _deliver_text(self, parent: Element, element: Element) -> None:
        schema, text = element.schema, element.text
        before = self._repeated(parent, element.key)
        json = _leaf(text, schema)
        if parent.kind is not Kind.OBJECT or not schema.is_array or "string" in schema.types or json == "null":
            if before is None or before.left is None or counts(text):
                self._deliver(parent, element.key, json)
            return
        items = [json[1:-1].strip()] if json.startswith("[") else None
        if items is None:
            item = schema.item(len(before.values) if before is not None else 0)
            json = typed(text, item.types, item.words)
            items = [json] if "string" in item.types or not json.startswith('"') else None
        if before is not None and before.left is not None and before.left.kind is Kind.LIST and items is not None:
            for one in filter(None, items):
                self._lead(before.left, ITEM)
                self._out.append(one)
        elif items is None:
            self._deliver(parent, element.key, json)
        else:
            if before is None or not before.are_items:
                self._settle(parent)
                before = parent.waiting = Waiting(element.key, are_items=True)
            before.values += filter(None, items)

    def _deliver(self, parent: Element, key: str, json: Json) -> None:
        """A value is complete."""
        match parent.kind:
            case Kind.FREE:
                parent.children.append((key, json))
            case Kind.LIST:
                self._lead(parent, key)
                self._out.append(joined(json))
            case _:
                before = self._repeated(parent, key)
                if before is None or before.left is not None or before.are_items:
                    self._settle(parent)
                    before = parent.waiting = Waiting(key)
                before.values.append(json)

    def _repeated(self, parent: Element, key: str) -> Waiting | None:
        """The member before, if it has this name too."""
        waiting = parent.waiting
        return waiting if waiting is not None and waiting.key == key else None

    def _settle(self, element: Element) -> None:
        """The last member of an object isn't repeated."""
        waiting = element.waiting
        element.waiting = None
        if waiting is None:
            return
        if waiting.left is not None:
            self._finish(waiting.left)
            return
        self._lead(element, waiting.key)
        one = len(waiting.values) == 1 and not waiting.are_items
        self._out.append(joined(waiting.values[0] if one else array(waiting.values)))

    def _lead(self, parent: Element, key: str) -> None:
        """What stands before a member or an item."""
        if parent.kind is Kind.LIST:
            self._out.append(", " if parent.count else "[")
        else:
            self._settle(parent)
            self._out.append((", " if parent.count else "{") + quoted(parent.new_key(key)) + ": ")
        parent.count += 1

    def _finish(self, element: Element) -> None:
        """What stands behind the last member or item."""
        text = element.text
        if counts(text):
            self._beside(element, text)
        opening, closing = ("[", "]") if element.kind is Kind.LIST else ("{", "}")
        self._out.append(closing if element.count else opening + closing)

    def _beside(self, element: Element, text: str) -> None:
        """Text that stood beside the elements in one."""
        self._lead(element, unused(TEXT, element.keys))
        if element.kind is Kind.LIST:
            item = element.schema.item(element.count - 1)
            self._out.append(typed(text, item.types, item.words))
        else:
            self._out.append(quoted(text))

    # The end of the call

    def end(self) -> bool:
        """The call is complete, whatever is still open in it. Returns whether it is one: text alone is none."""
        while len(self._open) > 1:
            self._close_last(complete=False)
        root = self._open[0]
        if root.count or root.waiting is not None or not counts(root.text):
            self._settle(root)
            self._finish(root)
            return True
        members = object_members(root.text)
        self._out.append("{" + (members or "") + "}")
        return members is not None

    def cut_off(self, held: str) -> None:
        """The output breaks off here: what came stands, unfinished. `held` would have become text, or a tag."""
        if held:
            self.text(held)
        kept = next((at for at, one in enumerate(self._open) if one.kind in (Kind.TEXT, Kind.FREE)), None)
        if kept is None:
            last = self._open[-1]
            self._settle(last)
            if last.kind is not Kind.STRING and last.count and counts(last.text):
                self._beside(last, last.text)
            return
        parent, chain = self._open[kept - 1], self._open[kept:]
        before = self._repeated(parent, chain[0].key)
        values = before.values if before is not None else []
        if values:
            parent.waiting = None
        if before is None or before.left is None or before.left.kind is not Kind.LIST:
            self._lead(parent, chain[0].key)
        else:
            self._lead(before.left, ITEM)
        for number, value in enumerate(values):
            self._out += ("[" if not number else ", ", joined(value))
        if values:
            self._out.append(", ")
        for element, child in zip(chain, [*(one.key for one in chain[1:]), None], strict=True):
            if element.kind is Kind.FREE:
                begun = beginning(element.children, element.text, child, is_object=element.schema.is_object)
                self._out.append(joined(begun))
            elif "string" in element.schema.types:
                self._out.append(quoted(element.text)[:-1])
            else:
                self._out.append(element.text.strip())


def _leaf(text: str, schema: ElementSchema) -> str:
    """The JSON text of an element without elements: an empty one may be an empty container."""
    if not text.strip() and "string" not in schema.types:
        if "array" in schema.types:
            return "[]"
        if "object" in schema.types:
            return "{}"
    return typed(text, schema.types, schema.words)
