"""`extproc watch`: exchanges on a page, or in a terminal, while they run."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from extproc.commands.options import Commands, add
from extproc.commands.values import address, interval, number
from extproc.config import Address, Config, ConfigError, load, reachable
from extproc.installing import by_pip
from extproc.observability.logs import log_to

if TYPE_CHECKING:  # nothing of it is loaded unless it is wanted
    from extproc.watch.collecting import Collected

log = logging.getLogger(__name__)

TOKEN = "EXTPROC_WATCH_TOKEN"  # noqa: S105 - the name of the variable that may hold one
LISTEN = "127.0.0.1:9003"
"""Where the page is, unless told otherwise."""
_MEGABYTES, _MINUTES = 64, 30.0


def add_commands(commands: Commands) -> None:
    watch = add(
        commands,
        "watch",
        _watch,
        "show exchanges while they run, on a page for whoever has the printed address, or in this terminal",
        """
        extproc watch --config extproc.yaml
        extproc watch --sockets /run/extproc --listen 127.0.0.1:9004 --megabytes 256 --minutes 120
        extproc watch --config extproc.yaml --tui
        """,
    )
    watch.add_argument(
        "--config", type=Path, metavar="FILE", help="the configuration of the gateway, which needs `watch: true`"
    )
    watch.add_argument(
        "--sockets",
        type=Path,
        metavar="DIRECTORY",
        help="directory of the sockets between Envoy, the processor and the runner, instead of the file's",
    )
    watch.add_argument(
        "--tui",
        action="store_true",
        help="show them in this terminal, and serve no page unless --listen says where; what you save goes "
        "into the current directory",
    )
    watch.add_argument(
        "--listen",
        type=address,
        metavar="HOST:PORT",
        help=f"where the page is (default: {LISTEN}); any address but the loopback needs --open-to-others",
    )
    watch.add_argument(
        "--open-to-others",
        action="store_true",
        help="allow an address that other machines can reach; without TLS, anybody on the way can read everything",
    )
    watch.add_argument(
        "--megabytes",
        type=number,
        default=_MEGABYTES,
        metavar="N",
        help="keep at most this much in memory (default: %(default)d)",
    )
    watch.add_argument(
        "--minutes",
        type=interval,
        default=_MINUTES,
        metavar="N",
        help="forget exchanges that ended this long ago (default: %(default)g)",
    )


def _watch(options: argparse.Namespace) -> int:
    if options.config is None and options.sockets is None:
        options.misused("give --config, or --sockets")
    if options.tui and not (sys.stdin.isatty() and sys.stdout.isatty()):
        options.misused("--tui needs a terminal")
    config = load(options.config) if options.config is not None else None
    try:
        showing = _showing(options, _gateway(config))
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        what, extra = ("--tui", "tui") if package == "textual" else ("the page", "watch")
        print(f"extproc: {what} needs {package}; install it with {by_pip(extra)}", file=sys.stderr)
        return 1
    from extproc.watch.collecting import Collected

    log_to(sys.stderr)
    for library in ("uvicorn",):  # which tells of each start and end
        logging.getLogger(library).setLevel(logging.WARNING)
    if config is not None and not config.watch and options.sockets is None:
        log.warning("%s has no `watch: true`: exchanges are only shown if the processor has --watch", options.config)
    sockets = options.sockets.absolute() if options.sockets is not None else config.sockets if config else Path()
    try:
        return asyncio.run(
            showing(Collected(sockets / "watch.sock", options.megabytes * 1024 * 1024, options.minutes * 60))
        )
    except (ConfigError, OSError) as error:
        log.error("%s", error)
        return 1


def _showing(options: argparse.Namespace, gateway: str) -> Callable[[Collected], Coroutine[Any, Any, int]]:
    """What shows exchanges: the page, the terminal, or both. Raises ModuleNotFoundError for what isn't installed."""
    if options.tui:
        from extproc.watch.tui.process import watch_in_terminal
    listen = options.listen or (None if options.tui else LISTEN)
    if listen is None:
        return lambda collected: watch_in_terminal(collected, gateway, Path.cwd())
    from extproc.watch.process import PageOptions, is_loopback, page_served, watch

    page = PageOptions(Address.parse(listen), gateway, os.environ.get(TOKEN) or None)
    if not is_loopback(page.listen) and not options.open_to_others:
        options.misused(
            f"{listen} can be reached from other machines, and all that is said is on the page: use 127.0.0.1 and a "
            "tunnel (ssh -L), or add --open-to-others"
        )
    if not options.tui:
        return lambda collected: watch(collected, page)
    return lambda collected: watch_in_terminal(
        collected, gateway, Path.cwd(), lambda exchanges: page_served(exchanges, page)
    )


def _gateway(config: Config | None) -> str:
    if config is None:
        return f"http://{Config.model_fields['listen'].default}"
    scheme = "https" if config.tls is not None else "http"
    return f"{scheme}://{reachable(config.listen_address)}"
