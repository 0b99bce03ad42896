"""The paths that backends are asked for besides the gateway's own."""

from __future__ import annotations

import re

from extproc.names import ANSWERED_PATHS, HEALTH_PATH, MODELS_PATH, without_version

OTHER_PATHS = (
    "/v1/completions",
    "/v1/embeddings",
    "/v1/rerank",
    "/v2/rerank",
    "/rerank",
    "/v1/score",
    "/score",
    "/v2/embed",
    "/pooling",
    "/classify",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/audio/speech",
    "/v1/images/generations",
    "/v1/images/edits",
    "/tokenize",
    "/detokenize",
)
"""What vLLM serves for clients besides chat completions and models. It has far more paths, without a key of its own for
most of them: they load adapters, pause it, put it to sleep, tell how it is configured (its documentation, on security).
Left out as well: `/health`, which is the gateway's own, as `/v1/messages` is."""


_EXACT_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~:@-]+)+")


def check_exact_path(path: str) -> str:
    """The same. Raises ValueError for what Envoy couldn't compare, or the gateway serves itself."""
    # Envoy compares it with a path without escapes, empty segments and dots: written otherwise, it would match nothing.
    if not _EXACT_PATH.fullmatch(path):
        raise ValueError(
            f"expected one exact path such as /v1/embeddings, without escapes, wildcards, a query or a slash at its "
            f"end, got {path!r}"
        )
    own = (*ANSWERED_PATHS, MODELS_PATH)
    if path == HEALTH_PATH or path in own or path in map(without_version, own):
        raise ValueError(f"{path} is served by the gateway itself")
    return path
