"""Kubernetes 1.20.2, built from Debian's source: bookworm's is the last that is whole.

Debian's own packages have kubectl alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.cluster.programs import KUBERNETES, VARIABLE, built
from tests.real_vllm.cache import SetupError, built_once, is_complete, require_space, root
from tests.real_vllm.environment import run, step

VERSION = "1.20.2"
_GIGABYTES = 6.0
_GO = Path("/usr/lib/go-1.19/bin")
_RELEASE = "bookworm"
_OPENAPI = "pkg/generated/openapi"
"""The one package whose code the source leaves to be generated."""
_REFLECT = "github.com/modern-go/reflect2"
"""It reads Go's own structures. The source has one for Go 1.17 and older, with which the API server crashes."""


def build() -> None:
    """The five programs, into the directory of those that were built. Raises SetupError."""
    require_space(root(), _GIGABYTES)
    source = root() / f"kubernetes-{VERSION}"
    if not is_complete(source):
        with built_once(source), step(f"Debian's source of Kubernetes {VERSION}: 34 MB"):
            _fetch(source)
    compiler = _Go(source)
    with step("what its API says of itself"):
        compiler.generate()
    with step(f"Kubernetes {VERSION}: ten minutes or so on two cores"):
        compiler.build()
    shutil.rmtree(source)


def _fetch(into: Path) -> None:
    """The source, at its place in a GOPATH."""
    columns = ["--format", "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)"]
    asked = ["apt-get", "indextargets", *columns, "Created-By: Packages"]
    told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    places = {line.removesuffix(" Debian") for line in told.splitlines() if line.endswith(" Debian")}
    if not any(f" {_RELEASE} " in place for place in places):
        raise SetupError(
            f"only Debian {_RELEASE} has a whole source of Kubernetes. Put these of 1.20 to 1.24, or of 1.29 or newer, "
            f"into a directory, and name it in {VARIABLE}: {', '.join(KUBERNETES)}"
        )
    sources, lists = into / "sources.list", into / "lists"
    sources.write_text("".join(f"deb-src {place}\n" for place in sorted(places)))
    (lists / "partial").mkdir(parents=True)
    only = [f"-oDir::Etc::sourcelist={sources}", "-oDir::Etc::sourceparts=-", f"-oDir::State::lists={lists}"]
    run("apt-get", "--quiet", *only, "update")
    run("env", f"--chdir={into}", "apt-get", "--quiet", *only, "source", f"kubernetes/{_RELEASE}")
    (found,) = into.glob("kubernetes-*/")
    if not (found / "cmd/kube-apiserver").exists():
        raise SetupError(f"{found.name} has no kube-apiserver")
    place = into / "gopath/src/k8s.io"
    place.mkdir(parents=True)
    newer = place / "kubernetes/vendor" / _REFLECT
    found.rename(place / "kubernetes")
    shutil.rmtree(newer)
    with tempfile.TemporaryDirectory() as folder:
        run("env", f"--chdir={folder}", "apt-get", "--quiet", "download", "golang-github-modern-go-reflect2-dev")
        (package,) = Path(folder).glob("*.deb")
        run("dpkg", "--extract", str(package), folder)
        shutil.copytree(Path(folder, "usr/share/gocode/src", _REFLECT), newer)


class _Go:
    """The compiler, in a GOPATH: Go of today refuses the modules of this source."""

    def __init__(self, source: Path) -> None:
        self._source = source / "gopath/src/k8s.io/kubernetes"
        self._bin = built() / "bin"
        self._bin.mkdir(parents=True, exist_ok=True)
        settings = {
            "PATH": f"{_GO}:{os.environ['PATH']}",
            "GOPATH": str(source / "gopath"),
            "GOCACHE": str(source / "cache"),
            "GO111MODULE": "off",
            "GOFLAGS": "",
            "CGO_ENABLED": "0",
        }
        self._there = [f"--chdir={self._source}", *(f"{name}={value}" for name, value in settings.items())]

    def generate(self) -> None:
        """What `make generated_files` does for the one package that lacks its code."""
        tool = str(self._source.parent / "openapi-gen")
        run("env", *self._there, "go", "build", "-o", tool, "./vendor/k8s.io/kube-openapi/cmd/openapi-gen")
        made = ["-p", f"k8s.io/kubernetes/{_OPENAPI}", "-O", "zz_generated.openapi", "-r", os.devnull]
        header = ["-h", "hack/boilerplate/boilerplate.generatego.txt"]
        run("env", *self._there, tool, "-i", ",".join(sorted(self._described())), *made, *header)

    def _described(self) -> set[str]:
        """The packages that ask for it."""
        found = set()
        for top, name in (("pkg", "k8s.io/kubernetes/pkg"), ("staging/src/k8s.io", "k8s.io/kubernetes/vendor/k8s.io")):
            for path in (self._source / top).rglob("*.go"):
                package = path.parent.relative_to(self._source / top)
                no_api = {"code-generator", "sample-apiserver", "cmd"} & set(package.parts) or "example" in str(package)
                if not no_api and "+k8s:openapi-gen=" in path.read_text(encoding="utf-8"):
                    found.add(f"{name}/{package}")
        return found

    def build(self) -> None:
        variable = "k8s.io/kubernetes/vendor/k8s.io/component-base/version"
        major, minor, _ = VERSION.split(".")
        values = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor}
        flags = " ".join(["-s", "-w", *(f"-X {variable}.{name}={value}" for name, value in values.items())])
        programs = [f"./cmd/{name}" for name in KUBERNETES]
        run("env", *self._there, "go", "build", "-trimpath", "-ldflags", flags, "-o", f"{self._bin}/", *programs)
