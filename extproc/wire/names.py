"""The names that Envoy's bootstrap and the processor must agree on.

They are no part of the protocol: `extproc.envoy` configures them and the processor uses them, so they stand here,
where neither has to import the other.
"""

from __future__ import annotations

CHAT_PATH = "/v1/chat/completions"
"""POSTs to this path are the only exchanges that Envoy shows to the processor."""

BACKEND_HEADER = "x-extproc-backend"
"""Set by the processor in its reply to the request body: the backend, which is also the name of a cluster.

Envoy drops the header when a client sends it, and withholds it from the backend. The reply must also set
`clear_route_cache`, because the route was chosen before the header was there.
"""

METADATA_NAMESPACE = "extproc"
"""The namespace of `dynamic_metadata` that Envoy accepts from the processor and writes to its access log."""

DETAILS_PREFIX = "extproc."
"""What `details` of every ImmediateResponse must begin with.

Envoy's configuration replaces the body of local replies; by this prefix it knows those that the processor has
written itself, and leaves them alone.
"""
