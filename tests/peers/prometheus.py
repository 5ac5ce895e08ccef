"""A real Prometheus: as sender (scrapes and remote-writes), as receiver, or as both; and promtool."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.peers.processes import PeerError, Process, Program, free_ports, running
from tests.peers.promql import QueryApi, Series
from tests.peers.registry import binary
from tests.peers.web import Call, fetch


@dataclass(frozen=True, slots=True)
class Options:
    """How to run it. An agent only sends: it answers no queries. ``config`` is the configuration file as a tree."""

    config: Mapping[str, Any] = field(default_factory=dict)
    agent: bool = False
    flags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server."""

    url: str
    process: Process
    config_file: Path

    @property
    def write_url(self) -> str:
        """Where it takes remote writes."""
        return f"{self.url}/api/v1/write"

    @property
    def target(self) -> str:
        """host:port, to be scraped."""
        return self.url.removeprefix("http://")

    @property
    def api(self) -> QueryApi:
        """Its query API."""
        return QueryApi(self.url)

    def query(self, promql: str, at_ms: int | None = None) -> tuple[Series, ...]:
        """As QueryApi.query."""
        return self.api.query(promql, at_ms)

    def query_range(self, promql: str, start_ms: int, end_ms: int, step_ms: int = 1000) -> tuple[Series, ...]:
        """As QueryApi.query_range."""
        return self.api.query_range(promql, start_ms, end_ms, step_ms)

    def reload(self, config: Mapping[str, Any]) -> None:
        """Gives it another configuration; raises PeerError with its reason when it refuses."""
        write_config(self.config_file, config)
        answer = fetch(Call(f"{self.url}/-/reload", "POST"), timeout_s=30)
        if answer.status != 200:
            raise PeerError(answer.body.decode(errors="replace"))


@contextmanager
def prometheus(folder: Path, options: Options | None = None) -> Iterator[Prometheus]:
    """A Prometheus that keeps everything in the folder, ready inside the block and gone after it."""
    options = options or Options()
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    config_file = folder / "prometheus.yml"
    write_config(config_file, options.config)
    storage = "agent" if options.agent else "tsdb"
    command = [
        str(binary("prometheus")),
        f"--config.file={config_file}",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--storage.{storage}.path={folder / 'data'}",
        "--web.enable-lifecycle",
        "--scrape.discovery-reload-interval=100ms",  # 5 s by default, and as long until the first scrape
        "--agent" if options.agent else "--web.enable-remote-write-receiver",
        *options.flags,
    ]
    with running(Program(command, folder / "prometheus.log", Call(f"{url}/-/ready"))) as process:
        yield Prometheus(url, process, config_file)


def scrape(job: str, targets: Sequence[str], **more: Any) -> dict[str, Any]:
    """A scrape_configs entry that scrapes twice a second; ``more`` adds or replaces keys."""
    timing = {"scrape_interval": "500ms", "scrape_timeout": "500ms"}
    return {"job_name": job, **timing, "static_configs": [{"targets": list(targets)}], **more}


def remote_write(url: str, **more: Any) -> dict[str, Any]:
    """A remote_write entry that sends at once and retries fast; ``more`` adds or replaces keys."""
    queue = {"batch_send_deadline": "100ms", "min_backoff": "50ms", "max_backoff": "200ms", "max_shards": 4}
    return {"url": url, "remote_timeout": "5s", "queue_config": queue, **more}


def sender_config(scrapes: Sequence[Mapping[str, Any]], writes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The configuration of a sender, with the external labels by which a Prometheus of a replicated pair is known."""
    labels = {"cluster": "test", "prometheus": "a"}
    return {"global": {"external_labels": labels}, "scrape_configs": list(scrapes), "remote_write": list(writes)}


def write_config(path: Path, config: Mapping[str, Any]) -> None:
    """Writes a configuration file: JSON is YAML."""
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")


def check_config(path: Path) -> None:
    """``promtool check config``; raises PeerError with what it said."""
    done = subprocess.run(
        [str(binary("promtool")), "check", "config", str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise PeerError(done.stdout + done.stderr)
