"""`extproc watch`: exchanges on a page, while they run."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from pathlib import Path

from extproc.commands.options import Commands, add
from extproc.commands.values import address, interval, number
from extproc.config import Address, Config, ConfigError, load, reachable
from extproc.observability.logs import log_to

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
        "show exchanges on a page of their own, while they run, for whoever has the address that is printed",
        """
        extproc watch --config extproc.yaml
        extproc watch --sockets /run/extproc --listen 127.0.0.1:9004 --megabytes 256 --minutes 120
        """,
    )
    watch.add_argument(
        "--config", type=Path, metavar="FILE", help="the configuration of the gateway, which needs `watch: true`"
    )
    watch.add_argument(
        "--sockets",
        type=Path,
        metavar="DIRECTORY",
        help="where the sockets between Envoy, the processor and the runner are, instead of where the file says",
    )
    watch.add_argument(
        "--listen",
        type=address,
        default=LISTEN,
        metavar="HOST:PORT",
        help="where the page is (default: %(default)s); another than the loopback needs --open-to-others",
    )
    watch.add_argument(
        "--open-to-others",
        action="store_true",
        help="allow an address that other machines can reach: there is no TLS, so anybody on the way reads all of it",
    )
    watch.add_argument(
        "--megabytes",
        type=number,
        default=_MEGABYTES,
        metavar="N",
        help="keep so much in memory at most (default: %(default)d)",
    )
    watch.add_argument(
        "--minutes",
        type=interval,
        default=_MINUTES,
        metavar="N",
        help="forget what ended so long ago (default: %(default)g)",
    )


def _watch(options: argparse.Namespace) -> int:
    if options.config is None and options.sockets is None:
        options.misused("give --config, or --sockets")
    try:
        from extproc.watch.collecting import Collected
        from extproc.watch.process import PageOptions, is_loopback, watch
    except ModuleNotFoundError as missing:
        print(f"extproc: the page needs {missing.name}; install it with pip install 'extproc[watch]'", file=sys.stderr)
        return 1
    listen = Address.parse(options.listen)
    if not is_loopback(listen) and not options.open_to_others:
        options.misused(
            f"{listen} can be reached from other machines, and all that is said is on the page: use 127.0.0.1 and a "
            "tunnel (ssh -L), or add --open-to-others"
        )
    log_to(sys.stderr)
    for library in ("uvicorn",):  # which tells of each start and end
        logging.getLogger(library).setLevel(logging.WARNING)
    config = load(options.config) if options.config is not None else None
    if config is not None and not config.watch and options.sockets is None:
        log.warning("%s has no `watch: true`: exchanges are only shown if the processor has --watch", options.config)
    sockets = options.sockets.absolute() if options.sockets is not None else config.sockets if config else Path()
    collected = Collected(sockets / "watch.sock", options.megabytes * 1024 * 1024, options.minutes * 60)
    try:
        return asyncio.run(watch(collected, PageOptions(listen, _gateway(config), os.environ.get(TOKEN) or None)))
    except (ConfigError, OSError) as error:
        log.error("%s", error)
        return 1


def _gateway(config: Config | None) -> str:
    if config is None:
        return f"http://{Config.model_fields['listen'].default}"
    scheme = "https" if config.tls is not None else "http"
    return f"{scheme}://{reachable(config.listen_address)}"
