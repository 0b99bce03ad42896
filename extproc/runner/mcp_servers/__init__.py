"""MCP servers as sources of tools, by the official SDK.

    servers.py    all that are configured, and what a reload changes
    server.py     one of them: its session, and the calls in it
    gate.py       between the transport and the SDK's session: what gets through, and how fast
    program.py    the transport to a program, by its standard input and output
    http_link.py  the transport by HTTP
    offer.py      which tools models are offered, and as what            pure
    results.py    what a model is told of a call                         pure

What a server says is text from outside: bounded, and never in the log but for its stderr.
"""

from extproc.runner.mcp_servers.server import ServerState
from extproc.runner.mcp_servers.servers import ToolServers

__all__ = ["ServerState", "ToolServers"]
