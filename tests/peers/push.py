"""A hand-made remote write 1.0 request, for tests that speak to a peer or to the proxy without a sender."""

from collections.abc import Iterable, Mapping, Sequence

import cramjam

from proto.prompb.remote_pb2 import WriteRequest
from tests.peers.web import Answer, Call, fetch

HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
    "User-Agent": "whosegpu-tests",
}
Entry = tuple[Mapping[str, str], Sequence[tuple[int, float]]]


def encode(entries: Iterable[Entry]) -> bytes:
    """Label sets with their samples (milliseconds, value) as a snappy block; labels are sorted, nothing is checked."""
    request = WriteRequest()
    for labels, samples in entries:
        series = request.timeseries.add()
        for name, value in sorted(labels.items()):
            series.labels.add(name=name.encode(), value=value.encode())
        for at_ms, number in samples:
            series.samples.add(timestamp=at_ms, value=number)
    return bytes(cramjam.snappy.compress_raw(request.SerializeToString()))


def push(url: str, entries: Iterable[Entry], headers: Mapping[str, str] | None = None) -> Answer:
    """Posts the entries; the answer, whatever it is."""
    return fetch(Call(url, "POST", encode(entries), {**HEADERS, **(headers or {})}))
