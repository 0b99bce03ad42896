"""The YAML configuration as typed, immutable settings.

`load()` turns a file into a `Config` or raises a `ConfigError` whose message names the file, the line and the
field, and says what is wrong.
"""

from extproc.config.address import Address, reachable
from extproc.config.alias import Alias, Choice, Why
from extproc.config.backend import Backend
from extproc.config.bounds import Bounds, StepName
from extproc.config.jwt import Jwt, KeysUrl
from extproc.config.ladder import Ladder, Step
from extproc.config.limits import Limits
from extproc.config.loading import ConfigError, load, parse
from extproc.config.model import InvalidCalls, Model
from extproc.config.origins import ANY_ORIGIN
from extproc.config.settings import Config
from extproc.config.team import Team
from extproc.config.tools import Runs, ToolServer

__all__ = [
    "ANY_ORIGIN",
    "Address",
    "Alias",
    "Backend",
    "Bounds",
    "Choice",
    "Config",
    "ConfigError",
    "InvalidCalls",
    "Jwt",
    "KeysUrl",
    "Ladder",
    "Limits",
    "Model",
    "Runs",
    "Step",
    "StepName",
    "Team",
    "ToolServer",
    "Why",
    "load",
    "parse",
    "reachable",
]
