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

`POST /v1/chat/completions` accepts these parameters besides `model`, `messages` and the tool parameters (`tools`,
`tool_choice`, `parallel_tool_calls`, `functions`, `function_call`). Any other value is a 400 whose `param` is the
path of what is wrong, such as `stop[1]` or `logit_bias.50256`. `null` is the same as leaving the parameter out.
`10.0` is an integer; the backend gets `10`.

The response header `x-extproc-dropped` names, in alphabetical order, what doesn't go to the backend, so that nothing is
lost unseen. If a backend takes more than vLLM does, list the names in its entry in the configuration:
`backends: [{name: qwen, address: "10.0.0.1:8000", parameters: [best_of]}]`.

Any parameter that isn't in the table is accepted, whatever its value, and dropped: for example OpenAI's `audio`,
`prediction` and `web_search_options`, or those that only vLLM's render endpoints read (`mm_payload`,
`return_mm_kwargs`, `return_token_offsets`).

The column "backend" says what goes to the backend by default: the fields that vLLM 0.32.0 knows. A backend with another
`server` gets those of them that such a server knows ([servers](servers.md)). "Withheld" and "refused" mean that vLLM
takes the parameter, but clients aren't trusted with it unless the settings say otherwise;
[below](#what-clients-arent-trusted-with) is why.

`python -m tests.generate_parameter_docs` writes this page, its tables from `extproc/contract/parameters.py` and
`extproc/contract/withheld.py`.

| parameter | accepted | backend | remark |
| --- | --- | --- | --- |
"""


_WITHHELD = """
## What clients aren't trusted with

vLLM is made for clients that it can trust as it trusts itself, and some of what it takes reaches beyond the request
that it comes with. So no backend gets the following from a client. If the answer is the same without it, it is dropped,
and named in `x-extproc-dropped`; otherwise the request is refused (400 `parameter_withheld`). A name with a dot is a
member of a parameter, or a type or member of the parts in a message's `content`.

`withheld` in the [settings](configuration.md) replaces this whole list, with the names of any parameters.
A backend's `parameters` lets some of it through to that backend. A model's defaults come from the settings, and always
reach the backend.

| what | what happens | why |
| --- | --- | --- |
"""

_REST = """
All other members of `chat_template_kwargs`, such as `enable_thinking`, reach the backend: they are variables of the
template.

### URLs of images, audio and video

A backend fetches what `image_url`, `audio_url` and `video_url` name, from inside your network.
`media_urls` decides which of them a request may have:

- `public`, the default: plain `http` or `https`, with a public address or a name that isn't reserved for private
  networks; and `data:`, which holds the content itself;
- `none`: `data:` alone;
- `any`: whatever the backend takes.

With `public`, everything else is a 400 that names the part: `file:` and other schemes; private, link-local, loopback,
shared and multicast addresses, however they are spelled; names without a dot, `.internal`, `.local`, `.svc` and the
like; users, escapes or anything but ASCII in the host.

The gateway doesn't ask DNS. If a public name leads to a private address, or a server redirects to one, only vLLM can
refuse: start it with `--allowed-media-domains` and `VLLM_MEDIA_URL_ALLOW_REDIRECTS=0`, or set `media_urls: none`.

### Other paths

All of this is about chat completions. On the paths in `other_paths`, the gateway reads only the model, and the rest
of the request reaches the backend as it is: `priority`, `cache_salt`, `kv_transfer_params`, `vllm_xargs` and
`request_id` of `/v1/completions`, `/v1/embeddings` and the others, and also `prompt_embeds`, the `chat_template` of
`/tokenize` and the URLs of `/v1/score` and `/v1/rerank`. Only headers are withheld there as well. If you don't trust
your clients:

- list only the paths that they need, or none (`other_paths: []`);
- start vLLM without `--enable-prompt-embeds` and `--trust-request-chat-template`;
- start it with `--scheduling-policy priority` only if no untrusted client can use `other_paths`
  ([interactive and batch](configuration.md#interactive-and-batch)).
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
