"""What somebody types next whose command has failed, where the error doesn't say so itself: it may go to a log too."""

from __future__ import annotations

import shlex

from extproc.config.loading import ConfigError, MissingConfigError


def next_step(error: Exception) -> str:
    """The rest of the error's line; empty if there is nothing to add."""
    match error:
        case MissingConfigError(path=path):
            return f"; `extproc init --file {shlex.quote(str(path))}` writes one"
        case ConfigError():
            return ""
    return _of_a_probe(error)


def _of_a_probe(error: Exception) -> str:
    # Imported only now: a processor whose configuration is wrong has no need of it.
    from extproc.probe import ProbeError
    from extproc.probe.server import NoAnswerError

    match error:
        case ProbeError(__cause__=NoAnswerError(__cause__=ConnectionRefusedError())):
            return "; is vLLM running there? `extproc up --scripted` does without"
    return ""
