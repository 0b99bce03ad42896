"""How many tokens a text has by estimate: as OpenAI counts them, and never a long wait."""

from __future__ import annotations

import gzip
import io
import random
import time
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from extproc.contract.token_count import Excerpt, vocabulary


def test_nothing_is_no_token() -> None:
    assert Excerpt().tokens() == Excerpt([""]).tokens() == 0


TEXTS = [
    "Hello, world!",
    "naïve façade — 東京, 2026-12-20 \U0001f44b\n\n\tif x:  \r\n",
    "it's we'll THEY'RE 1234567 <|im_start|>user {\"a\": [1, null]}   ",
    Path(__file__).read_text(encoding="utf-8"),
]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> tiktoken.Encoding:
    """tiktoken's own: it takes our file for the one that it would fetch only if the hash is the one it knows."""
    cache = tmp_path_factory.mktemp("cache")
    (cache / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4").write_bytes(
        vocabulary()
    )  # the SHA-1 of where it would fetch it
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(cache))
        return tiktoken.get_encoding("cl100k_base")


@pytest.mark.parametrize("text", TEXTS)
def test_short_texts_are_counted_as_openai_does(text: str, theirs: tiktoken.Encoding) -> None:
    assert Excerpt([text]).tokens() == len(theirs.encode_ordinary(text))


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    changed = tmp_path / "vocabulary.gz"
    changed.write_bytes(gzip.compress(vocabulary().replace(b"IQ== 0", b"Ig== 0", 1)))
    with pytest.raises(ValueError, match=r"vocabulary\.gz isn't the vocabulary that tiktoken publishes"):
        vocabulary(changed)


@given(st.lists(st.text(max_size=3000), max_size=12), st.integers(1, 5000))
def test_it_is_the_same_however_the_text_is_cut(texts: list[str], size: int) -> None:
    text = "".join(texts)
    cut = Excerpt(text[at : at + size] for at in range(0, len(text), size))
    assert Excerpt(texts).tokens() == cut.tokens() == Excerpt([text]).tokens()


@pytest.mark.parametrize("length", [10_000, 65_536, 65_537, 100_000, 400_000])
def test_long_texts_are_counted_by_pieces(length: int) -> None:
    text = _words(length)
    real = sum(Excerpt([text[at : at + 4000]]).tokens() for at in range(0, length, 4000))
    tokens = Excerpt([text]).tokens()
    assert tokens == pytest.approx(real, rel=0.02)
    assert Excerpt(text[at : at + 5] for at in range(0, length, 5)).tokens() == tokens


@pytest.mark.parametrize("character", ["a", " ", "\n", "!", "é", "東", "\U0001f469"])
def test_a_huge_text_costs_no_more_than_a_long_one(character: str) -> None:
    Excerpt(["load"]).tokens()
    began = time.process_time()
    tokens = Excerpt([character * 30_000_000]).tokens()
    assert time.process_time() - began < 1, "some 10 ms; the whole text would take half a minute"
    assert tokens > 100_000


def _words(length: int) -> str:
    """Words, of which the later ones are longer."""
    source = random.Random(length)
    text = io.StringIO()
    while (size := text.tell()) < length:
        text.write("".join(source.choices("etaoinshrdlu", k=source.randint(1, 4 + 8 * size // length))) + " ")
    return text.getvalue()[:length]
