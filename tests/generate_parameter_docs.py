"""Writes docs/parameters.md from the table of parameters: `python -m tests.generate_parameter_docs`.

A test fails when the page is stale.
"""

from __future__ import annotations

from pathlib import Path

from extproc.contract.parameters import PARAMETERS, Parameter
from extproc.contract.withheld import WITHHELD

PAGE = Path(__file__).parent.parent / "docs" / "parameters.md"

_HEAD = """\
# Request parameters

What `POST /v1/chat/completions` accepts besides `model`, `messages` and the tool parameters (`tools`, `tool_choice`,
`parallel_tool_calls`, `functions`, `function_call`). A value that isn't accepted is a 400 whose `param` is the path of
what is wrong, such as `stop[1]` or `logit_bias.50256`; `null` is the same as leaving the parameter out. `10.0` is an
integer, and goes on as `10`.

What doesn't go to the backend is named, in alphabetical order, in the response header `x-extproc-dropped`, so that
nothing is lost unseen. A backend that takes more than vLLM does gets it once its entry in the configuration lists the
names, as in `backends: [{name: qwen, address: "10.0.0.1:8000", parameters: [best_of]}]`.

Any other parameter is accepted, whatever its value, and dropped: OpenAI's `audio`, `prediction` and
`web_search_options`, say, or those of vLLM's that only its render endpoints read (`mm_payload`, `return_mm_kwargs`,
`return_token_offsets`). "Backend" is what goes to it by default: the fields that vLLM 0.32.0 knows. One with another
`server` gets those of them that such a server knows ([servers](servers.md)).

Where "backend" says "withheld" or "refused", clients aren't trusted with a parameter that vLLM takes, unless the
settings say otherwise; [below](#what-clients-arent-trusted-with) is why.

The table is made by `python -m tests.generate_parameter_docs` from `extproc/contract/parameters.py`.

| parameter | accepted | backend | remark |
| --- | --- | --- | --- |
"""


_WITHHELD = """
## What clients aren't trusted with

vLLM is made for clients that it can trust as it trusts itself, and some of what it takes reaches past the request
that it comes with. So no backend gets these from a client. What is dropped is named in `x-extproc-dropped`; where the
answer would be another without it, the request is refused (400 `parameter_withheld`). A name with a dot is a
member's, or what a part of a message's `content` may be or have.

`withheld` in the [settings](configuration.md) replaces this list as a whole, with names of any parameters;
`parameters` of a backend lets some of it through to that backend. Defaults of a model are the settings' own and
always go on.

| what | its fate | why |
| --- | --- | --- |
"""

_REST = """
All other members of `chat_template_kwargs`, such as `enable_thinking`, pass: they are variables of the template.

### URLs of images, audio and video

A backend fetches what `image_url`, `audio_url` and `video_url` name, from inside of your network. With `media_urls:
public`, the default, such a URL has to be plain `http` or `https`, with a public address or a name that isn't
reserved for private networks, or hold the content itself (`data:`); all else is refused with a 400 that names the
part: `file:`, other schemes, private, link-local, loopback, shared and multicast addresses in whatever spelling,
names without a dot, `.internal`, `.local`, `.svc` and their like, users, escapes or anything but ASCII in the host.
`none` allows `data:` alone, `any` whatever the backend takes.

The gateway asks no DNS: a public name that leads to a private address, and a server that redirects to one, are for
vLLM to refuse. Start it with `--allowed-media-domains` and `VLLM_MEDIA_URL_ALLOW_REDIRECTS=0`, or set `media_urls:
none`.

### Other paths

All of this is about chat completions. What `other_paths` lists goes to its backend unread but for its model:
`priority`, `cache_salt`, `kv_transfer_params`, `vllm_xargs` and `request_id` of `/v1/completions`, `/v1/embeddings`
and the others arrive there, and so do `prompt_embeds`, the `chat_template` of `/tokenize` and the URLs of
`/v1/score` and `/v1/rerank`. Only the headers are held back there as well. Where clients aren't
trusted, list the paths that they need, and none if they need none (`other_paths: []`); start vLLM without
`--enable-prompt-embeds` and `--trust-request-chat-template`, and with `--scheduling-policy priority` only if
nobody who isn't trusted can use `other_paths` ([interactive and batch](configuration.md#interactive-and-batch)).
"""


def page() -> str:
    """The whole page."""
    withheld = "".join(f"| `{name}` | {fate} | {why} |\n" for name, (fate, why) in WITHHELD.items())
    return _HEAD + "".join(map(_row, PARAMETERS)) + _WITHHELD + withheld + _REST


def _row(row: Parameter) -> str:
    only = f"only with `{row.needs}: true`" if row.needs else ""
    remark = "; ".join(filter(None, (only, row.remark)))
    fate, _ = WITHHELD.get(row.name, ("", ""))
    backend = {"dropped": "withheld", "refused": "refused"}.get(fate, "yes" if row.forwarded else "no")
    return f"| `{row.name}` | {row.check.details} | {backend} | {remark} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(PAGE.parent.parent))
