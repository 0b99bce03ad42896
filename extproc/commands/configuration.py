"""The commands about configurations: what one should say, whether it holds, and what Envoy makes of it."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from extproc.backends.replicas import hidden_replicas
from extproc.commands.options import (
    PROCESSOR,
    Commands,
    add,
    add_envoy_binary,
    add_sockets,
    add_workers,
    path_or_address,
)
from extproc.commands.values import socket_or_address
from extproc.config import Config, load, parse
from extproc.config.files import read_file, shown
from extproc.config.loading import check_files, read
from extproc.exchange.api_keys import ApiKeys, hash_line
from extproc.exchange.tokens import key_set_complaints
from extproc.server.cores import worker_count
from extproc.server.descriptors import descriptor_limit, raise_descriptor_limit, too_few
from extproc.supervisor import GatewayError
from extproc.toolcalls import CHECKPOINT, NAMED, Format, Variant, entry, get_format
from extproc.toolcalls.rows import rows


def add_commands(commands: Commands) -> None:
    _add_check(commands)
    _add_envoy(commands)
    _add_limits(commands)
    _add_formats(commands)
    _add_hash_key(commands)


def _envoy(options: argparse.Namespace) -> int:
    if (options.config is None) == (options.dynamic is None):
        options.misused("give either --config or --dynamic")
    told = options.dynamic.absolute() if options.config is None else load(options.config)
    if options.sockets is not None:
        if not isinstance(told, Config):
            options.misused("--sockets goes with --config; with --dynamic it is an option of `extproc serve`")
        told = told.model_copy(update={"sockets": options.sockets.absolute()})
    workers = options.workers or (told.workers if isinstance(told, Config) else 1)
    if isinstance(told, Config):
        told = told.model_copy(update={"workers": workers})
    sys.stdout.write(_bootstrap(told, options.processor, options.admin, worker_count(workers)))
    return 0


def _limits(options: argparse.Namespace) -> int:
    from extproc.envoy.rate_limit_service import to_yaml  # A second: only now.

    path = options.config or options.file
    if path is None or (options.config and options.file):
        options.misused("give one FILE")
    config = load(path)
    if not config.global_limits:
        print(f"extproc: {path}: {_uncounted(config)}, and try again", file=sys.stderr)
        return 1
    sys.stdout.write(to_yaml(config))
    return 0


def _uncounted(config: Config) -> str:
    """Why no service counts anything, and what to set."""
    if config.rate_limit_service is not None:
        return "no limit; set one in tokens or of requests in `limits` or in an entry of `teams`"
    if config.identifies_clients:
        return "no service that counts; set `rate_limit_service`"
    return "no service that counts, and nobody whose requests; set `rate_limit_service`, and `api_keys` or `jwt`"


def _hash_key(options: argparse.Namespace) -> int:
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
        options.misused("give one FILE")
    raise_descriptor_limit()
    text = read(path)
    config = parse(text, source=str(path))
    check_files(config, text, source=str(path), there=True)
    for warning in _warnings(config):
        print(f"extproc: warning: {warning}", file=sys.stderr)
    bootstrap = _bootstrap(config, PROCESSOR, None, worker_count(config.workers))
    try:
        envoy = find_envoy(options.envoy)
    except GatewayError:
        if options.envoy is not None:
            raise
        by_envoy = "not checked by Envoy, which isn't installed here"
    else:
        with tempfile.TemporaryDirectory(prefix="extproc-") as directory:
            written = Path(directory, "envoy.yaml")
            written.write_text(bootstrap, encoding="utf-8")
            validate(envoy, written)
        by_envoy = "accepted by Envoy"
    characters, problems = _characters(config)
    for problem in problems:
        print(f"extproc: {problem}", file=sys.stderr)
    counted = [_count(config.models, "model"), _count(config.backends, "backend"), *characters]
    if problems:
        return 1
    print(f"{path}: OK: {', '.join(counted)}, listening on {config.listen}; {by_envoy}")
    return 0


def _characters(config: Config) -> tuple[list[str], list[str]]:
    """How many there are, in words, and what is wrong with them: their code runs, as confined as ever."""
    if config.characters is None:
        return [], []
    from extproc.runner.characters import look, tell
    from extproc.runner.plan import problems_of

    if not config.characters.is_dir():
        return [], [f"{config.characters}: no such directory (`characters`)"]
    found = asyncio.run(look(config.characters, config.runs.character_memory))
    problems = [f"{config.characters / problem}" for character in found for problem in tell(character)]
    for character in found:
        if tell(character):
            continue
        problems += [f"{character.file}: {problem}" for problem in problems_of(character, config)]
    return [_count(found, "character")], problems


def _warnings(config: Config) -> Iterator[str]:
    """What keeps nobody from starting, and will be found out later."""
    from extproc.envoy.overload import MAX_CONNECTIONS

    if (warning := too_few(MAX_CONNECTIONS, descriptor_limit())) is not None:
        yield f"on this machine {warning}"
    yield from asyncio.run(hidden_replicas(config))
    if config.jwt is not None and (file := config.jwt.jwks.file) is not None:
        try:
            complaints = [*key_set_complaints(read_file(file))]
        except OSError as error:
            complaints = [f"can't be read: {error.strerror}; no client could get in"]
        for complaint in complaints:
            yield f"{shown(file, 'jwt.jwks.file')}: {complaint}"
    if config.api_keys is not None:
        try:
            keys = ApiKeys.parse(read_file(config.api_keys))
        except OSError as error:
            yield f"{shown(config.api_keys, 'api_keys')}: can't be read: {error.strerror}; no client could get in"
        else:
            yield from keys.complaints(str(config.api_keys))
            for team in sorted(keys.teams - config.teams_by_name.keys()) if config.teams else ():
                yield f"{shown(config.api_keys, 'api_keys')}: no entry of `teams` is named {team!r}: its keys get a 403"
            if not keys:
                yield f"{shown(config.api_keys, 'api_keys')}: holds no keys, so no client could get in"


_FROM_CHECKPOINT = f"""\
{CHECKPOINT}: a format that comes with a checkpoint
  the file is named by `response_template` in a configuration: docs/configuration.md, "A checkpoint's own format\""""


def _formats(options: argparse.Namespace) -> int:
    if options.table and options.name in (None, CHECKPOINT):
        options.misused("--table needs the NAME of a format of the list")
    if options.name == CHECKPOINT:
        print(_FROM_CHECKPOINT)
        return 0
    if options.name is not None:
        format_ = entry(options.name)
        print(f"{_described(format_)}\n\nA call of get_weather for Paris:\n\n{format_.example}")
        if options.table:
            _print_table(get_format(options.name))
        return 0
    for format_ in NAMED:
        print(_described(format_), "\n  example  ", format_.example.replace("\n", r"\n"), "\n", sep="")
    print(_FROM_CHECKPOINT)
    return 0


def _print_table(format_: Format) -> None:
    print("\nHow it is read:")
    state = ""
    for row in rows(format_):
        if row.state != state:
            print(f"\n{row.state}")
            state = row.state
        print(f"  {row.on} -> {row.to}{f'  ({row.effect})' if row.effect else ''}")


def _bootstrap(told: Config | Path, processor: str, admin: str | None, workers: int = 1) -> str:
    """For this configuration, or for the files of this directory."""
    from extproc.envoy.bootstrap import bootstrap, to_yaml  # A second: only now.
    from extproc.envoy.sources import Directory

    of = Directory(str(told)) if isinstance(told, Path) else told
    return to_yaml(
        bootstrap(of, processor=processor.removeprefix("unix:"), workers=workers, admin=path_or_address(admin))
    )


def _described(format_: Format | Variant) -> str:
    aliases = f"\n  aliases  {', '.join(format_.aliases)}" if format_.aliases else ""
    return f"{format_.name}: {format_.title}\n  models   {', '.join(format_.models)}{aliases}"


def _count(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}" if len(things) == 1 else f"{len(things)} {noun}s"


def _add_check(commands: Commands) -> None:
    check = add(
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
    add_envoy_binary(check)


def _add_envoy(commands: Commands) -> None:
    envoy = add(
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
    envoy.add_argument(
        "--config", type=Path, metavar="FILE", help="the configuration file, all of which goes into the bootstrap"
    )
    envoy.add_argument(
        "--dynamic",
        type=Path,
        metavar="DIRECTORY",
        help="instead, a bootstrap that fits any configuration: it reads what may change from the files that "
        "`extproc serve --envoy DIRECTORY` writes; start Envoy with --drain-time-s 86400 --drain-strategy immediate",
    )
    envoy.add_argument(
        "--processor",
        type=socket_or_address,
        default=PROCESSOR,
        metavar="ADDRESS",
        help="where the processor listens: host:port or unix:/path (default: %(default)s); with several workers, "
        "where the first one does",
    )
    envoy.add_argument(
        "--admin",
        type=socket_or_address,
        metavar="ADDRESS",
        help="serve Envoy's admin interface (default: none)",
    )
    add_sockets(envoy)
    add_workers(envoy)


def _add_limits(commands: Commands) -> None:
    limits = add(
        commands,
        "limits",
        _limits,
        "print the limits that envoyproxy/ratelimit counts for all Envoys, as its file",
        """
        extproc limits extproc.yaml > ratelimit.yaml
        """,
    )
    limits.add_argument("file", type=Path, nargs="?", metavar="FILE", help="the configuration file")
    limits.add_argument("--config", type=Path, metavar="FILE", help="the same")


def _add_formats(commands: Commands) -> None:
    formats = add(
        commands,
        "formats",
        _formats,
        "list the formats in which models write tool calls",
        """
        extproc formats
        extproc formats hermes
        extproc formats qwen3_coder --table
        """,
    )
    formats.add_argument("name", nargs="?", metavar="NAME", help="show how models write calls in this format")
    formats.add_argument(
        "--table", action="store_true", help="also show how the gateway reads it: which marker leads where"
    )


def _add_hash_key(commands: Commands) -> None:
    hash_key = add(
        commands,
        "hash-key",
        _hash_key,
        "make a line for the file of API keys: read a key from standard input and print its hash",
        """
        extproc hash-key alice                                             asks for the key
        openssl rand -hex 32 | tee alice.key | extproc hash-key alice >> api-keys
        openssl rand -hex 32 | tee bob.key | extproc hash-key search/bob >> api-keys
        """,
    )
    hash_key.add_argument(
        "name", metavar="NAME", help="the key's owner, as in the access log; TEAM/NAME for a member of a team"
    )
