import subprocess
from pathlib import Path

import pytest

from tests.e2e import fleet
from tests.e2e.proxy import proxy
from tests.peers.registry import binary
from tests.peers.web import Call, fetch


@pytest.mark.peer("promtool")
def test_promtool_finds_nothing_wrong_with_the_metrics(tmp_path: Path) -> None:
    """Names, types and help texts of everything that /metrics shows are as Prometheus' own linter wants them."""
    config = {"tenants": [{"id": "all", "endpoint": {"embedded": True}}]}
    with proxy(tmp_path, config) as through:
        at_ms = fleet.now_ms()
        through.push([({"__name__": "good"}, [(at_ms, 1.0)]), ({"no": "name"}, [(at_ms, 1.0)])])
        through.push([], {"Content-Encoding": "zstd"})
        text = fetch(Call(f"{through.url}/metrics")).body
    done = subprocess.run([binary("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
