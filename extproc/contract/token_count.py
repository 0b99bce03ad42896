"""How many tokens a text has, roughly: for when the server that has the model's own tokenizer doesn't say.

The vocabulary is `cl100k_base`, from which those of Qwen and Llama 3 were made: they split text much alike. It is
tiktoken's own file, kept compressed beside this module (`cl100k_base.LICENSE` says whose it is) and held to the hash
that tiktoken publishes. It is read from there and nowhere else: tiktoken's own loader would fetch it, or copy it into a
temporary directory, which a container with a read-only file system doesn't have. That happens when something is counted
for the first time (some 0.2 s, 45 MB), because most processes never count.

Time is bounded whatever the text: of a long one, pieces are counted and the rest is taken to be like them.
Source of the pattern and the hash: tiktoken, `tiktoken_ext/openai_public.py`.
"""

from __future__ import annotations

import gzip
from base64 import b64decode
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiktoken import Encoding

_PIECE = 4096
"""Characters. 0.3 to 0.7 ms to count, whatever they are; a run of 400,000 equal ones at once takes 0.2 s."""
_MOST_PIECES = 16
LONGEST_WHOLE = _PIECE * _MOST_PIECES
"""Characters of a text that is kept as it is."""

_VOCABULARY = Path(__file__).with_name("cl100k_base.tiktoken.gz")
_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
_PATTERN = "|".join(
    (
        r"'(?i:[sdmt]|ll|ve|re)",
        r"[^\r\n\p{L}\p{N}]?+\p{L}++",
        r"\p{N}{1,3}+",
        r" ?[^\s\p{L}\p{N}]++[\r\n]*+",
        r"\s++$",
        r"\s*[\r\n]",
        r"\s+(?!\S)",
        r"\s",
    )
)


class Excerpt:
    """A text of any length, kept for counting: whole up to 64 Ki characters, then evenly spread pieces of it."""

    __slots__ = ("_kept", "_open", "_open_length", "_seen", "_stride")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """`texts` are its beginning, without anything between them."""
        self._kept: list[str] = []
        self._seen = 0  # complete pieces so far
        self._stride = 1  # of so many of them one is kept
        self._open: list[str] = []  # what makes no complete piece yet
        self._open_length = 0
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """The text goes on with this."""
        room = _PIECE - self._open_length
        if len(text) < room:
            self._open.append(text)
            self._open_length += len(text)
            return
        self._open.append(text[:room])
        self._piece("".join(self._open), 0)
        end = len(text) - (len(text) - room) % _PIECE
        for start in range(room, end, _PIECE):
            self._piece(text, start)
        self._open = [text[end:]]
        self._open_length = len(text) - end

    def tokens(self) -> int:
        """How many there are by estimate; of a long text of very unlike parts it is a rough one."""
        if not self._open and not self._kept:
            return 0
        encode = _encoding().encode_ordinary
        tokens = len(encode("".join(self._open)))
        if self._kept:
            tokens += round(sum(len(encode(piece)) for piece in self._kept) * self._seen / len(self._kept))
        return tokens

    def _piece(self, text: str, start: int) -> None:
        """A piece is complete: the one that begins there."""
        if self._seen % self._stride == 0:
            if len(self._kept) == _MOST_PIECES:
                del self._kept[1::2]
                self._stride *= 2
            self._kept.append(text[start : start + _PIECE])
        self._seen += 1


@lru_cache(maxsize=1)
def _encoding() -> Encoding:
    from tiktoken import Encoding

    ranks = {
        b64decode(token): int(rank) for token, _, rank in (line.partition(b" ") for line in vocabulary().splitlines())
    }
    return Encoding("cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})


def vocabulary(path: Path = _VOCABULARY) -> bytes:
    """OpenAI's file: lines of a token in base64, a space and its rank. Raises ValueError if it is any other."""
    text = gzip.decompress(path.read_bytes())
    if (found := sha256(text).hexdigest()) != _SHA256:
        raise ValueError(
            f"{path.name} isn't the vocabulary that tiktoken publishes (SHA-256 {found}): reinstall extproc"
        )
    return text
