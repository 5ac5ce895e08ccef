"""Prometheus' part of the demo: scrapes with target labels, stale markers, and requests of remote write 1.0.

As Prometheus does it: with `honor_labels: false` a label of the target wins and the exporter's becomes `exported_*`; a
series that a scrape no longer has gets a stale marker at that scrape's time; metadata goes in requests of its own.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from cli.demo.exporter import FAMILIES, Exporter, Labels
from cli.demo.hardware import Node
from cli.demo.simulation import Cluster
from proto.prompb.remote_pb2 import WriteRequest
from proto.prompb.types_pb2 import MetricMetadata
from proxy.core import codec

STALE: Final[float] = struct.unpack("<d", (0x7FF0000000000002).to_bytes(8, "little"))[0]
"""Prometheus' stale marker, one certain NaN (prometheus/prometheus model/value/value.go)."""

CLUSTER: Final = "demo"

Series = tuple[tuple[str, str], ...]
Scrape = dict[Series, float]

_TYPES: Final = {"gauge": MetricMetadata.GAUGE, "counter": MetricMetadata.COUNTER}


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it is sent: `body` is compressed, `samples` are how many it has."""

    body: bytes
    samples: int


def scrape(node: Node, cluster: Cluster, exporter: Exporter, at_ms: int) -> Scrape:
    """All series of one node's targets."""
    series = [(_relabelled(node, labels), value) for labels, value in exporter.scrape(node, cluster, at_ms)]
    target = {"job": "dcgm-exporter", "instance": f"{node.address}:9400"}
    machine = {"job": "node-exporter", "instance": f"{node.address}:9100"}
    series += [
        ({"__name__": "up", **target}, 1.0),
        ({"__name__": "scrape_samples_scraped", **target}, float(len(series))),
        ({"__name__": "up", **machine}, 1.0),
        ({"__name__": "node_load1", **machine}, float(len(node.cards))),
    ]
    return {tuple(sorted({**labels, "cluster": CLUSTER}.items())): value for labels, value in series}


def write_request(now: Mapping[Series, float], before: Iterable[Series], at_ms: int) -> Request:
    """A scrape as a request, with a marker for each series of the scrape before it that has gone."""
    request = WriteRequest()
    samples = list(now.items()) + [(series, STALE) for series in before if series not in now]
    for series, value in samples:
        entry = request.timeseries.add()
        for name, text in series:
            entry.labels.add(name=name.encode(), value=text.encode())
        entry.samples.add(value=value, timestamp=at_ms)
    return Request(_compressed(request), len(samples))


def metadata_request() -> Request:
    """The families' types and texts."""
    request = WriteRequest()
    for family in FAMILIES:
        request.metadata.add(
            type=_TYPES[family.kind], metric_family_name=family.name.encode(), help=family.text.encode()
        )
    return Request(_compressed(request), 0)


def _compressed(request: WriteRequest) -> bytes:
    return codec.encode(request.SerializeToString())


def _relabelled(node: Node, labels: Labels) -> Labels:
    """The labels after the target's are put on."""
    target = {"job": "dcgm-exporter", "instance": f"{node.address}:9400"}
    if node.honor_labels:
        return target | labels
    target |= {"namespace": "gpu-operator", "pod": f"dcgm-exporter-{node.name[-1]}7kq2", "container": "exporter"}
    moved = {f"exported_{name}" if name in target else name: value for name, value in labels.items()}
    return moved | target
