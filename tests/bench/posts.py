"""CPU time of one small POST to an upstream: `python -m tests.bench.posts` (the measurement of docs/adr/0001).

The client on one core, the counting sink on another; each upstream has one request in flight all the time.
"""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from statistics import median

import uvloop

from proto.prompb import remote_pb2
from proxy.core.outcome import Reply
from proxy.upstreams.target import UpstreamTarget, target
from proxy.upstreams.upstream import HttpUpstream

CLIENT_CORE, SINK_CORE = 0, 1
POSTS, RUNS = 20_000, 5
SAMPLES, LABEL_BYTES = 20, 70
TIMEOUT_SECONDS = 10.0


def _body() -> bytes:
    """Twenty samples that hardly compress: about 2 kB."""
    request = remote_pb2.WriteRequest()
    for _ in range(SAMPLES):
        series = request.timeseries.add()
        series.labels.add(name=b"__name__", value=os.urandom(LABEL_BYTES))
        series.samples.add(value=1.0, timestamp=1)
    return HttpUpstream.encode(request.SerializeToString())


def _target(port: int) -> UpstreamTarget:
    headers = (
        ("User-Agent", "whosegpu/bench"),
        ("Content-Type", "application/x-protobuf"),
        ("Content-Encoding", "snappy"),
        ("X-Prometheus-Remote-Write-Version", "0.1.0"),
        ("X-Scope-OrgID", "team-ml"),
    )
    return target(f"http://127.0.0.1:{port}/api/v1/push", headers, None, None, TIMEOUT_SECONDS)


class _Run:
    """Some posts through some upstreams."""

    def __init__(self, upstreams: Sequence[HttpUpstream], body: bytes, posts: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._body = body
        self._to_send = posts
        self._to_come = posts
        for upstream in upstreams:
            self._post(upstream)

    def _post(self, upstream: HttpUpstream) -> None:
        def replied(reply: Reply) -> None:
            assert reply.status == 204, reply
            self._to_come -= 1
            if self._to_send:
                self._post(upstream)
            elif not self._to_come:
                self.done.set_result(None)

        self._to_send -= 1
        upstream.post(self._body, 0, replied)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _microseconds(port: int, count: int) -> float:
    upstreams = [HttpUpstream(_target(port), asyncio.get_running_loop()) for _ in range(count)]
    body = _body()
    await _Run(upstreams, body, count).done  # connects
    begun = _cpu_seconds()
    await _Run(upstreams, body, POSTS).done
    used = _cpu_seconds() - begun
    for upstream in upstreams:
        upstream.close()
    return used / POSTS * 1e6


def figures(counts: Sequence[int] = (1, 20, 100, 1000)) -> dict[int, float]:
    """Microseconds of CPU a POST, for each number of upstreams: the median of some runs."""
    command = ["taskset", "-c", str(SINK_CORE), sys.executable, "-m", "tests.bench.sink"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sink:
        assert sink.stdout is not None
        port = int(sink.stdout.readline())
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {CLIENT_CORE})
        try:
            return {count: median(uvloop.run(_microseconds(port, count)) for _ in range(RUNS)) for count in counts}
        finally:
            os.sched_setaffinity(0, before)
            sink.terminate()


if __name__ == "__main__":
    print("upstreams  us of CPU a POST")
    for upstreams_count, microseconds in figures().items():
        print(f"{upstreams_count:9}  {microseconds:.1f}")
