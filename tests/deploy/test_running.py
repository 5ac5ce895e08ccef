"""The proxy itself, started by the configuration in the ConfigMap and asked as the manifests and Prometheus ask it."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.deploy.dockerfile import ROOT
from tests.deploy.manifests import configured, container, mounted_at
from tests.deploy.snippet import remote_write
from tests.peers.processes import Process, Program, free_ports, running
from tests.peers.push import push
from tests.peers.web import Call, fetch

TOKEN = "t0ken"


@contextmanager
def proxy(folder: Path) -> Iterator[tuple[Process, str]]:
    """The process and its address, inside the block; it listens on loopback and keeps everything in the folder."""
    (port,) = free_ports(1)
    settings = configured().settings.proxy
    text = mounted_at(folder).replace(f" {settings.listen} ", f" 127.0.0.1:{port} ")
    text = text.replace(f" {settings.data_dir} ", f" {folder / 'data'} ")
    config = folder / Path(container()["args"][-1]).name
    config.write_text(text, encoding="utf-8")
    (folder / "prometheus.token").write_text(f"{TOKEN}\n", encoding="utf-8")
    verb, option, _ = container()["args"]
    command = [sys.executable, "-m", "cli.main", verb, option, str(config)]
    url = f"http://127.0.0.1:{port}"
    ready = Call(f"{url}{container()['readinessProbe']['httpGet']['path']}")
    with running(Program(command, folder / "proxy.log", ready, os.environ | {"PYTHONPATH": str(ROOT)})) as process:
        yield process, url


def test_the_proxy_answers_its_probes_and_its_prometheus(tmp_path: Path) -> None:
    """Probes succeed, what the snippet's path and the token send is taken, others are refused, SIGTERM ends it."""
    with proxy(tmp_path) as (process, url):
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert fetch(Call(f"{url}{container()[probe]['httpGet']['path']}")).status == 200
        assert b"whosegpu_samples_received_total" in fetch(Call(f"{url}/metrics")).body
        write_url = f"{url}{urlsplit(remote_write()['url']).path}"
        series = [({"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-1"}, [(time.time_ns() // 1_000_000, 42.0)])]
        assert push(write_url, series).status == 401
        answer = push(write_url, series, {"Authorization": f"Bearer {TOKEN}"})
        assert (answer.status, answer.body) == (204, b"")
        process.stop()
    assert process.stop() == 0
