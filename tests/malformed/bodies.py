"""Bodies that are not the one JSON object, in UTF-8 and with every key once, that a request has to be."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from tests.malformed.edits import JSON, Row, bad, both, made_from, put, raw, twice
from tests.malformed.legal import CALLING, CHOOSING, LEGACY, PLAIN

_BODY = orjson.dumps(PLAIN)
_MEGABYTES = "x" * 10_000_000


def _sent(name: str, body: bytes | Callable[[], bytes]) -> Row:
    return Row(name, JSON, None, body if callable(body) else lambda: body)


_NO_OBJECT = [
    _sent("nothing", b""),
    _sent("white space", b" \r\n\t "),
    _sent("null", b"null"),
    _sent("true", b"true"),
    _sent("a number", b"7"),
    _sent("a string", b'"hello"'),
    _sent("an array", b"[]"),
    _sent("the request in an array", b"[%s]" % _BODY),
    _sent("the request as a string", orjson.dumps(_BODY.decode())),
    _sent("a form", b"model=coder&messages=hello"),
]
_SYNTAX = [
    _sent("cut in the middle", _BODY[: len(_BODY) // 2]),
    _sent("cut before the last brace", _BODY[:-1]),
    _sent("a brace too many", _BODY + b"}"),
    _sent("two requests", _BODY + b"\n" + _BODY),
    _sent("text behind", _BODY + b" ok"),
    _sent("a NUL behind", _BODY + b"\0"),
    _sent("text before", b"data: " + _BODY),
    _sent("a comma at the end", _BODY[:-1] + b",}"),
    _sent("two commas", _BODY.replace(b",", b",,", 1)),
    _sent("no comma", _BODY.replace(b",", b" ", 1)),
    _sent("an equals sign", _BODY.replace(b":", b"=", 1)),
    _sent("Python's quotes", _BODY.replace(b'"', b"'")),
    _sent("a bare key", _BODY.replace(b'"model"', b"model", 1)),
    _sent("a number as key", _BODY[:-1] + b",1:2}"),
    _sent("a key without a value", _BODY[:-1] + b',"temperature"}'),
    _sent("a comment", b"/* hello */" + _BODY),
    _sent("a string without an end, of 10 MB", lambda: _BODY[:-1] + b',"user":"' + _MEGABYTES.encode()),
]
_TOO_LARGE = ("1e999", "-1e999")
_NUMBERS = made_from(
    PLAIN,
    *(
        bad(f"{literal} for a number", put("temperature", raw(literal)), JSON)
        for literal in "NaN Infinity -Infinity -NaN nan inf 01 .5 1. +1 0x10 1_000 1e -".split()
    ),
    *(bad(f"{literal} for a number", put("temperature", raw(literal)), JSON, "temperature") for literal in _TOO_LARGE),
    bad("NaN for an unknown parameter", put("unheard_of", raw("NaN")), JSON),
    bad("Infinity in metadata", put("metadata", raw('{"a": Infinity}')), JSON),
    bad(
        "a number too large by its digits and its exponent",
        put("unheard_of", raw("9" * 250 + "e99")),
        JSON,
        "unheard_of",
    ),
    bad("1e999 in an array", put("unheard_of", raw("[1, 1e999]")), JSON, "unheard_of[1]"),
    bad("Python's None", put("stop", raw("None")), JSON),
    bad("Python's True", put("stream", raw("True")), JSON),
    bad("JavaScript's undefined", put("stop", raw("undefined")), JSON),
)
_ENCODINGS = [
    _sent("a byte order mark", b"\xef\xbb\xbf" + _BODY),
    _sent("UTF-16", _BODY.decode().encode("utf-16")),
    _sent("UTF-16 without a mark", _BODY.decode().encode("utf-16-le")),
    _sent("UTF-32", _BODY.decode().encode("utf-32")),
    *made_from(
        PLAIN,
        *(
            bad(f"{name} in a message", put("messages[2].content", raw(b'"a%s b"' % octets)), JSON)
            for name, octets in {
                "Latin-1": "ü".encode("latin-1"),
                "half a character": "€".encode()[:2],
                "a continuation byte": b"\x80",
                "an overlong slash": b"\xc0\xaf",
                "a surrogate as UTF-8": b"\xed\xa0\x80",
                "a character beyond Unicode": b"\xf4\x90\x80\x80",
                "the byte FF": b"\xff",
            }.items()
        ),
        bad("Latin-1 in a key", put("metadata", raw(b'{"\xfc": "x"}')), JSON),
        bad("Latin-1 in the model's name", put("model", raw(b'"cod\xe9r"')), JSON),
    ),
]
_STRINGS = made_from(
    PLAIN,
    *(
        bad(f"{name} in a message", put("messages[2].content", raw(f'"a{text}b"')), JSON)
        for name, text in {
            "a high surrogate alone": r"\ud83d",
            "a low surrogate alone": r"\udca9",
            "surrogates in the wrong order": r"\udca9\ud83d",
            "a high surrogate twice": r"\ud83d\ud83d",
            "an escape that JSON has not": r"\x41",
            "half an escape": r"\u12",
            "a line break": "\n",
            "a tab": "\t",
            "a NUL": "\0",
        }.items()
    ),
    bad("a surrogate alone as key", put("metadata", raw(r'{"\ud83d": "x"}')), JSON),
    bad("a surrogate alone as model", put("model", raw(r'"\ud83d"')), JSON),
)
_DEEP = [
    _sent("5,000 arrays", b"[" * 5000 + b"]" * 5000),
    _sent("5,000 objects", b'{"a":' * 5000 + b"1" + b"}" * 5000),
    _sent("100,000 open arrays", b"[" * 100_000),
    *made_from(
        CHOOSING,
        bad("5,000 arrays in a parameter", put("unheard_of", raw("[" * 5000 + "]" * 5000)), JSON),
        bad("5,000 arrays in a content", put("messages[0].content", raw("[" * 5000 + "]" * 5000)), JSON),
        bad(
            "5,000 objects in a schema",
            put("tools[0].function.parameters", raw('{"not":' * 5000 + "{}" + "}" * 5000)),
            JSON,
        ),
        bad("one level too deep", put("unheard_of", raw("[" * 200 + "1" + "]" * 200)), JSON),
    ),
]
_DUPLICATES = [
    *made_from(
        CALLING,
        bad("model twice", twice("model"), JSON, "model"),
        bad("messages twice", twice("messages"), JSON, "messages"),
        bad("tools twice", twice("tools"), JSON, "tools"),
        bad("a role twice", twice("messages[0].role"), JSON, "messages[0].role"),
        bad("a content twice", twice("messages[1].content"), JSON, "messages[1].content"),
        bad("a key of a part twice", twice("messages[5].content[0].text"), JSON, "messages[5].content[0].text"),
        bad("an id twice", twice("messages[2].tool_calls[1].id"), JSON, "messages[2].tool_calls[1].id"),
        bad(
            "arguments twice",
            twice("messages[2].tool_calls[0].function.arguments"),
            JSON,
            "messages[2].tool_calls[0].function.arguments",
        ),
        bad("tool_call_id twice", twice("messages[3].tool_call_id"), JSON, "messages[3].tool_call_id"),
        bad("a tool's name twice", twice("tools[1].function.name"), JSON, "tools[1].function.name"),
        bad(
            "a property twice",
            twice("tools[0].function.parameters.properties.city"),
            JSON,
            "tools[0].function.parameters.properties.city",
        ),
        bad("the same key in another spelling", twice("model", spelled=r'"\u006dodel"'), JSON, "model"),
    ),
    *made_from(
        PLAIN,
        bad("a parameter twice", put("metadata", raw('{"a": "1", "b": "2", "a": "1"}')), JSON, "metadata.a"),
        bad("a key of an unknown parameter twice", put("x", raw('[[{"y": 1, "y": 2}]]')), JSON, "x[0][0].y"),
    ),
    *made_from(
        CALLING,
        bad(
            "two keys twice, the first deep down",
            both(put("user", "ann"), twice("messages[0].role"), twice("user")),
            JSON,
            "messages[0].role",
        ),
    ),
    *made_from(LEGACY, bad("functions twice", twice("functions"), JSON, "functions")),
]

ROWS = [*_NO_OBJECT, *_SYNTAX, *_NUMBERS, *_ENCODINGS, *_STRINGS, *_DEEP, *_DUPLICATES]
