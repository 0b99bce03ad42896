"""What a person reads when the gateway is ready: where it is, what it serves, and what to type next."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from shutil import which

from extproc.config import Address, Config, reachable
from extproc.names import CHARACTER

_REQUEST = """{
  "model": %(model)s,
  "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
  "tools": [{"type": "function", "function": {
    "name": "get_weather",
    "description": "Get the current weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
  }}]
}"""


def as_typed() -> str:
    """Our own command as it can be typed here: in a checkout nothing has put it on PATH."""
    if which("extproc"):
        return "extproc"
    own = sys.argv[0]
    return shlex.quote(own) if Path(own).name == "extproc" else f"{shlex.quote(sys.executable)} -m extproc"


def guide(
    config: Config,
    metrics: str | None = None,
    recordings: Path | None = None,
    page: str | None = None,
    sockets: Path | None = None,
    command: str = "extproc",
) -> str:
    """The text, with commands that work as they stand, our own as `command`; metrics, recordings, the page that
    shows exchanges and the sockets that one could be fed from are there, if anywhere."""
    scheme = "https" if config.tls is not None else "http"
    base_url = f"{scheme}://{reachable(config.listen_address)}/v1"
    model = config.models[0].name
    exchanges = _page(page) or _watching(config, sockets, command)
    return f"""\
Ready at {base_url}

{_models(config)}
{_characters(config)}{_metrics(metrics)}{_recordings(recordings)}{exchanges}
Talk with it in another terminal:

{command} chat {base_url}

Or ask as a program does, with a tool:

{_curl(base_url, model, with_key=config.identifies_clients)}

For a stream add "stream": true to the request, and -N to curl.

In Cline choose the API provider "OpenAI Compatible", and set
  Base URL   {base_url}
  API Key    {_key(config)}
  Model ID   {model}

Ctrl-C stops the gateway.
"""


def _characters(config: Config) -> str:
    if config.characters is None:
        return ""
    return f"\nCharacters of {config.characters}, each as the model {CHARACTER}NAME: see GET /v1/models\n"


def _metrics(address: str | None) -> str:
    return f"\nMetrics at http://{reachable(Address.parse(address))}/metrics\n" if address is not None else ""


def _recordings(directory: Path | None) -> str:
    if directory is None:
        return ""
    return f"\nRequests are recorded in {directory}, prompts and answers included.\n"


def _page(url: str | None) -> str:
    return f"\nExchanges are shown, prompts and answers included, at {url}\n" if url is not None else ""


def _watching(config: Config, sockets: Path | None, command: str) -> str:
    """How to see the exchanges of a gateway that lets itself be watched."""
    if not config.watch or sockets is None:
        return ""
    return f"\nSee its exchanges, prompts and answers included: {command} watch --sockets {shlex.quote(str(sockets))}\n"


def _key(config: Config) -> str:
    if config.api_keys is not None:
        return f"a key whose hash is in {config.api_keys}"
    if config.jwt is not None:
        return f"a token of {config.jwt.issuer}"
    return "anything (no key is required)"


def _models(config: Config) -> str:
    addresses = {backend.name: ", ".join(backend.address) for backend in config.backends}
    rows = [("model", "backend", "tool calls")]
    for model in config.models:
        tools = "auto" if model.name in config.ladders else model.tools
        rows.append((model.name, addresses[model.backend], f"{tools}, {model.format}"))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return "\n".join(f"  {row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]}" for row in rows)


def _curl(base_url: str, model: str, *, with_key: bool) -> str:
    body = _REQUEST % {"model": json.dumps(model, ensure_ascii=False)}
    key = ' -H "authorization: Bearer $API_KEY"' if with_key else ""
    return f"curl {base_url}/chat/completions -H 'content-type: application/json'{key} -d {shlex.quote(body)}"
