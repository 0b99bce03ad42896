"""The suite's command line: `extproc conformance`, and `python -m extproc.conformance` where there is no processor.

Exit status: 0, the server conforms; 1, it doesn't, or nothing could be judged; 2, the command line, the recipe or the
target is wrong, or a library is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from pathlib import Path

from extproc.conformance.recipe import PROFILES

PURPOSE = "judge any ext_proc server from outside, by a catalogue of numbered cases"
EXAMPLES = """
extproc conformance 127.0.0.1:9000
extproc conformance 127.0.0.1:9000 --recipe recipe.yaml --profile core --profile mutating
extproc conformance unix:/run/extproc.sock --only 'LAY-*' --except 'LAY-2?' --html report.html --junit report.xml
extproc conformance 127.0.0.1:9000 --envoy 1.38.3
extproc conformance --list
"""
_REPORTS = ("json", "junit", "tap", "markdown", "html", "badge")
_LIBRARIES = "grpcio, protobuf, pyyaml and hpack, and for real Envoys h11 and h2"
_TARGET = re.compile(r"unix:.+|.+:[0-9]{1,5}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", nargs="?", type=_target, metavar="TARGET", help="the server: HOST:PORT or unix:/path, without TLS"
    )
    parser.add_argument(
        "--recipe", type=Path, metavar="FILE", help="what the server passes on, refuses and mutates (YAML)"
    )
    parser.add_argument(
        "--profile",
        action="append",
        choices=PROFILES,
        help="cases of this profile, instead of the recipe's; may be repeated (default: core)",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ID",
        help="only these cases; patterns such as `LAY-*`; may be repeated",
    )
    parser.add_argument(
        "--except",
        action="append",
        default=[],
        dest="left_out",
        metavar="ID",
        help="leave these cases out; patterns as with --only, from which it takes away; may be repeated",
    )
    parser.add_argument(
        "--envoy",
        metavar="VERSION",
        help="play the cases through this real Envoy too (1.36.2 to 1.40.0, or the path of a binary), and compare",
    )
    parser.add_argument("--list", action="store_true", help="list the cases, and play none")
    parser.add_argument("--quiet", action="store_true", help="print only the totals")
    parser.add_argument(
        "--allow-remote", action="store_true", help="judge a server that isn't on this machine's loopback interface"
    )
    for name in _REPORTS:
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write a report here ({name})")


def _target(text: str) -> str:
    if not _TARGET.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected HOST:PORT or unix:/path, got {text!r}")
    if not text.startswith("unix:") and not 0 < int(text.rpartition(":")[2]) < 65536:
        raise argparse.ArgumentTypeError(f"expected a port from 1 to 65535, got {text!r}")
    return text


def run(options: argparse.Namespace) -> int:
    """Returns the exit status."""
    from dataclasses import replace

    from extproc.conformance.recipe import Recipe, RecipeError, load
    from extproc.conformance.runner import ChoiceError, checked, chosen

    try:
        recipe = Recipe() if options.recipe is None else load(options.recipe)
    except RecipeError as error:
        return _misused(str(error))
    except OSError as error:
        return _misused(f"{options.recipe} can't be read ({error.strerror or error})")
    if options.profile:
        recipe = replace(recipe, profiles=tuple(dict.fromkeys(options.profile)))
    if options.list:
        profiles = recipe.profiles if options.profile else PROFILES
        for case in chosen(profiles, options.only, options.left_out):
            print(f"{case.id:10} {case.level.value:6} {case.profile:9} {case.title} ({case.source})")
        return 0
    if options.target is None:
        return _misused("say which server: TARGET is HOST:PORT or unix:/path")
    try:
        checked(recipe.profiles, options.only, options.left_out, "--except")
        _try_reports(options)
    except (ChoiceError, OSError) as error:
        return _misused(str(error))
    return _played(options, recipe)


def _try_reports(options: argparse.Namespace) -> None:
    """So that what can't be written is known before minutes of playing. Raises OSError."""
    for name in _REPORTS:
        if (path := getattr(options, name)) is not None:
            new = not path.exists()
            with path.open("a", encoding="utf-8"):
                pass
            if new:
                path.unlink()


def _played(options: argparse.Namespace, recipe: object) -> int:
    from extproc.conformance.client import UnreachableError
    from extproc.conformance.driver import HostError
    from extproc.conformance.recipe import Recipe
    from extproc.conformance.reports import FORMATS
    from extproc.conformance.reports.readable import closing, line
    from extproc.conformance.runner import run as played
    from extproc.conformance.verdicts import Result

    assert isinstance(recipe, Recipe)

    def told(result: Result) -> None:
        if not options.quiet:
            print(line(result), flush=True)

    try:
        report = asyncio.run(
            played(
                options.target,
                recipe,
                patterns=options.only,
                left_out=options.left_out,
                allow_remote=options.allow_remote,
                envoy=options.envoy,
                told=told,
            )
        )
        for name in _REPORTS:
            if (path := getattr(options, name)) is not None:
                path.write_text(FORMATS[name](report), encoding="utf-8")
    except (UnreachableError, HostError, OSError) as error:
        return _misused(str(error))
    print(closing(report) if options.quiet else f"\n{closing(report)}")
    return 0 if report.conforms else 1


def _misused(message: str) -> int:
    print(f"extproc: {message}", file=sys.stderr)
    return 2


def main(words: list[str] | None = None, name: str = "python -m extproc.conformance") -> int:
    """The suite alone, as `name`; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog=name,
        description=PURPOSE[0].upper() + PURPOSE[1:],
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    try:
        return run(parser.parse_args(words))
    except ModuleNotFoundError as missing:
        if (missing.name or "extproc").partition(".")[0] == "extproc":
            raise
        return _misused(f"{missing.name} isn't installed; the suite needs {_LIBRARIES}")
