"""A real Cortex: a multi-tenant store in one process, with blocks on local files and remote write 2.0 on."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.peers.processes import Process, Program, free_ports, running, wait_until
from tests.peers.promql import QueryApi, Series
from tests.peers.registry import binary
from tests.peers.web import Call, fetch

TENANT_HEADER = "X-Scope-OrgID"


@dataclass(frozen=True, slots=True)
class Cortex:
    """A running store."""

    url: str
    process: Process
    overrides_file: Path

    @property
    def push_url(self) -> str:
        """Where it takes remote writes."""
        return f"{self.url}/api/v1/push"

    def api(self, tenant: str) -> QueryApi:
        """The query API, asked as a tenant."""
        return QueryApi(f"{self.url}/prometheus", {TENANT_HEADER: tenant})

    def query(self, tenant: str, promql: str, at_ms: int | None = None) -> tuple[Series, ...]:
        """As QueryApi.query."""
        return self.api(tenant).query(promql, at_ms)

    def limit(self, limits: Mapping[str, Mapping[str, Any]]) -> None:
        """Sets limits by tenant, such as {"a": {"max_label_names_per_series": 10}}; returns when Cortex has read them.

        A changed ingestion rate of a tenant that has written already comes into force up to ten seconds later.
        """
        digest = write_limits(self.overrides_file, limits)
        loaded = f'cortex_runtime_config_hash{{sha256="{digest}"}}'.encode()
        wait_until(
            lambda: loaded in fetch(Call(f"{self.url}/metrics")).body,
            "Cortex to take the new limits",
            diagnosis=self.process.log_tail,
        )


@contextmanager
def cortex(folder: Path, limits: Mapping[str, Mapping[str, Any]] | None = None) -> Iterator[Cortex]:
    """A Cortex that keeps everything in the folder, ready inside the block and gone after it."""
    (folder / "none").mkdir(parents=True, exist_ok=True)  # where ruler and alertmanager look, and find nothing
    http_port, grpc_port = free_ports(2)
    url = f"http://127.0.0.1:{http_port}"
    overrides_file, config_file = folder / "overrides.yaml", folder / "cortex.yaml"
    write_limits(overrides_file, limits or {})
    config_file.write_text(json.dumps(_config(folder, http_port, grpc_port), indent=1), encoding="utf-8")
    command = [str(binary("cortex")), f"-config.file={config_file}"]
    with running(Program(command, folder / "cortex.log", Call(f"{url}/ready"))) as process:
        yield Cortex(url, process, overrides_file)


def write_limits(path: Path, limits: Mapping[str, Mapping[str, Any]]) -> str:
    """Writes the runtime configuration (JSON is YAML), all at once since Cortex may read at any time; its SHA-256."""
    content = json.dumps({"overrides": limits}).encode()
    unfinished = path.with_suffix(".new")
    unfinished.write_bytes(content)
    unfinished.replace(path)
    return hashlib.sha256(content).hexdigest()


def _config(folder: Path, http_port: int, grpc_port: int) -> dict[str, Any]:
    in_memory = {"kvstore": {"store": "inmemory"}}
    host = "127.0.0.1"
    return {
        "target": "all",
        "auth_enabled": True,
        "server": {
            "http_listen_address": host,
            "http_listen_port": http_port,
            "grpc_listen_address": host,
            "grpc_listen_port": grpc_port,
            "log_level": "info",
        },
        "distributor": {
            "shard_by_all_labels": True,
            "remote_writev2_enabled": True,
            "ring": {**in_memory, "instance_addr": host},
        },
        "ingester": {
            "lifecycler": {
                "address": host,
                "min_ready_duration": "0s",
                "final_sleep": "0s",
                "num_tokens": 16,
                "ring": {**in_memory, "replication_factor": 1},
            },
        },
        "blocks_storage": {
            "backend": "filesystem",
            "filesystem": {"dir": str(folder / "blocks")},
            "tsdb": {"dir": str(folder / "tsdb")},
            "bucket_store": {"sync_dir": str(folder / "sync")},
        },
        "compactor": {"data_dir": str(folder / "compactor"), "sharding_ring": {**in_memory, "instance_addr": host}},
        "ruler": {"rule_path": str(folder / "rules"), "ring": {**in_memory, "instance_addr": host}},
        "ruler_storage": {"backend": "local", "local": {"directory": str(folder / "none")}},
        "alertmanager": {
            "data_dir": str(folder / "alertmanager"),
            "external_url": f"http://{host}/alertmanager",
            "cluster": {"listen_address": ""},  # by default a fixed port on every address
        },
        "alertmanager_storage": {"backend": "local", "local": {"path": str(folder / "none")}},
        "runtime_config": {"file": str(folder / "overrides.yaml"), "period": "500ms"},
    }
