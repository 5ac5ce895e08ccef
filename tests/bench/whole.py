"""The whole process, and vmagent beside it: samples per CPU second of whoever joins, routes and delivers them.

Receiver under test on one core; sender and counting sink share the other one. The same requests go through both. What
the sink counted is what was delivered; CPU time is the process' own, from /proc.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import uvloop

from tests.bench.load import Load, make_load, write_proxy_config
from tests.bench.sender import requests_to, send
from tests.peers.registry import binary, missing
from tests.scrape import Scrape

UNDER_TEST_CORE, OTHER_CORE = 0, 1
RUN_SECONDS, RUNS = 4.0, 3
WARM_SCRAPES = 2
VMAGENT_TENANTS = 100
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Figure:
    """One receiver under one load: samples per CPU second, what came out per second, and the sender's wait."""

    name: str
    tenants: int
    samples_per_cpu_second: float
    samples_per_second: float
    p99_milliseconds: float
    rss_mib: float
    failed: int
    delivered_all: bool


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_mib(pid: int) -> float:
    """Resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextlib.contextmanager
def started(command: Sequence[str], core: int, log: Path) -> Iterator[subprocess.Popen[str]]:
    """A process on one core, stopped at the end."""
    pinned = ["taskset", "-c", str(core), *command]
    with log.open("w") as errors:
        process = subprocess.Popen(pinned, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def sink(folder: Path) -> Iterator[str]:
    """A counting sink; its base URL."""
    with started([sys.executable, "-m", "tests.bench.sink"], OTHER_CORE, folder / "sink.log") as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"


def counted(url: str) -> int:
    """Samples that a sink has counted."""
    with urllib.request.urlopen(url) as reply:
        return int(json.load(reply)["samples"])


def queued(url: str) -> int:
    """Samples that a proxy's queues hold."""
    with urllib.request.urlopen(f"{url}/metrics") as reply:
        return int(Scrape(reply.read().decode()).total("samples_queued"))


def measure(name: str, load: Load, process: int, address: tuple[str, int], taken: Callable[[], int]) -> Figure:
    """Warm up, then RUNS runs; medians. `taken` says how many samples have come to their end so far."""
    os.sched_setaffinity(0, {OTHER_CORE})
    path = "/api/v1/write"
    shards = [requests_to(path, [scrape[shard] for scrape in load.bodies]) for shard in range(len(load.bodies[0]))]
    for _ in range(WARM_SCRAPES):
        uvloop.run(send(address, [requests[:1] for requests in shards], 0.0))
    rates, throughputs, waits, failed, complete = [], [], [], 0, True
    for _ in range(RUNS):
        _settled(taken)
        samples, cpu, clock = taken(), cpu_seconds(process), time.monotonic()
        sent = uvloop.run(send(address, shards, RUN_SECONDS))
        delivered = _settled(taken) - samples
        rates.append(delivered / (cpu_seconds(process) - cpu))
        throughputs.append(delivered / (time.monotonic() - clock))
        waits.append(sorted(sent.seconds)[int(len(sent.seconds) * 0.99)] * 1000)
        failed += sent.failed
        complete = complete and delivered == len(sent.seconds) * load.series
    return Figure(
        name, len(load.tenants), median(rates), median(throughputs), median(waits), rss_mib(process), failed, complete
    )


def _settled(taken: Callable[[], int]) -> int:
    """What has come to its end once nothing more comes."""
    before = -1
    now = taken()
    while now != before:
        time.sleep(0.3)
        before, now = now, taken()
    return now


def proxy_figure(load: Load, down: str = "") -> Figure:
    """whosegpu, joining by ownership; what is for the tenant `down` goes to disk."""
    with tempfile.TemporaryDirectory() as name, sink(Path(name)) as sink_url:
        folder = Path(name)
        config = write_proxy_config(load, folder, sink_url, down)
        command = [sys.executable, "-m", "cli.main", "proxy", "--config", str(config), "--log-format", "json"]
        log = folder / "proxy.log"
        with started(command, UNDER_TEST_CORE, log) as process:
            address = _listening(log)
            own = f"http://{address[0]}:{address[1]}"
            who = "one down" if down else "whosegpu"
            return measure(who, load, process.pid, address, lambda: counted(sink_url) + queued(own))


def _listening(log: Path) -> tuple[str, int]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for line in log.read_text().splitlines():
            if line.startswith("{") and json.loads(line).get("event") == "listening":
                host, _, port = json.loads(line)["address"].rpartition(":")
                return host, int(port)
        time.sleep(0.1)
    raise TimeoutError(log.read_text())


def vmagent_figure(load: Load) -> Figure:
    """The other one: vmagent with one URL and keep rule per tenant, speaking plain remote write 1.0 as we do."""
    with tempfile.TemporaryDirectory() as name, sink(Path(name)) as sink_url:
        folder = Path(name)
        port = _free_port()
        command = [
            str(binary("vmagent")),
            f"-httpListenAddr=127.0.0.1:{port}",
            f"-remoteWrite.tmpDataPath={folder / 'data'}",
            "-remoteWrite.forcePromProto",
            "-remoteWrite.queues=1",
            "-maxInsertRequestSize=64MiB",
        ]
        for tenant in load.tenants:
            rules = folder / f"{tenant}.yaml"
            rules.write_text(f"- {{action: keep, source_labels: [namespace], regex: {tenant}}}\n")
            command += [f"-remoteWrite.url={sink_url}/{tenant}", f"-remoteWrite.urlRelabelConfig={rules}"]
        log = folder / "vmagent.log"
        with started(["env", "GOMAXPROCS=1", *command], UNDER_TEST_CORE, log) as process:
            _answers(f"http://127.0.0.1:{port}/health", log)
            return measure("vmagent", load, process.pid, ("127.0.0.1", port), lambda: counted(sink_url))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str, log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(url):
            return
        time.sleep(0.1)
    raise TimeoutError(log.read_text())


def compare(tenant_counts: Sequence[int]) -> dict[int, tuple[Figure, Figure | None]]:
    """The proxy and vmagent, side by side for each count of tenants; told as they come.

    vmagent keeps a queue and a client for each URL, and is not asked for 1000.
    """
    found: dict[int, tuple[Figure, Figure | None]] = {}
    for count in tenant_counts:
        load = make_load(count)
        ours = proxy_figure(load)
        tell(ours)
        theirs = vmagent_figure(load) if count <= VMAGENT_TENANTS and not missing(["vmagent"]) else None
        if theirs is not None:
            tell(theirs)
        found[count] = ours, theirs
    return found


def one_down(tenant_count: int) -> Figure:
    """The proxy while the traffic of one of its tenants goes to disk."""
    load = make_load(tenant_count)
    found = proxy_figure(load, down=load.tenants[0])
    tell(found)
    return found


def tell(figure: Figure) -> None:
    """One line of the table."""
    print(
        f"{figure.name:>9} {figure.tenants:5d} tenants {figure.samples_per_cpu_second:12,.0f} samples/CPU s"
        f" {figure.samples_per_second:12,.0f} samples/s   p99 {figure.p99_milliseconds:7.1f} ms"
        f"   RSS {figure.rss_mib:6.0f} MiB"
        + ("" if figure.delivered_all else "   (its queue was not empty at the end)")
        + (f"   {figure.failed} requests FAILED" if figure.failed else ""),
        flush=True,
    )
