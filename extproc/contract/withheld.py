"""What of a request no backend gets, unless those who run the gateway say so: what a client isn't trusted with.

vLLM is made for clients that are as trusted as itself. Some of its parameters reach past the request: into the order in
which others are served, the servers that it talks to, its memory, the code that it runs. Each is named here with what
becomes of a request that has it: without most of them the answer is the same, and they are dropped and named; where it
wouldn't be, the request is refused. `withheld` in the settings replaces the list, and `parameters` of a backend lets
some through to it.

Sources: vLLM's documentation on security, and its advisories: CVE-2025-62164 (tensors in a request), CVE-2025-61620 and
CVE-2025-62426 (templates and `tokenize` in `chat_template_kwargs`), CVE-2025-6242 (URLs).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from extproc.contract.errors import ApiError, invalid_request

Json: TypeAlias = dict[str, Any]
Fate: TypeAlias = Literal["dropped", "refused"]

_TEMPLATE_ARGUMENTS = """
conversation tools documents tokenize padding truncation max_length return_tensors return_dict
return_assistant_tokens_mask tokenizer_kwargs
""".split()
"""What the function that renders a chat template takes besides the template's own variables (transformers'
`apply_chat_template`). Some would replace what was checked, some make it do other work."""

IMAGE_EMBEDS, AUDIO_EMBEDS, UUID = "content.image_embeds", "content.audio_embeds", "content.uuid"

WITHHELD: Mapping[str, tuple[Fate, str]] = {
    "priority": ("dropped", "whoever sends the lowest is served before all others"),
    "request_id": (
        "dropped",
        "identifies a request to vLLM and to whatever shares its cache; the header x-request-id counts",
    ),
    "session_id": ("dropped", "identifies a conversation to a router, perhaps another client's"),
    "kv_transfer_params": ("dropped", "names servers to fetch a cache from"),
    "ec_transfer_params": ("dropped", "the same for encoders"),
    "vllm_xargs": ("dropped", "arguments for whatever is plugged into vLLM"),
    "media_io_kwargs": ("dropped", "decides how much memory a video or an image may take"),
    "mm_processor_kwargs": ("dropped", "the same, and arguments for a model's own code"),
    **{
        f"chat_template_kwargs.{name}": ("dropped", "an argument of the function that renders the template")
        for name in _TEMPLATE_ARGUMENTS
    },
    "chat_template": ("refused", "a program that vLLM runs"),
    "chat_template_kwargs.chat_template": ("refused", "the same"),
    "cache_salt": ("refused", "opens the cached prompts of whoever uses the same salt, and fills the cache"),
    IMAGE_EMBEDS: ("refused", "a content part: tensors, which vLLM unpacks in a way that can be abused to run code"),
    AUDIO_EMBEDS: ("refused", "the same"),
    UUID: ("refused", "a member of a content part: whoever knows it can read or set what is cached under it"),
}
"""What is withheld by default: what becomes of it, and why. A name with a dot is a member's."""


def without(fields: Json, withheld: Collection[str]) -> tuple[Json, tuple[str, ...]]:
    """The request without what is withheld, and the names of what was in it."""
    kept, found = fields, []
    inner_names = _by_outer_name(frozenset(withheld))
    for outer in fields.keys() & inner_names.keys():
        for inner in inner_names[outer]:
            value = kept.get(outer)
            if value is None:
                continue
            if not inner:
                kept = {key: value for key, value in kept.items() if key != outer}
            elif isinstance(value, dict) and inner in value:
                kept = {**kept, outer: {key: it for key, it in value.items() if key != inner}}
            else:
                continue
            found.append(f"{outer}.{inner}" if inner else outer)
    return kept, tuple(sorted(found))


@lru_cache
def _by_outer_name(withheld: frozenset[str]) -> Mapping[str, Sequence[str]]:
    """The members' names by that of what they are in; "" for all of it."""
    found: dict[str, list[str]] = {}
    for outer, _, inner in sorted(name.partition(".") for name in withheld):
        found.setdefault(outer, []).append(inner)
    return found


def refusals(fields: Json, withheld: Collection[str]) -> Iterator[ApiError]:
    """What a request may not hold at all; of its content parts, see `part_refusals`."""
    for name, outer, inner in _REFUSED:
        value = fields.get(outer)
        if inner:
            value = value.get(inner) if isinstance(value, dict) else None
        if value is not None and name in withheld:
            yield refusal(name, name)


_REFUSED = [
    (name, name.partition(".")[0], name.partition(".")[2])
    for name, (fate, _) in WITHHELD.items()
    if fate == "refused" and not name.startswith("content.")
]


def part_refusals(part: Mapping[str, Any], param: str, withheld: Collection[str]) -> Iterator[ApiError]:
    """The same of a content part, whose place is `param`."""
    kind = f"content.{part.get('type')}"
    if kind in withheld:
        yield refusal(f"{param}.type", kind)
    if UUID in withheld and part.get("uuid") is not None:
        yield refusal(f"{param}.uuid", UUID)


def refusal(param: str, name: str) -> ApiError:
    """A 400: the answer would be another without it, and a client isn't trusted with it."""
    return invalid_request(
        f"'{param}' is not taken from clients here. Leave it out; those who run the gateway can allow it, "
        f"as '{name}', in its settings ('withheld').",
        param,
        "parameter_withheld",
    )
