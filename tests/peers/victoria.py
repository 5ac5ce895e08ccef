"""A real VictoriaMetrics, single node: a receiver that is not Prometheus."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.peers.processes import Process, Program, free_ports, running
from tests.peers.promql import QueryApi, Series
from tests.peers.registry import binary
from tests.peers.web import Call, fetch


@dataclass(frozen=True, slots=True)
class Victoria:
    """A running server."""

    url: str
    process: Process

    @property
    def write_url(self) -> str:
        """Where it takes remote writes."""
        return f"{self.url}/api/v1/write"

    def query(self, promql: str, at_ms: int | None = None) -> tuple[Series, ...]:
        """As QueryApi.query, with what was just written."""
        fetch(Call(f"{self.url}/internal/force_flush"))
        return QueryApi(self.url).query(promql, at_ms)


@contextmanager
def victoria(folder: Path, flags: Sequence[str] = ()) -> Iterator[Victoria]:
    """A VictoriaMetrics that keeps everything in the folder, ready inside the block and gone after it."""
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [
        str(binary("victoria-metrics")),
        f"-httpListenAddr=127.0.0.1:{port}",
        f"-storageDataPath={folder / 'data'}",
        "-search.latencyOffset=0s",
        *flags,
    ]
    with running(Program(command, folder / "victoria-metrics.log", Call(f"{url}/health"))) as process:
        yield Victoria(url, process)
