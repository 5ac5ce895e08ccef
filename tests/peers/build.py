"""Builds the real peers that the tests run against, from the Go modules pinned beside this file.

``python tests/peers/build.py [program...]`` puts each into ``${XDG_CACHE_HOME:-~/.cache}/whosegpu/peers`` as
``<program>-<version>`` and skips those that are there. The version is the one in the peer's ``go.mod``, so that no
second list can disagree with it. Needs nothing but Python's standard library and Go.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
GO_NEEDED = "1.26"


class BuildError(Exception):
    """One sentence for the person at the terminal."""


@dataclass(frozen=True)
class Peer:
    """A program, the pinned module that it is built from, and the Go variable that tells the program its version."""

    program: str
    folder: str
    module: str
    package: str = ""
    tags: str = ""
    version_variable: str = ""

    @cached_property
    def version(self) -> str:
        """The version of the module that the folder's go.mod requires."""
        text = (FOLDER / self.folder / "go.mod").read_text(encoding="utf-8")
        found = re.search(rf"^(?:require )?\s*{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if found is None:
            message = f"tests/peers/{self.folder}/go.mod does not require {self.module}"
            raise BuildError(message)
        return found[1]

    @property
    def import_path(self) -> str:
        """What ``go build`` is given."""
        return f"{self.module}{self.package}"

    @property
    def linker_flags(self) -> str:
        """No symbols, and the version where the program cannot do without: kubectl refuses to run some verbs."""
        return f"-s -w -X {self.version_variable}={self.version}" if self.version_variable else "-s -w"

    @property
    def binary(self) -> Path:
        """Where the built program is, or will be."""
        return cache_folder(os.environ) / f"{self.program}-{self.version}"


_KUBERNETES_VERSION = "k8s.io/component-base/version.gitVersion"

# In the order of building: what most tests need comes first.
PEERS = (
    Peer("prometheus", "prometheus", "github.com/prometheus/prometheus", "/cmd/prometheus"),
    Peer("promtool", "prometheus", "github.com/prometheus/prometheus", "/cmd/promtool"),
    Peer("vmagent", "victoriametrics", "github.com/VictoriaMetrics/VictoriaMetrics", "/app/vmagent"),
    # Without slicelabels Cortex starts, and panics at the first sample.
    Peer("cortex", "cortex", "github.com/cortexproject/cortex", "/cmd/cortex", "netgo slicelabels"),
    Peer("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Peer(
        "kube-apiserver", "kubernetes", "k8s.io/kubernetes", "/cmd/kube-apiserver", version_variable=_KUBERNETES_VERSION
    ),
    Peer("kubectl", "kubernetes", "k8s.io/kubernetes", "/cmd/kubectl", version_variable=_KUBERNETES_VERSION),
    Peer("victoria-metrics", "victoriametrics", "github.com/VictoriaMetrics/VictoriaMetrics", "/app/victoria-metrics"),
)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The user's folder of built peers; a relative XDG_CACHE_HOME is ignored, as its specification asks."""
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "whosegpu" / "peers"


def find_go() -> str:
    """The go command; raises BuildError where there is none."""
    go = shutil.which("go")
    if go is None:
        message = f"Go {GO_NEEDED} or newer builds the peers, and there is no `go` on PATH."
        raise BuildError(message)
    return go


def build(peer: Peer, go: str) -> None:
    """Builds one peer; the name appears only once the file is whole. Raises BuildError."""
    target = peer.binary
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        unfinished = Path(folder) / peer.program
        # No C: the same programs come out where there is no compiler.
        command = [go, "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", peer.linker_flags]
        command += ["-tags", peer.tags, "-o", str(unfinished), peer.import_path]
        environ = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
        done = subprocess.run(command, cwd=FOLDER / peer.folder, env=environ, check=False)
        if done.returncode != 0:
            message = f"{peer.program} {peer.version} did not build: go build ended with status {done.returncode}."
            raise BuildError(message)
        unfinished.replace(target)


def ensure(peer: Peer) -> str:
    """Builds the peer unless it is there; the line to print about it."""
    if peer.binary.exists():
        return f"{peer.binary}: already there"
    started = time.monotonic()
    build(peer, find_go())
    return f"{peer.binary}: built in {time.monotonic() - started:.0f} s"


def chosen(names: Sequence[str]) -> list[Peer]:
    """The peers of these names, all for none; raises BuildError for a name that is not one."""
    unknown = sorted(set(names) - {peer.program for peer in PEERS})
    if unknown:
        message = f"No such peer: {', '.join(unknown)}. There are: {', '.join(peer.program for peer in PEERS)}."
        raise BuildError(message)
    return [peer for peer in PEERS if not names or peer.program in names]


def main(names: Sequence[str]) -> int:
    """Builds what is missing; the exit status."""
    try:
        for peer in chosen(names):
            sys.stdout.write(f"{ensure(peer)}\n")
            sys.stdout.flush()
    except BuildError as error:
        sys.stderr.write(f"make peers: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
