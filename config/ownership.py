"""Where the knowledge of who owns which GPU comes from, and how long it is believed."""

from typing import Literal

from config.addresses import FilePath, Text, Url
from config.durations import PositiveMilliseconds
from config.model import Section


class LabelerServiceConfig(Section):
    """Labelers found through Kubernetes: the endpoints of a Service."""

    service: Text | None = None
    """Name of the labelers' Service. Default: none, nothing is looked up."""

    namespace: Text | None = None
    """The Service's namespace. Default: the proxy's own."""

    config: Text = "in-cluster"
    """`in-cluster`, or the path of a kubeconfig."""


class OwnershipConfig(Section):
    """Sources of ownership. Without any, no series is a device series, and views see series as sent."""

    files: tuple[FilePath, ...] = ()
    """Static ownership documents; read again when they change, and not shortened by `history`. Default: none."""

    labelers: tuple[Url, ...] = ()
    """Base URLs of labelers. Default: none."""

    kubernetes: LabelerServiceConfig = LabelerServiceConfig()
    """Labelers found through Kubernetes."""

    max_age: PositiveMilliseconds = 30_000
    """How long the last owner is assumed after a node's last observation. Default 30s; longer gives samples to a pod
    that has gone, shorter sends them to quarantine when a labeler is late."""

    history: PositiveMilliseconds = 3 * 3_600_000
    """How far back owners are kept. Default 3h; samples that arrive later than this have no owner any more. Memory
    grows with it."""

    trusted_jobs: tuple[Text, ...] = ("whosegpu-labeler",)
    """Scrape jobs whose series are a labeler's: believed as they are. Whoever can name a job so can write into every
    tenant."""

    strip_labels: tuple[Text, ...] = ()
    """Further labels that the exporter puts on device series (pod labels), taken off. Default: none. What is left here
    would say one pod's labels on another pod's series."""

    exporter_labels: Literal["drop", "keep"] = "drop"
    """The exporter's own pod labels: dropped, or kept as `exporter_<name>`. Default: drop."""
