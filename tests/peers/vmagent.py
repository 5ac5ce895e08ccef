"""A real vmagent: the second sender, and what the benchmark compares with."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.peers.processes import Process, Program, free_ports, running
from tests.peers.registry import binary
from tests.peers.web import Call


@dataclass(frozen=True, slots=True)
class Options:
    """How to run it: where it writes, what it scrapes (Prometheus' configuration as a tree), and more."""

    write_urls: Sequence[str]
    config: Mapping[str, Any] = field(default_factory=dict)
    flags: Sequence[str] = ()
    env: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Vmagent:
    """A running vmagent."""

    url: str
    process: Process

    @property
    def write_url(self) -> str:
        """Where it takes remote writes."""
        return f"{self.url}/api/v1/write"


@contextmanager
def vmagent(folder: Path, options: Options) -> Iterator[Vmagent]:
    """A vmagent that keeps everything in the folder, ready inside the block and gone after it."""
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    config_file = folder / "vmagent.yml"
    config_file.write_text(json.dumps(options.config), encoding="utf-8")
    command = [
        str(binary("vmagent")),
        f"-httpListenAddr=127.0.0.1:{port}",
        f"-promscrape.config={config_file}",
        f"-remoteWrite.tmpDataPath={folder / 'data'}",
        "-remoteWrite.flushInterval=100ms",
        *(f"-remoteWrite.url={each}" for each in options.write_urls),
        *options.flags,
    ]
    with running(Program(command, folder / "vmagent.log", Call(f"{url}/ready"), options.env)) as process:
        yield Vmagent(url, process)
