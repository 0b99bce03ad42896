"""How a person installs what is missing: from where our package came from, or from a wheel of it, by its file name.

Never by the bare name: `extproc` on PyPI is somebody else's library (docs/supply-chain.md, "Wheels").
"""

from __future__ import annotations

import json
import shlex


def by_pip(extra: str) -> str:
    """The command that installs this extra of what runs, in backticks, and where to run it if that matters."""
    from importlib.metadata import distribution

    ours = distribution("extproc")
    option, path = _origin(ours.read_text("direct_url.json"))
    if path is not None:
        return f"`pip install {option}{shlex.quote(f'{path}[{extra}]')}`"
    return f"`pip install 'extproc-{ours.version}-py3-none-any.whl[{extra}]'` in the folder of the wheel"


def _origin(direct_url: str | None) -> tuple[str, str | None]:
    """An option for pip, and the path of the wheel or the checkout that was installed, if it is still there.

    Source: packaging.python.org, "Recording the Direct URL Origin of installed distributions", which pip writes.
    """
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    told = {} if direct_url is None else json.loads(direct_url)
    url = urlsplit(told.get("url", ""))
    path = url2pathname(url.path)
    if url.scheme != "file" or not Path(path).exists():
        return "", None
    return "--editable " if told.get("dir_info", {}).get("editable") else "", path
