"""How a person installs what is missing: from a wheel of ours, by its file name.

Never by the bare name: `extproc` on PyPI is somebody else's library (docs/supply-chain.md, "Wheels").
"""

from __future__ import annotations


def by_pip(extra: str) -> str:
    """The command that installs this extra of the version that runs, in the folder where its wheel is."""
    from importlib.metadata import version

    return f"pip install 'extproc-{version('extproc')}-py3-none-any.whl[{extra}]'"
