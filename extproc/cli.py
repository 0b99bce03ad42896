"""The `extproc` command: its arguments, and one short function per subcommand.

What goes wrong is one line on stderr that says what and where, and exit status 1; a command line that can't be
understood is status 2.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import dedent, indent
from typing import TypeAlias
from urllib.parse import urlsplit

from extproc.config import Address, Config, ConfigError, load
from extproc.logs import log_to
from extproc.supervisor import GatewayError
from extproc.toolcalls import FORMATS, Format, UnknownFormatError, get_format

_PROCESSOR = "127.0.0.1:9000"
"""Where `serve` listens and where `envoy` looks for it, unless told otherwise."""
_LISTEN = Config.model_fields["listen"].default
_GRACE = 30.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # `extproc formats | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ConfigError, GatewayError, UnknownFormatError, OSError) as error:
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
    from extproc.serve import serve

    log_to(sys.stderr)
    config = load(options.config)
    return asyncio.run(serve(config, options.listen, options.grace, options.health, options.metrics))


def _envoy(options: argparse.Namespace) -> int:
    sys.stdout.write(_bootstrap(load(options.config), options.processor, options.admin))
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

    # What gRPC calls unix:/path is /path for Envoy.
    admin = admin.removeprefix("unix:") if admin is not None else None
    return to_yaml(bootstrap(config, processor=processor.removeprefix("unix:"), admin=admin))


def _described(format_: Format) -> str:
    aliases = f"\n  aliases  {', '.join(format_.aliases)}" if format_.aliases else ""
    return f"{format_.name}: {format_.title}\n  models   {', '.join(format_.models)}{aliases}"


def _count(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}" if len(things) == 1 else f"{len(things)} {noun}s"


# Arguments


def _address(text: str) -> str:
    try:
        return str(Address.parse(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _socket_or_address(text: str) -> str:
    if text.startswith(("unix:/", "/")):
        return f"unix:{text.removeprefix('unix:')}"
    try:
        return str(Address.parse(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; or a socket such as unix:/run/extproc.sock") from error


def _backend(text: str) -> Address:
    url = urlsplit(text if "//" in text else f"//{text}")
    try:
        port = url.port
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"no such port in {text!r}") from error
    if url.scheme == "https":
        raise argparse.ArgumentTypeError("only http:// backends are supported")
    if url.scheme not in ("", "http") or not url.hostname or url.path.rstrip("/") not in ("", "/v1"):
        raise argparse.ArgumentTypeError(f"expected a URL such as http://127.0.0.1:8000, got {text!r}")
    return Address(url.hostname, port or 80)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got {text!r}")
    return seconds


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
    source.add_argument("--backend", type=_backend, metavar="URL", help="serve a model of this vLLM server")
    source.add_argument("--scripted", action="store_true", help="serve a scripted vLLM, started as well")
    up.add_argument("--model", metavar="NAME", help="the model's name; with --backend needed only if it serves several")
    up.add_argument("--format", metavar="NAME", help="how the model writes calls (only hermes so far)")
    up.add_argument("--listen", type=_address, metavar="HOST:PORT", help=f"where clients connect (default: {_LISTEN})")
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
        """,
    )
    _add_config(serve)
    serve.add_argument(
        "--listen",
        type=_socket_or_address,
        default=_PROCESSOR,
        metavar="ADDRESS",
        help="host:port or unix:/path (default: %(default)s)",
    )
    serve.add_argument(
        "--health",
        type=_address,
        metavar="HOST:PORT",
        help="serve the gRPC health service here too, for probes over the network when --listen is a socket",
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
        """,
    )
    _add_config(envoy)
    envoy.add_argument(
        "--processor",
        type=_socket_or_address,
        default=_PROCESSOR,
        metavar="ADDRESS",
        help="where the processor listens: host:port or unix:/path (default: %(default)s)",
    )
    envoy.add_argument(
        "--admin", type=_socket_or_address, metavar="ADDRESS", help="serve Envoy's admin interface (default: none)"
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


def _add_config(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", type=Path, required=True, metavar="FILE", help="the configuration file")


def _add_metrics(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--metrics",
        type=_address,
        metavar="HOST:PORT",
        help="serve the processor's metrics for Prometheus here, at /metrics (default: nowhere)",
    )


def _add_grace(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument(
        "--grace",
        type=_seconds,
        default=_GRACE,
        metavar="SECONDS",
        help=f"how long running {what} may take to end after Ctrl-C or SIGTERM (default: %(default)g)",
    )


def _add_envoy_binary(command: argparse.ArgumentParser) -> None:
    command.add_argument("--envoy", metavar="PATH", help="Envoy's binary (default: the installed one)")
