"""The `extproc` command: its arguments, and one short function per subcommand.

What goes wrong is one line on stderr that says what and where, and exit status 1; a command line that can't be
understood is status 2.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import dedent, indent
from typing import TypeAlias

from extproc.command_line import address, backend, interval, origin, seconds, socket_or_address
from extproc.config import Config, ConfigError, load
from extproc.logs import log_to
from extproc.probe import ProbeError
from extproc.supervisor import GatewayError
from extproc.toolcalls import FORMATS, Format, UnknownFormatError, get_format

_PROCESSOR = "127.0.0.1:9000"
"""Where `serve` listens and where `envoy` looks for it, unless told otherwise."""
_LISTEN = Config.model_fields["listen"].default
_GRACE = 30.0


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    options = _parser().parse_args(words)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # `extproc formats | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ConfigError, GatewayError, UnknownFormatError, ProbeError, OSError) as error:
        for line in str(error).splitlines():
            print(f"extproc: {line}", file=sys.stderr)
        return 1
    return status


# The commands. Each imports what it alone needs: gRPC and Envoy's API take up to a second to load.


def _up(options: argparse.Namespace) -> int:
    from extproc.supervisor.options import FromBackend, FromFile, Options, Scripted, Source
    from extproc.supervisor.run import up

    source: Source
    if options.config is not None:
        if options.model is not None or options.format is not None:
            options.misused("--model and --format belong to --backend; with --config the file says it")
        source = FromFile(options.config)
    elif options.backend is not None:
        source = FromBackend(options.backend, options.model, options.format or "hermes")
    else:
        if options.format is not None:
            options.misused("--format belongs to --backend; the scripted vLLM writes hermes")
        source = Scripted(options.model) if options.model is not None else Scripted()
    return asyncio.run(
        up(Options(source, options.listen, options.metrics, options.envoy, options.grace, options.quiet))
    )


def _serve(options: argparse.Namespace) -> int:
    from extproc.serve import ForEnvoy, Options, serve

    if options.envoy is None and (options.envoy_admin or options.envoy_listen):
        options.misused("--envoy-admin and --envoy-listen belong to --envoy")
    envoy = None
    if options.envoy is not None:
        envoy = ForEnvoy(options.envoy.absolute(), _path_or_address(options.envoy_admin), options.envoy_listen)
    log_to(sys.stderr)
    return asyncio.run(
        serve(
            Options(
                options.config,
                options.listen,
                options.grace,
                health=options.health,
                metrics=options.metrics,
                envoy=envoy,
                interval=options.reread,
            )
        )
    )


def _envoy(options: argparse.Namespace) -> int:
    if (options.config is None) == (options.dynamic is None):
        options.misused("give one of --config and --dynamic")
    if options.dynamic is None:
        sys.stdout.write(_bootstrap(load(options.config), options.processor, options.admin))
        return 0
    from extproc.envoy import dynamic_bootstrap, to_yaml

    processor, admin = _path_or_address(options.processor), _path_or_address(options.admin)
    assert processor is not None  # it has a default
    sys.stdout.write(to_yaml(dynamic_bootstrap(str(options.dynamic.absolute()), processor=processor, admin=admin)))
    return 0


def _probe(options: argparse.Namespace) -> int:
    from extproc.probe import probe

    report = probe(
        options.url, options.model, api_key_file=options.api_key_file, ca=options.ca, timeout=options.timeout
    )
    sys.stderr.write(report.summary())
    sys.stdout.write(report.yaml())
    return 0


def _hash_key(options: argparse.Namespace) -> int:
    from extproc.api_keys import hash_line

    key = getpass.getpass("API key: ") if sys.stdin.isatty() else sys.stdin.readline()
    try:
        print(hash_line(options.name, key.strip()))
    except ValueError as error:
        print(f"extproc: {error}", file=sys.stderr)
        return 1
    return 0


def _check(options: argparse.Namespace) -> int:
    from extproc.supervisor.binary import find_envoy, validate

    path = options.config or options.file
    if path is None or (options.config and options.file):
        options.misused("name one FILE")
    config = load(path)
    bootstrap = _bootstrap(config, _PROCESSOR, None)
    try:
        envoy = find_envoy(options.envoy)
    except GatewayError:
        if options.envoy is not None:
            raise
        by_envoy = "Envoy isn't installed here and wasn't asked"
    else:
        with tempfile.TemporaryDirectory(prefix="extproc-") as directory:
            written = Path(directory, "envoy.yaml")
            written.write_text(bootstrap, encoding="utf-8")
            validate(envoy, written)
        by_envoy = "accepted by Envoy"
    models, backends = _count(config.models, "model"), _count(config.backends, "backend")
    print(f"{path}: OK: {models}, {backends}, listening on {config.listen}; {by_envoy}")
    return 0


def _formats(options: argparse.Namespace) -> int:
    if options.name is not None:
        format_ = get_format(options.name)
        print(f"{_described(format_)}\n\nA call of get_weather for Paris:\n\n{format_.example}")
        return 0
    for format_ in FORMATS:
        print(_described(format_), "\n  example  ", format_.example.replace("\n", r"\n"), "\n", sep="")
    return 0


def _bootstrap(config: Config, processor: str, admin: str | None) -> str:
    from extproc.envoy import bootstrap, to_yaml

    return to_yaml(bootstrap(config, processor=processor.removeprefix("unix:"), admin=_path_or_address(admin)))


def _path_or_address(address: str | None) -> str | None:
    """What gRPC calls unix:/path is /path for Envoy."""
    return address.removeprefix("unix:") if address is not None else None


def _described(format_: Format) -> str:
    aliases = f"\n  aliases  {', '.join(format_.aliases)}" if format_.aliases else ""
    return f"{format_.name}: {format_.title}\n  models   {', '.join(format_.models)}{aliases}"


def _count(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}" if len(things) == 1 else f"{len(things)} {noun}s"


# Arguments


_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="extproc",
        description="OpenAI tool calling for any model behind vLLM, by an external processor for Envoy.",
        epilog="Begin with `extproc up --scripted`; each command explains itself with --help.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_up(commands)
    _add_serve(commands)
    _add_check(commands)
    _add_envoy(commands)
    _add_formats(commands)
    _add_probe(commands)
    _add_hash_key(commands)
    return parser


def _add_up(commands: _Commands) -> None:
    up = _add(
        commands,
        "up",
        _up,
        "run Envoy and the processor together",
        """
        extproc up --scripted                         try it without a GPU
        extproc up --backend http://127.0.0.1:8000    the model of a vLLM server
        extproc up --config extproc.yaml              several models and backends
        """,
    )
    source = up.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", type=Path, metavar="FILE", help="serve the models of this file")
    source.add_argument("--backend", type=backend, metavar="URL", help="serve a model of this vLLM server")
    source.add_argument("--scripted", action="store_true", help="serve a scripted vLLM, started as well")
    up.add_argument("--model", metavar="NAME", help="the model's name; with --backend needed only if it serves several")
    up.add_argument("--format", metavar="NAME", help="how the model writes calls (only hermes so far)")
    up.add_argument("--listen", type=address, metavar="HOST:PORT", help=f"where clients connect (default: {_LISTEN})")
    _add_metrics(up)
    _add_grace(up, "requests")
    _add_envoy_binary(up)
    up.add_argument("--quiet", action="store_true", help="no access log on stdout")


def _add_serve(commands: _Commands) -> None:
    serve = _add(
        commands,
        "serve",
        _serve,
        "run the processor alone, for an Envoy that runs elsewhere",
        """
        extproc serve --config extproc.yaml
        extproc serve --config extproc.yaml --listen unix:/run/extproc.sock
        extproc serve --config extproc.yaml --listen unix:/run/extproc.sock --envoy /run/envoy
        """,
    )
    serve.add_argument(
        "--config",
        type=Path,
        required=True,
        metavar="FILE",
        help="the configuration file; when it changes, new exchanges go by it",
    )
    serve.add_argument(
        "--listen",
        type=socket_or_address,
        default=_PROCESSOR,
        metavar="ADDRESS",
        help="host:port or unix:/path (default: %(default)s)",
    )
    serve.add_argument(
        "--health",
        type=address,
        metavar="HOST:PORT",
        help="serve the gRPC health service here too, for probes over the network when --listen is a socket",
    )
    serve.add_argument(
        "--envoy",
        type=Path,
        metavar="DIRECTORY",
        help="keep Envoy's part of the configuration here, in files that are written again when it changes, for an "
        "Envoy that was started with what `extproc envoy --dynamic DIRECTORY` prints",
    )
    serve.add_argument(
        "--envoy-admin",
        type=socket_or_address,
        metavar="ADDRESS",
        help="ask Envoy here what it has taken of the files, instead of giving it some time for it",
    )
    serve.add_argument(
        "--envoy-listen",
        type=address,
        metavar="HOST:PORT",
        help="where Envoy listens for clients, instead of where the file says",
    )
    serve.add_argument(
        "--reread",
        type=interval,
        default=1.0,
        metavar="SECONDS",
        help="how often to look whether files have changed (default: %(default)g)",
    )
    _add_metrics(serve)
    _add_grace(serve, "exchanges")


def _add_check(commands: _Commands) -> None:
    check = _add(
        commands,
        "check",
        _check,
        "validate a configuration, and what Envoy makes of it",
        """
        extproc check extproc.yaml
        """,
    )
    # The positional argument is what one types; --config is what all the other commands take.
    check.add_argument("file", type=Path, nargs="?", metavar="FILE", help="the configuration file")
    check.add_argument("--config", type=Path, metavar="FILE", help="the same")
    _add_envoy_binary(check)


def _add_envoy(commands: _Commands) -> None:
    envoy = _add(
        commands,
        "envoy",
        _envoy,
        "print the Envoy bootstrap that a configuration implies",
        """
        extproc envoy --config extproc.yaml > envoy.yaml
        extproc envoy --config extproc.yaml --processor unix:/run/extproc.sock --admin 127.0.0.1:9901
        extproc envoy --dynamic /run/envoy --processor unix:/run/extproc.sock > envoy.yaml
        """,
    )
    envoy.add_argument("--config", type=Path, metavar="FILE", help="the configuration file: the whole of it goes in")
    envoy.add_argument(
        "--dynamic",
        type=Path,
        metavar="DIRECTORY",
        help="instead, a bootstrap for every configuration, which takes what may change from the files that "
        "`extproc serve --envoy DIRECTORY` writes; start Envoy with --drain-time-s 86400 --drain-strategy immediate",
    )
    envoy.add_argument(
        "--processor",
        type=socket_or_address,
        default=_PROCESSOR,
        metavar="ADDRESS",
        help="where the processor listens: host:port or unix:/path (default: %(default)s)",
    )
    envoy.add_argument(
        "--admin",
        type=socket_or_address,
        metavar="ADDRESS",
        help="serve Envoy's admin interface (default: none)",
    )


def _add_formats(commands: _Commands) -> None:
    formats = _add(
        commands,
        "formats",
        _formats,
        "list how models write tool calls",
        """
        extproc formats
        extproc formats hermes
        """,
    )
    formats.add_argument("name", nargs="?", metavar="NAME", help="show this one as its models write it")


def _add_probe(commands: _Commands) -> None:
    probe = _add(
        commands,
        "probe",
        _probe,
        "ask a running vLLM what it can do, and print the configuration for it",
        """
        extproc probe http://gpu-host:8000
        extproc probe https://models.example.org --model qwen-coder --api-key-file key > extproc.yaml
        """,
    )
    probe.add_argument("url", type=origin, metavar="URL", help="where it serves, such as http://gpu-host:8000")
    probe.add_argument("--model", metavar="NAME", help="ask about this model only")
    probe.add_argument("--api-key-file", type=Path, metavar="FILE", help="the key that the server asks for")
    probe.add_argument("--ca", type=Path, metavar="FILE", help="certificates that the server's own has to lead to")
    probe.add_argument(
        "--timeout", type=interval, default=120.0, metavar="SECONDS", help="for one answer (default: %(default)g)"
    )


def _add_hash_key(commands: _Commands) -> None:
    hash_key = _add(
        commands,
        "hash-key",
        _hash_key,
        "make a line of the file of API keys: reads a key from standard input and prints its hash",
        """
        extproc hash-key alice                                             asks for the key
        openssl rand -hex 32 | tee alice.key | extproc hash-key alice >> api-keys
        """,
    )
    hash_key.add_argument("name", metavar="NAME", help="whose key it is, as the access log will call them")


def _add(
    commands: _Commands, name: str, run: Callable[[argparse.Namespace], int], purpose: str, examples: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        help=purpose,
        description=purpose[0].upper() + purpose[1:] + ".",
        epilog="examples:\n" + indent(dedent(examples).strip("\n"), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run, misused=command.error)
    return command


def _add_metrics(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--metrics",
        type=address,
        metavar="HOST:PORT",
        help="serve the processor's metrics for Prometheus here, at /metrics (default: nowhere)",
    )


def _add_grace(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument(
        "--grace",
        type=seconds,
        default=_GRACE,
        metavar="SECONDS",
        help=f"how long running {what} may take to end after Ctrl-C or SIGTERM (default: %(default)g)",
    )


def _add_envoy_binary(command: argparse.ArgumentParser) -> None:
    command.add_argument("--envoy", metavar="PATH", help="Envoy's binary (default: the installed one)")
