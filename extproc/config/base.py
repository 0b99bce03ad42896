"""What all settings have in common: strictness, names, and faults that know their place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from extproc.config.address import check_address

Location: TypeAlias = tuple[int | str, ...]

DIRECTORY = "directory"
"""The key of the validation's context under which the configuration's own directory stands."""


class FieldError(ValueError):
    """A fault between fields, found when all are known: it carries the place that it should be shown at."""

    def __init__(self, location: Location, message: str) -> None:
        super().__init__(message)
        self.location = location


class FieldErrors(ValueError):  # noqa: N818 - several of FieldError
    """Several of them."""

    def __init__(self, faults: Sequence[FieldError]) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


class PathError(ValueError):
    """A file can't be read. Its path may be shown, for it can't be taken for a key's."""


class Settings(BaseModel):
    """Settings that can't be misspelt, nor change once they are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _check_path(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError(f"expected an absolute path, got '{path}'")
    return path


AbsolutePath = Annotated[Path, AfterValidator(_check_path)]
"""A file that Envoy or the processor reads when it needs it, so that it may change or come later."""

AddressText = Annotated[str, AfterValidator(check_address)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
ALIAS_NAME = r"^[^*]{0,255}\*?$"
PARAMETER_NAME = r"^[a-zA-Z0-9_.-]{1,64}$"
CLUSTER_NAME = r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$"
AliasName = Annotated[str, Field(pattern=ALIAS_NAME, min_length=1)]
ParameterName = Annotated[str, Field(pattern=PARAMETER_NAME)]
ClusterName = Annotated[str, Field(pattern=CLUSTER_NAME)]
