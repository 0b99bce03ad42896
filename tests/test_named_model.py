"""The model that a request of any path names: found where every reader finds it, and replaced where it stands."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.config import Config, parse
from extproc.contract.errors import ApiError
from extproc.contract.named_model import MOST_PARTS, named_model
from extproc.exchange.routing import route_by_model

JSON = "application/json"
BOUNDARY = "multipart/form-data; boundary=xyz"
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
)


def config(backends: str = "a: a, b: b", upstream: str = "") -> Config:
    """Models of these names at these backends."""
    served = [pair.split(": ") for pair in backends.split(", ")]
    models = [
        {"name": name, "backend": backend, "tools": "native", **({"upstream_model": upstream} if upstream else {})}
        for name, backend in served
    ]
    places = [{"name": name, "address": "127.0.0.1:1"} for name in sorted({backend for _, backend in served})]
    return parse(json.dumps({"models": models, "backends": places}))


@pytest.mark.long
@given(
    before=st.dictionaries(st.text().filter("model".__ne__), _JSON, max_size=4),
    after=st.dictionaries(st.text().filter("model".__ne__), _JSON, max_size=4),
    name=st.text(min_size=1),
    new=st.text(min_size=1),
    indent=st.none() | st.integers(0, 2),
    ascii_only=st.booleans(),
)
def test_of_an_object_nothing_but_the_models_name_changes(
    before: dict[str, Any], after: dict[str, Any], name: str, new: str, indent: int | None, ascii_only: bool
) -> None:
    after = {key: value for key, value in after.items() if key not in before}

    def written(model: str) -> bytes:
        value = {**before, "model": model, **after}
        return json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    body = written(name)
    found = named_model(body, JSON)
    assert found is not None
    assert found.name == name
    renamed = found.renamed(body, new)
    assert renamed[: found.start] == body[: found.start]
    assert renamed.endswith(body[found.end :])
    assert repr(json.loads(renamed)) == repr(json.loads(written(new)))  # NaN is like no other NaN


@given(
    parts=st.dictionaries(st.text("abcmodel_", min_size=1), st.binary(), max_size=5), name=st.text("abc/ü-", min_size=1)
)
def test_of_a_form_nothing_but_the_models_part_changes(parts: dict[str, bytes], name: str) -> None:
    parts = {key: value for key, value in parts.items() if key != "model"}
    files = {key: ("x.wav", value, "audio/wav") for key, value in parts.items()}
    request = httpx.Request("POST", "http://x/", data={"model": name, "language": "de"}, files=files or {"file": b""})
    body, content_type = request.read(), request.headers["content-type"]
    found = named_model(body, content_type)
    assert found is not None
    assert found.name == name
    renamed = found.renamed(body, "new/name")
    assert renamed == body[: found.start] + b"new/name" + body[found.end :]
    again = named_model(renamed, content_type)
    assert again is not None
    assert again.name == "new/name"


def form(*parts: str) -> bytes:
    return "".join(f"--xyz\r\n{part}\r\n" for part in parts).encode() + b"--xyz--\r\n"


MODEL_PART = 'Content-Disposition: form-data; name="model"\r\n\r\nm'


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"", JSON, "invalid_json"),
        (b"[1]", JSON, "invalid_json"),
        (b'{"model": "a"', JSON, "invalid_json"),
        (b'{"model": "a', JSON, "invalid_json"),
        (b'{"model": ', JSON, "invalid_json"),
        (b'{"model": \xff}', JSON, "invalid_json"),
        (b'{"model": "\\ud800"}', JSON, "invalid_json"),
        ('{"model": "a"}'.encode("utf-16-le"), JSON, "invalid_json"),
        # What two readers take for different models.
        (b'{"model": "a", "model": "b"}', JSON, "invalid_json"),
        (b'{"model": "a", "mod\\u0065l": "b"}', JSON, "invalid_json"),
        (form(MODEL_PART, MODEL_PART), BOUNDARY, "invalid_form"),
        (form(MODEL_PART, "content-disposition: form-data; name*=utf-8''model\r\n\r\nb"), BOUNDARY, "invalid_form"),
        (b'{"model": "a", "Model": "b"}', JSON, "invalid_json"),
        (form('Content-Disposition: form-data; name="x"; name="model"\r\n\r\nb', MODEL_PART), BOUNDARY, "invalid_form"),
        (form("Content-Disposition: form-data; name=x; name*=utf-8''model\r\n\r\nb"), BOUNDARY, "invalid_form"),
        (form(f"Content-Disposition: form-data; name=x\r\n{MODEL_PART}"), BOUNDARY, "invalid_form"),
        (form(MODEL_PART), f"{BOUNDARY}; boundary=other", "invalid_form"),
        (b"--other\r\nx\r\n" + form(MODEL_PART), BOUNDARY, "invalid_form"),
        (b'{"model": 5}', JSON, "invalid_type"),
        (b'{"model": {"a": "model"}}', JSON, "invalid_type"),
        (b'{"model": ["a"]}', JSON, "invalid_type"),
        (b'{"model": ""}', JSON, "invalid_value"),
        (form(MODEL_PART), "multipart/form-data", "invalid_form"),
        (form(MODEL_PART), "multipart/form-data; boundary=other", "invalid_form"),
        (form(MODEL_PART)[:-8], BOUNDARY, "invalid_form"),
        (b"--xyz\r\nno end", BOUNDARY, "invalid_form"),
        (b"--xyz and more\r\n\r\n--xyz--", BOUNDARY, "invalid_form"),
        (form(*["\r\n"] * MOST_PARTS, MODEL_PART), BOUNDARY, "invalid_form"),
        (b"--xyz\r\n" + MODEL_PART.encode() + b"\xff\r\n--xyz--", BOUNDARY, "invalid_value"),
    ],
)
def test_what_can_not_be_read_is_refused(body: bytes, content_type: str, code: str) -> None:
    with pytest.raises(ApiError) as refused:
        named_model(body, content_type)
    assert (refused.value.status, refused.value.code) == (400, code)


@pytest.mark.parametrize(
    "body", [b"{}", b'{"model": null}', b'{"a": {"model": "b"}, "c": "model"}', b'{"x": ["model", ":", "y"]}']
)
def test_an_object_may_name_no_model(body: bytes) -> None:
    assert named_model(body, JSON) is None


@pytest.mark.parametrize(
    "body",
    [b'{"' + b'\\"' * 500_000, b"{" + b"[" * 1_000_000, b'{"a":' + b'"",' * 300_000, b'{"model"' + b" " * 1_000_000],
)
def test_reading_takes_time_in_proportion_to_the_bytes(body: bytes) -> None:
    """These would take minutes otherwise."""
    with pytest.raises(ApiError):
        named_model(body, JSON)


def test_a_request_goes_where_its_model_is() -> None:
    there = route_by_model(b'{"model": "b"}', JSON, config("a: one, b: two"))
    assert (there.backend, there.model, there.body, there.answer) == ("two", "b", None, None)
    renamed = route_by_model(b'{"model": "b"}', JSON, config("b: two", upstream="org/b"))
    assert renamed.body == b'{"model": "org/b"}'
    with pytest.raises(ApiError, match="model_not_found"):
        route_by_model(b'{"model": "org/b"}', JSON, config("b: two", upstream="org/b"))


def test_a_request_that_names_no_model_goes_to_the_only_backend() -> None:
    alone = route_by_model(b"{}", JSON, config("a: one, b: one"))
    assert (alone.backend, alone.model, alone.body) == ("one", None, None)
    with pytest.raises(ApiError, match="missing_required_parameter"):
        route_by_model(b"{}", JSON, config("a: one, b: two"))


def test_a_form_may_begin_with_a_line_that_is_empty() -> None:
    found = named_model(b"\r\n" + form(MODEL_PART), BOUNDARY)
    assert found is not None
    assert found.name == "m"


def test_where_one_backend_knows_all_models_by_their_names_nothing_is_read() -> None:
    assert not config("a: one, b: one").routes_by_model
    assert config("a: one, b: two").routes_by_model
    assert config("a: one", upstream="org/a").routes_by_model
