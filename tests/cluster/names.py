"""The DNS of the cluster: dnsmasq, which is told what the API says.

A Service with an address has that one; one without (`clusterIP: None`) has those of its pods that are ready.
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from tests.k8s.rendered import Object

DOMAIN = "cluster.local"
_PERIOD = 0.5
"""Seconds. CoreDNS hears of a change at once."""


def options(address: str, hosts: Path) -> list[str]:
    """How dnsmasq is started to answer on this address, by the file `hosts`."""
    hosts.touch()
    quiet = ["--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--no-hosts", "--no-resolv"]
    listens = ["--bind-interfaces", f"--listen-address={address}", f"--local=/{DOMAIN}/", "--local-ttl=1"]
    return [*quiet, *listens, f"--addn-hosts={hosts}", f"--pid-file={_started(hosts)}"]


def follow(get: Callable[[str], Object], hosts: Path, server: subprocess.Popen[bytes]) -> None:
    """Keep `hosts` as the API has it, as long as the server runs. `get` reads a path of the API."""

    def following() -> None:
        known = ""
        while server.poll() is None and not _started(hosts).exists():
            time.sleep(0.05)  # before that, the signal would end it
        while server.poll() is None:
            try:
                told = "".join(sorted(set(_lines(get))))
            except httpx.HTTPError:
                told = known
            if told != known:
                hosts.write_text(told)
                server.send_signal(signal.SIGHUP)
                known = told
            time.sleep(_PERIOD)

    threading.Thread(target=following, daemon=True).start()


def _started(hosts: Path) -> Path:
    """The file that dnsmasq writes when it has started."""
    return hosts.with_name("dnsmasq.pid")


def _lines(get: Callable[[str], Object]) -> Iterator[str]:
    headless = set()
    for each in get("/api/v1/services")["items"]:
        address = each["spec"].get("clusterIP", "")
        if address == "None":
            headless.add(_name(each))
        elif address:
            yield f"{address} {_name(each)}\n"
    for each in get("/api/v1/endpoints")["items"]:
        if _name(each) in headless:
            for part in each.get("subsets") or []:
                for ready in part.get("addresses") or []:
                    yield f"{ready['ip']} {_name(each)}\n"


def _name(each: Object) -> str:
    return f"{each['metadata']['name']}.{each['metadata']['namespace']}.svc.{DOMAIN}"
