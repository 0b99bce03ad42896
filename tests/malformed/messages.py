"""Mistakes in the model's name and in the conversation."""

from __future__ import annotations

from typing import Any

from tests.malformed.edits import EMPTY_ARRAY, MISSING, NO_MODEL, TYPE, VALUE, Json, bad, drop, made_from, put
from tests.malformed.legal import CALLING, PLAIN

_MEGABYTES = "x" * 10_000_000
_TEXT = {"type": "text", "text": "Hi."}
_REFUSAL = {"type": "refusal", "refusal": "No."}
_IMAGE = "messages[4].content[1]"
"""Where a user's image stands."""


def _image(url: Any) -> Json:
    return {"type": "image_url", "image_url": url}


_MODEL = made_from(
    PLAIN,
    bad("no model", drop("model"), MISSING),
    bad("a model that is null", put("model", None), MISSING),
    bad("a model that is a number", put("model", 7), TYPE),
    bad("a model that is an array", put("model", ["coder"]), TYPE),
    bad("a model that is an object", put("model", {"name": "coder"}), TYPE),
    bad("a model without a name", put("model", ""), VALUE),
    bad("an unknown model", put("model", "gpt-4"), NO_MODEL),
    bad("a model in capitals", put("model", "CODER"), NO_MODEL),
    bad("a model with a space", put("model", "coder "), NO_MODEL),
    bad("an unknown model with a name of 10 MB", put("model", _MEGABYTES), NO_MODEL),
)
_SHAPE = made_from(
    PLAIN,
    bad("no messages", drop("messages"), MISSING),
    bad("messages that are null", put("messages", None), MISSING),
    bad("messages as a string", put("messages", "Hello."), TYPE),
    bad("one message instead of an array", put("messages", {"role": "user", "content": "Hi."}), TYPE),
    bad("messages that are a number", put("messages", 1), TYPE),
    bad("an empty conversation", put("messages", []), EMPTY_ARRAY),
    bad("a message as a string", put("messages[2]", "Hello."), TYPE),
    bad("a message that is null", put("messages[2]", None), TYPE),
    bad("a message in an array", put("messages[0]", [{"role": "user", "content": "Hi."}]), TYPE),
    bad("a message that is a number", put("messages[4]", 0), TYPE),
    bad("an empty message", put("messages[2]", {}), MISSING, "messages[2].role"),
)
_ROLES = made_from(
    PLAIN,
    bad("no role", drop("messages[2].role"), MISSING),
    bad("a role that is null", put("messages[2].role", None), MISSING),
    bad("a role that is a number", put("messages[2].role", 1), TYPE),
    bad("a role that is an array", put("messages[2].role", ["user"]), TYPE),
    bad("a role that is an object", put("messages[2].role", {}), TYPE),
    bad("a role without a name", put("messages[2].role", ""), VALUE),
    bad("an unknown role", put("messages[2].role", "human"), VALUE),
    bad("a role in capitals", put("messages[2].role", "User"), VALUE),
    bad("a role of 10 MB", put("messages[2].role", _MEGABYTES), VALUE),
)
_CONTENT = [
    *made_from(
        PLAIN,
        bad("a system message without content", drop("messages[0].content"), MISSING),
        bad("a developer message without content", drop("messages[1].content"), MISSING),
        bad("a user message without content", drop("messages[2].content"), MISSING),
        bad("a system message's content is null", put("messages[0].content", None), MISSING),
        bad("a user message's content is null", put("messages[2].content", None), MISSING),
        bad("a content that is a number", put("messages[2].content", 7), TYPE),
        bad("a content that is a boolean", put("messages[2].content", False), TYPE),
        bad("one part instead of an array", put("messages[2].content", {"type": "text", "text": "Hi."}), TYPE),
        bad("no part at all", put("messages[4].content", []), EMPTY_ARRAY),
        bad("an assistant's content is a number", put("messages[3].content", 7), TYPE),
    ),
    *made_from(
        CALLING,
        bad("a result without content", drop("messages[3].content"), MISSING),
        bad("a result's content is null", put("messages[3].content", None), MISSING),
        bad("a result's content is an object", put("messages[3].content", {"degrees": 18}), TYPE),
        bad("a result's content is a number", put("messages[3].content", 18), TYPE),
        bad("a result without a part", put("messages[5].content", []), EMPTY_ARRAY),
    ),
]
_PARTS = [
    *made_from(
        PLAIN,
        bad("a part as a string", put("messages[4].content[0]", "Hi."), TYPE),
        bad("a part that is null", put("messages[4].content[0]", None), TYPE),
        bad("a second part that is an array", put("messages[4].content[1]", []), TYPE),
        bad("a part without a type", drop("messages[4].content[0].type"), MISSING),
        bad("a part's type is null", put("messages[4].content[0].type", None), MISSING),
        bad("a part's type is a number", put("messages[4].content[0].type", 1), TYPE),
        bad("an unknown type of part", put("messages[4].content[0].type", "video"), VALUE),
        bad("a type of part of the Responses API", put("messages[4].content[0].type", "input_text"), VALUE),
        bad("a text part without text", drop("messages[4].content[0].text"), MISSING),
        bad("a text part's text is null", put("messages[4].content[0].text", None), MISSING),
        bad("a text part's text is a number", put("messages[4].content[0].text", 7), TYPE),
        bad("a text part's text is an array", put("messages[4].content[0].text", ["Hi."]), TYPE),
        bad("an image without image_url", put(_IMAGE, {"type": "image_url"}), MISSING, f"{_IMAGE}.image_url"),
        bad("an image_url that is a number", put(_IMAGE, _image(7)), TYPE, f"{_IMAGE}.image_url"),
        bad("an image_url without url", put(_IMAGE, _image({})), MISSING, f"{_IMAGE}.image_url.url"),
        bad("an image's url that is a number", put(_IMAGE, _image({"url": 7})), TYPE, f"{_IMAGE}.image_url.url"),
        bad("a sound without input_audio", put(_IMAGE, {"type": "input_audio"}), MISSING, f"{_IMAGE}.input_audio"),
        bad(
            "a sound as a string",
            put(_IMAGE, {"type": "input_audio", "input_audio": "AAAA"}),
            TYPE,
            f"{_IMAGE}.input_audio",
        ),
        bad("a file as a string", put(_IMAGE, {"type": "file", "file": "a.pdf"}), TYPE, f"{_IMAGE}.file"),
        bad("a refusal of the user's", put("messages[4].content[0]", _REFUSAL), VALUE, "messages[4].content[0].type"),
        bad(
            "a refusal without words",
            put("messages[3].content[0]", {"type": "refusal"}),
            MISSING,
            "messages[3].content[0].refusal",
        ),
        bad(
            "a refusal in numbers",
            put("messages[3].content[0]", {"type": "refusal", "refusal": 1}),
            TYPE,
            "messages[3].content[0].refusal",
        ),
        bad(
            "an image of the system's",
            put("messages[0].content", [_image("data:,")]),
            VALUE,
            "messages[0].content[0].type",
        ),
        bad(
            "an image of the developer's",
            put("messages[1].content[1]", _image("data:,")),
            VALUE,
            "messages[1].content[1].type",
        ),
        bad(
            "an image of the assistant's",
            put("messages[3].content[0]", _image("data:,")),
            VALUE,
            "messages[3].content[0].type",
        ),
    ),
]
_TEXTS = made_from(
    PLAIN,
    bad("a name that is a number", put("messages[2].name", 7), TYPE),
    bad("a name that is an object", put("messages[2].name", {}), TYPE),
    bad("a name of the system's that is an array", put("messages[0].name", []), TYPE),
    bad("a thought that is a number", put("messages[3].reasoning", 7), TYPE),
    bad("thoughts as parts", put("messages[3].reasoning_content", [_TEXT]), TYPE),
    bad("a refusal that is a boolean", put("messages[3].refusal", True), TYPE),
)

ROWS = [*_MODEL, *_SHAPE, *_ROLES, *_CONTENT, *_PARTS, *_TEXTS]
