"""Tools that run on our side: characters and MCP servers, and the loop of model rounds around them.

A process of its own (`extproc runner`), which Envoy reaches like a backend. Requests for a character, or for a model
with `tool_servers`, come to it as the client sent them; each model round goes out as an ordinary chat completion
through Envoy's inner listener.
"""
