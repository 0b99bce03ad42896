"""The commands that run the gateway or a part of it."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from extproc.commands.options import (
    PROCESSOR,
    Commands,
    add,
    add_envoy_binary,
    add_grace,
    add_metrics,
    add_sockets,
    add_workers,
    path_or_address,
)
from extproc.commands.values import address, backend, interval, number, seconds, socket_or_address
from extproc.commands.watching import LISTEN as WATCH
from extproc.config import Config, ConfigError
from extproc.config.recording import Recording
from extproc.exchange.api_keys import GRACE
from extproc.installing import by_pip
from extproc.observability.logs import log_to
from extproc.server.descriptors import raise_descriptor_limit
from extproc.server.garbage import collector_off

log = logging.getLogger(__name__)

_LISTEN = Config.model_fields["listen"].default
_FILES = Recording.model_fields["files"].default


def add_commands(commands: Commands) -> None:
    _add_up(commands)
    _add_record(commands)
    _add_serve(commands)
    _add_runner(commands)


def _up(options: argparse.Namespace) -> int:
    return _run_all(options, None)


def _record(options: argparse.Namespace) -> int:
    return _run_all(options, Recording(directory=options.directory.absolute(), files=options.files))


def _run_all(options: argparse.Namespace, recording: Recording | None) -> int:
    from extproc.supervisor.options import FromBackend, FromFile, Options, Scripted, Source
    from extproc.supervisor.run import up

    raise_descriptor_limit()  # which is Envoy's too
    source: Source
    if options.config is not None:
        if options.model is not None or options.format is not None:
            options.misused("--model and --format go with --backend; with --config, the file sets them")
        if options.characters is not None:
            options.misused("--characters goes with --backend or --scripted; with --config, the file names them")
        source = FromFile(options.config)
    elif options.backend is not None:
        source = FromBackend(options.backend, options.model, options.format or "hermes")
    else:
        if options.format is not None:
            options.misused("--format goes with --backend; the scripted vLLM writes hermes")
        source = Scripted(options.model) if options.model is not None else Scripted()
    return asyncio.run(
        up(
            Options(
                source,
                options.listen,
                options.metrics,
                options.envoy,
                options.grace,
                options.quiet,
                recording,
                options.characters.absolute() if options.characters is not None else None,
                options.workers,
                options.watch,
            )
        )
    )


def _serve(options: argparse.Namespace) -> int:
    with collector_off():
        from extproc.control.process import ForEnvoy, Options, run
        from extproc.transport.tls import ServerTls

    if options.envoy is None and (options.envoy_admin or options.envoy_listen):
        options.misused("--envoy-admin and --envoy-listen need --envoy")
    if (options.tls_certificate is None) != (options.tls_key is None):
        options.misused("--tls-certificate and --tls-key belong together: give both, or neither")
    if options.tls_client_ca is not None and options.tls_certificate is None:
        options.misused("--tls-client-ca needs --tls-certificate and --tls-key")
    if options.tls_certificate is not None and options.listen.startswith("unix:"):
        options.misused("--tls-certificate is for --listen HOST:PORT: a socket needs no TLS")
    tls = None
    if options.tls_certificate is not None:
        tls = ServerTls(options.tls_certificate, options.tls_key, options.tls_client_ca)
    envoy = None
    if options.envoy is not None:
        envoy = ForEnvoy(options.envoy.absolute(), path_or_address(options.envoy_admin), options.envoy_listen)
    recording = None
    if options.record is not None:
        recording = Recording(directory=options.record.absolute(), files=options.record_files)
    log_to(sys.stderr)
    raise_descriptor_limit()
    told = Options(
        options.config,
        options.listen,
        options.grace,
        health=options.health,
        metrics=options.metrics,
        envoy=envoy,
        interval=options.reread,
        recording=recording,
        keys_grace=options.keys_grace,
        tls=tls,
        sockets=options.sockets.absolute() if options.sockets is not None else None,
        workers=options.workers,
        watched=options.watch,
    )
    try:
        return run(told)
    except (ConfigError, OSError) as error:  # in the form that the rest of its log has, for whoever collects it
        return _logged(error)


def _runner(options: argparse.Namespace) -> int:
    try:
        from extproc.control.runner import RunnerOptions, serve_runs
    except ModuleNotFoundError as missing:
        print(f"extproc: the runner needs {missing.name}; install it with {by_pip('runner')}", file=sys.stderr)
        return 1
    log_to(sys.stderr)
    raise_descriptor_limit()
    sockets = options.sockets.absolute() if options.sockets is not None else None
    told = RunnerOptions(options.config, options.grace, options.metrics, sockets, options.reread)
    try:
        return asyncio.run(serve_runs(told))
    except (ConfigError, OSError) as error:
        return _logged(error)


def _logged(error: Exception) -> int:
    """Why it ends; the exit status."""
    from extproc.commands.next_step import next_step

    for line in f"{error}{next_step(error)}".splitlines():
        log.error("%s", line)
    return 1


def _add_up(commands: Commands) -> None:
    up = add(
        commands,
        "up",
        _up,
        "run Envoy, the processor and, if tools run on the gateway's side, the runner together",
        """
        extproc up --scripted                         try it without a GPU
        extproc up --backend http://127.0.0.1:8000    the model of a vLLM server
        extproc up --config extproc.yaml              several models and backends
        """,
    )
    _add_what_runs(up)


def _add_record(commands: Commands) -> None:
    record = add(
        commands,
        "record",
        _record,
        "run the gateway as `up` does, and record each exchange with a model in a file, for `extproc replay`",
        """
        extproc record recordings --backend http://127.0.0.1:8000
        extproc record recordings --config extproc.yaml --files 100
        """,
    )
    record.add_argument(
        "directory",
        type=Path,
        metavar="DIRECTORY",
        help="where the files go; they contain prompts and answers, but no keys or addresses",
    )
    _add_files(record, "--files")
    _add_what_runs(record)


def _add_files(command: argparse.ArgumentParser, name: str) -> None:
    command.add_argument(
        name,
        type=number,
        default=_FILES,
        metavar="N",
        help="stop recording when the directory holds this many files (default: %(default)d)",
    )


def _add_what_runs(up: argparse.ArgumentParser) -> None:
    source = up.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", type=Path, metavar="FILE", help="serve the models of this file")
    source.add_argument("--backend", type=backend, metavar="URL", help="serve a model of this vLLM server")
    source.add_argument("--scripted", action="store_true", help="start the scripted vLLM, if installed, and serve it")
    up.add_argument(
        "--model", metavar="NAME", help="the model's name; with --backend, needed only if the server has several"
    )
    up.add_argument(
        "--format",
        metavar="NAME",
        help="how the model of --backend writes calls: one of `extproc formats` (default: hermes)",
    )
    up.add_argument("--characters", type=Path, metavar="DIRECTORY", help="also serve the characters in this directory")
    up.add_argument("--listen", type=address, metavar="HOST:PORT", help=f"where clients connect (default: {_LISTEN})")
    add_workers(up)
    add_metrics(up)
    add_grace(up, "requests")
    add_envoy_binary(up)
    up.add_argument(
        "--watch",
        type=address,
        nargs="?",
        const=WATCH,
        metavar="HOST:PORT",
        help="show exchanges while they run, on a page here (default address: %(const)s), as `extproc watch` does",
    )
    up.add_argument("--quiet", action="store_true", help="no access log on stdout")


def _add_serve(commands: Commands) -> None:
    serve = add(
        commands,
        "serve",
        _serve,
        "run the processor alone, for an Envoy that runs elsewhere",
        """
        extproc serve --config extproc.yaml
        extproc serve --config extproc.yaml --listen 127.0.0.1:9000
        extproc serve --config extproc.yaml --listen unix:/run/extproc.sock --envoy /run/envoy
        extproc serve --config extproc.yaml --listen [::]:9000 \\
            --tls-certificate tls.crt --tls-key tls.key --tls-client-ca ca.crt
        """,
    )
    serve.add_argument(
        "--config",
        type=Path,
        required=True,
        metavar="FILE",
        help="the configuration file; a change applies to new exchanges",
    )
    serve.add_argument(
        "--listen",
        type=socket_or_address,
        default=PROCESSOR,
        metavar="ADDRESS",
        help="unix:/path or host:port; whoever can connect counts as Envoy (default: %(default)s)",
    )
    serve.add_argument(
        "--tls-certificate",
        type=Path,
        metavar="FILE",
        help="use TLS at --listen, with this certificate (PEM, including intermediates); the file is read again "
        "for new connections",
    )
    serve.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's key")
    serve.add_argument(
        "--tls-client-ca",
        type=Path,
        metavar="FILE",
        help="require a client certificate issued by one of these CAs (default: none is required)",
    )
    serve.add_argument(
        "--health",
        type=address,
        metavar="HOST:PORT",
        help="serve the gRPC health service here too, for probes over the network when --listen is a socket or "
        "speaks TLS",
    )
    serve.add_argument(
        "--envoy",
        type=Path,
        metavar="DIRECTORY",
        help="keep Envoy's part of the configuration here, in files that are rewritten when it changes, for an "
        "Envoy started with what `extproc envoy --dynamic DIRECTORY` prints",
    )
    serve.add_argument(
        "--envoy-admin",
        type=socket_or_address,
        metavar="ADDRESS",
        help="ask Envoy here which of the files it has loaded, instead of just waiting",
    )
    serve.add_argument(
        "--envoy-listen",
        type=address,
        metavar="HOST:PORT",
        help="where Envoy listens for clients, instead of the file's `listen`",
    )
    add_sockets(serve)
    serve.add_argument(
        "--reread",
        type=interval,
        default=1.0,
        metavar="SECONDS",
        help="how often to check whether files have changed (default: %(default)g)",
    )
    serve.add_argument(
        "--keys-grace",
        type=seconds,
        default=GRACE,
        metavar="SECONDS",
        help="how long the last API keys stay valid when their file is empty or gone; after that, nobody "
        "gets in (default: %(default)g)",
    )
    serve.add_argument(
        "--record",
        type=Path,
        metavar="DIRECTORY",
        help="record each exchange with a model in a file there, whatever the configuration says about `recording`",
    )
    _add_files(serve, "--record-files")
    serve.add_argument(
        "--watch",
        action="store_true",
        help="show exchanges to `extproc watch`, whatever the configuration says about `watch`",
    )
    add_workers(serve)
    add_metrics(serve)
    add_grace(serve, "exchanges")


def _add_runner(commands: Commands) -> None:
    runner = add(
        commands,
        "runner",
        _runner,
        "run characters and the tools of MCP servers, for an Envoy and a processor that run elsewhere",
        """
        extproc runner --config extproc.yaml
        extproc runner --config extproc.yaml --sockets /run/extproc --metrics 127.0.0.1:9102
        """,
    )
    runner.add_argument(
        "--config",
        type=Path,
        required=True,
        metavar="FILE",
        help="the configuration file, the same as the processor's; a change applies to new runs",
    )
    add_sockets(runner)
    runner.add_argument(
        "--reread",
        type=interval,
        default=1.0,
        metavar="SECONDS",
        help="how often to check whether files have changed (default: %(default)g)",
    )
    add_metrics(runner)
    add_grace(runner, "runs")
