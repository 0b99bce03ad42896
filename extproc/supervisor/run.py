"""`extproc up` from its options to its exit status."""

from __future__ import annotations

import tempfile
from ipaddress import ip_address
from pathlib import Path

from extproc.config import Address
from extproc.server.descriptors import descriptor_limit, too_few
from extproc.server.stopping import StopSignals, completes
from extproc.supervisor.backends import complaints
from extproc.supervisor.binary import find_envoy
from extproc.supervisor.gateway import Gateway
from extproc.supervisor.guide import as_typed, guide
from extproc.supervisor.options import FromBackend, Options, Scripted, check_listen, configuration
from extproc.supervisor.service import say


async def up(options: Options) -> int:
    """Run the gateway until a signal comes; returns the exit status, 0 unless a second signal cut it short.

    Raises ConfigError or GatewayError when it can't start or can't go on. No child and no file is left behind.
    """
    envoy = find_envoy(options.envoy)
    with StopSignals() as signals, tempfile.TemporaryDirectory(prefix="extproc-") as directory:
        gateway = Gateway(Path(directory))
        try:
            if not await completes(_start(gateway, options, envoy), unless=signals.asked()):
                return 0
            await completes(gateway.watch(), unless=signals.asked())
            say("stopping as soon as running requests have ended; Ctrl-C again stops at once")
            return 0 if await completes(gateway.finish(options.grace), unless=signals.insisted()) else 1
        finally:
            await gateway.kill()


async def _start(gateway: Gateway, options: Options, envoy: str) -> None:
    source = options.source
    if isinstance(source, Scripted):
        source = FromBackend(await gateway.start_scripted_vllm(source.model), source.model)
    config = await configuration(source, options.listen, options.characters)
    check_listen(config.listen_address)
    if options.metrics is not None:
        check_listen(Address.parse(options.metrics), "--metrics")
    if options.watch is not None:
        check_listen(Address.parse(options.watch), "--watch")
    await gateway.start(config, envoy, options)
    from extproc.envoy.overload import MAX_CONNECTIONS  # Takes a second to import; it has been by now.

    is_trial = isinstance(options.source, Scripted) and ip_address(config.listen_address.host).is_loopback
    if not is_trial and (warning := too_few(MAX_CONNECTIONS, descriptor_limit())) is not None:
        say(f"warning: {warning}")
    for complaint in await complaints(config):
        say(f"warning: {complaint}")
    recordings = options.recording.directory if options.recording is not None else None
    print(guide(config, options.metrics, recordings, gateway.page, gateway.sockets, as_typed()), flush=True)
