"""Requests whose beginning is known: only what is new in them is read, checked and rendered.

The conversation is read item by item, and what each comes to is kept with the state behind it. So the next request goes
on there, and comes to what it would have come to from the start. Nothing is decided here: whatever is unusual or wrong,
`prepare` reads in the usual way.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import orjson

from extproc.config import Config, Model
from extproc.contract.errors import ApiError
from extproc.contract.json_array import JsonArray, ToolArray
from extproc.contract.json_body import decode, tool_array
from extproc.contract.rules import Rules
from extproc.surfaces.beginnings import Beginning, start_of
from extproc.surfaces.continued import Offer, Reading, UnusualError
from extproc.turn.affinity import ConversationHash
from extproc.turn.memory import Entry, Key, Memory
from extproc.turn.rendering import Renderer, renderer, shown_tools
from extproc.turn.turn import Rendered, Turn
from extproc.turn.upstream import UpstreamRequest, ask

Json: TypeAlias = dict[str, Any]

_LARGEST_STRICT = 32 * 1024
"""Bytes of tools of which some are strict. Their grammar isn't kept, and is made anew for each request."""
_ENDS = 4
"""The last items of a request, behind each of which it can be gone on with: clients change some of them in the next."""


@dataclass(slots=True)
class _Head:
    """What is known of the tools, and of what else a conversation depends on."""

    members: Json
    """The members as they are decoded, but for the tools."""
    offer: Offer
    definitions: ToolArray
    shown: JsonArray
    """As a chat template shows them."""
    is_as_sent: bool
    """They are shown as the client sent them."""
    has_strict: bool
    """Decoding may have to be forced whatever the model chooses to do: by schemas, or by grammars."""


@dataclass(slots=True)
class _Rendering:
    """What is known of how a backend is shown a conversation, after some of its items."""

    state: Any
    """The renderer's."""
    affinity: ConversationHash | None
    waiting: list[Json] | None
    """What the client said and isn't shown yet; None once something was shown otherwise than it was said, and in other
    dialects than the backend's own."""
    follows_result: bool = False
    """The last message is a tool's result."""

    def shows(self, messages: Sequence[Json]) -> None:
        """These are shown next."""
        if self.waiting is not None:
            said = self.waiting[: len(messages)]
            self.waiting = self.waiting[len(messages) :] if said == messages else None


def upstream_of(
    beginning: Beginning, fields: Json, model: Model, rules: Rules, config: Config, memory: Memory, *, inner: bool
) -> UpstreamRequest | None:
    """What a model's backend is asked; None for a request that is to be read in the usual way.

    `fields` is what `fields_of` gave.
    """
    try:
        return _Recalled(beginning, fields, model, rules, config, memory).upstream(inner=inner)
    except UnusualError:
        return None
    except ApiError as error:  # the model's settings don't allow it
        error.caught()
        return None


class _Recalled:
    def __init__(
        self, beginning: Beginning, fields: Json, model: Model, rules: Rules, config: Config, memory: Memory
    ) -> None:
        self._beginning = beginning
        self._continued = beginning.continued
        self._fields = fields
        self._model = model
        self._rules = rules
        self._config = config
        self._memory = memory
        self._learned: list[tuple[Key, Entry]] = []

    def upstream(self, *, inner: bool) -> UpstreamRequest:
        beginning, continued = self._beginning, self._continued
        head: _Head = _loaded(beginning.offer[1]) if beginning.offer is not None else self._read_head()
        last = beginning.known[-1] if beginning.known else beginning.start
        read, shown = _apart(last[1]) if last is not None else (None, None)
        reading: Reading = _loaded(read) if read is not None else continued.begin(head.members, self._rules)
        steps = [_Step(b"" if read is not None else pickle.dumps(reading), [], [])]
        for number, item in enumerate(self._fields[continued.items], len(beginning.known) + 1):
            messages = reading.add(item, self._rules)
            keeps = number == 1 or number > len(beginning.items) - _ENDS
            steps.append(_Step(pickle.dumps(reading) if keeps else b"", [item], messages))
        fields = {**self._fields, **head.members, "tools": head.definitions, continued.items: None}
        turn = continued.turn(fields, self._rules, head.offer, reading)
        _check_is_usual(turn)
        has_strict = self._model.forced or (head.has_strict and self._model.tools != "native")
        if has_strict and len(head.definitions.json) > _LARGEST_STRICT:
            raise UnusualError
        renderer = renderer_for(turn, self._model)
        rendering = _loaded(shown) if shown is not None else self._begin(turn, renderer)
        pieces = [text for text, _ in beginning.known]
        keys = [start_of(self._memory, beginning.root), *beginning.keys][len(beginning.known) :]
        for key, step in zip(keys, steps, strict=True):
            if rendering.waiting is not None:
                rendering.waiting += step.said
            text = _text(self._shown(rendering, renderer, step.messages))
            pieces.append(text)
            if step is not steps[0] or read is None:
                state = _together(step.reading, pickle.dumps(rendering)) if step.reading else b""
                self._learned.append((key, (text, state)))
        rest = self._shown(rendering, renderer, reading.rest())
        last_shown = renderer.rest(rendering.state, turn)
        rendering.shows(last_shown)
        pieces.append(_text([*rest, *last_shown]))
        messages_shown = JsonArray(b"[%s]" % b",".join(filter(None, pieces)))
        as_sent = turn.as_sent
        if as_sent is not None:
            is_as_said = rendering.waiting == []
            as_sent = {
                **as_sent,
                continued.items: messages_shown if is_as_said else None,
                "tools": head.shown if head.is_as_sent else None,
            }
        rendered = Rendered(
            messages_shown, head.shown, head.has_strict, str(rendering.affinity or ""), rendering.follows_result
        )
        turn = replace(turn, messages=messages_shown, rendered=rendered, as_sent=as_sent)
        asked = ask(turn, self._model, self._config, limited=not inner)
        return replace(asked, learned=tuple(self._learned), known=len(beginning.body) - beginning.unknown)

    def _read_head(self) -> _Head:
        texts = {name: self._beginning.head[name] for name in self._continued.head if name in self._beginning.head}
        try:
            members = decode(b"{%s}" % b",".join(b'"%s":%s' % (name.encode(), text) for name, text in texts.items()))
        except ApiError as error:
            error.caught()
            raise UnusualError from None
        offer = self._continued.offer(members)
        made = offer.definitions
        if not made:
            raise UnusualError
        definitions = tool_array(made)
        shown: JsonArray = definitions
        made_shown = shown_tools(self._model, made) if self._model.tools != "prompt" else made
        if made_shown is not made:
            shown = JsonArray(b"[%s]" % _text(made_shown))
        elif self._model.tools != "prompt":
            _text(made)  # which goes into a body as it is
        head = _Head(
            {name: value for name, value in members.items() if name != "tools"},
            replace(offer, definitions=[]),
            definitions,
            shown,
            is_as_sent=made_shown is made and offer.is_as_sent,
            has_strict=offer.has_grammars or any(tool["function"].get("strict") is True for tool in made),
        )
        self._learned.append((self._beginning.root, (b"", pickle.dumps(head))))
        return head

    def _begin(self, turn: Turn, renderer: Renderer) -> _Rendering:
        is_affine = self._config.backends_by_name[self._model.backend].affinity
        return _Rendering(
            renderer.begin(turn), ConversationHash() if is_affine else None, [] if turn.passes_answers else None
        )

    def _shown(self, rendering: _Rendering, renderer: Renderer, messages: Sequence[Json]) -> list[Json]:
        """What is shown when these messages follow."""
        shown = []
        for message in messages:
            if rendering.affinity is not None:
                rendering.affinity.add(message)
            rendering.follows_result = message["role"] == "tool"
            made = renderer.add(rendering.state, message)
            rendering.shows(made)
            shown += made
        return shown


@dataclass(frozen=True, slots=True)
class _Step:
    """What was read: one item, or nothing before the first."""

    reading: bytes
    """The state behind it, where it is to be kept."""
    said: list[Any]
    """As the client sent it."""
    messages: list[Json]
    """The house's, which are complete by it."""


def renderer_for(turn: Turn, model: Model) -> Renderer:
    """By the tools that the model is shown."""
    shown = turn.tools if turn.offers_tools or model.tools != "template" else []
    return renderer(model, shown)


def _check_is_usual(turn: Turn) -> None:
    """Raises UnusualError where what is shown depends on more than the conversation and the tools."""
    is_usual = (
        turn.tool_choice in ("auto", "none")
        and turn.tools is turn.offered
        and turn.parameters.get("response_format") is None
        and not turn.begun
    )
    if not is_usual:
        raise UnusualError


def _text(messages: Sequence[Json]) -> bytes:
    """Their JSON, side by side. Raises UnusualError for what one of the encoders can't write."""
    try:
        return orjson.dumps(messages)[1:-1]
    except orjson.JSONEncodeError:  # an integer of more than 64 bits: then the whole body is written by the other one
        raise UnusualError from None


def _together(read: bytes, shown: bytes) -> bytes:
    return b"%08x" % len(read) + read + shown


def _apart(state: bytes) -> tuple[bytes, bytes]:
    end = 8 + int(state[:8], 16)
    return state[8:end], state[end:]


def _loaded(state: bytes) -> Any:
    return pickle.loads(state)  # noqa: S301 - this process, or one of its workers, has made it
