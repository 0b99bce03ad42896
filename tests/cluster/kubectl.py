"""kubectl, for the cluster of the tests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import yaml

from tests.cluster.node import Node
from tests.cluster.older import older
from tests.cluster.programs import WHOLE
from tests.k8s.rendered import Object

_PATIENCE = 400


class Kubectl:
    """What `kubectl` does with the words given."""

    def __init__(self, node: Node) -> None:
        self._program = [str(Path(sys.executable).with_name("kubectl")), f"--kubeconfig={node.kubeconfig}"]
        self.is_older = node.programs.version < WHOLE

    def __call__(self, *words: str, given: str = "") -> str:
        """What it prints. Raises AssertionError with what it complains of."""
        done = self.run(*words, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}{done.stdout[-2000:]}"
        return done.stdout

    def run(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = [*self._program, *words]
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=_PATIENCE, check=False)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """As `run`, meanwhile."""
        return subprocess.Popen(
            [*self._program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
        )

    def apply(self, objects: Iterable[Object], namespace: str | None = None) -> str:
        """By server-side apply; the cluster's own validation says what is wrong with them."""
        return self("apply", "--server-side", *_into(namespace), "--filename=-", given=self._text(objects))

    def differing(self, objects: Iterable[Object], namespace: str | None) -> list[str]:
        """Which objects aren't as the cluster has them: their kinds and names."""
        words = ("diff", "--server-side", *_into(namespace), "--filename=-")
        done = self.run(*words, given=self._text(objects))
        assert done.returncode in (0, 1), done.stderr
        print(done.stdout)
        return re.findall(r"^diff \S+ .*/[^/ ]*\.([A-Z]\w+\.\S+) /", done.stdout, re.MULTILINE)

    def get(self, *words: str) -> Object:
        return dict(json.loads(self("get", *words, "--output=json")))

    def _text(self, objects: Iterable[Object]) -> str:
        return yaml.safe_dump_all(older(list(objects)) if self.is_older else objects)


def _into(namespace: str | None) -> tuple[str, ...]:
    """Without one, objects say it themselves."""
    return () if namespace is None else (f"--namespace={namespace}",)
