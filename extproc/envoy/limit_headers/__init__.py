"""The header fields of limits, by OpenAI's names and in its forms (`limit_headers.lua`).

Each of Envoy's filters of limits adds `x-ratelimit-limit`, `-remaining` and `-reset` to an answer, as one draft of the
IETF has them. Before each of them stands a filter which so sees the answer next, and makes its fields into those of
OpenAI: `x-ratelimit-limit-requests`, or `-tokens`, and `x-ratelimit-reset-requests: 7s`. All filters see a reply of
Envoy's own, those too that the request never came to: a filter that refuses one marks its reply.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.filters.http.lua.v3 import Lua
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager.v3 import HttpFilter

from extproc.config.global_limits import Whose
from extproc.envoy.extensions import packed
from extproc.names import LIMITED_HEADER

By: TypeAlias = Literal["tokens", "requests", "here"]
"""Which filter: of tokens, or requests, that all Envoys count together; or of requests that this one counts alone. Of
requests there may be several, which tell clients of the limit that has the least left."""

_PROGRAM = Path(__file__).with_name("limit_headers.lua")


def limit_headers(by: By, *, whose: Whose | None = None) -> HttpFilter:
    """What has to stand before that filter, which counts what is `whose`, if that is said."""
    program = f'local BY, MARK = "{by}", "{LIMITED_HEADER}"\n{_PROGRAM.read_text(encoding="utf-8")}'
    lua = Lua(default_source_code=core.DataSource(inline_string=program))
    return HttpFilter(name=f"extproc.headers_of_{by if whose is None else f'{whose}_{by}'}", typed_config=packed(lua))


def refused_by(by: By) -> core.HeaderValueOption:
    """The mark, which that filter adds where it refuses a request."""
    return core.HeaderValueOption(
        header=core.HeaderValue(key=LIMITED_HEADER, value=by),
        append_action=core.HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD,
    )


def is_refused_by(by: By) -> str:
    """The same as a CEL expression over the reply."""
    return f"('{LIMITED_HEADER}' in response.headers && response.headers['{LIMITED_HEADER}'] == '{by}')"
