"""OpenAI's wire contract for chat completions: requests, completions, chunks, errors and SSE framing.

Pure: bytes and dictionaries in, bytes and dictionaries out. It knows nothing of how models write calls.
Source of the shapes: OpenAI's API reference for chat completions, and recorded vLLM traffic.
"""
