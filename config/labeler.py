"""The labeler's settings: what it watches on a node, and how often."""

from pathlib import Path

from config.addresses import Address, FilePath, Listen, Text, Url
from config.durations import Part, PositiveMilliseconds
from config.model import Section


class LabelerConfig(Section):
    """The labeler of one node."""

    listen: Listen = Address("0.0.0.0", 9401)  # noqa: S104 (it is scraped, and asked by the proxy, from other machines)
    """Address for the proxy and for scrapes. Default 0.0.0.0:9401; who owns what can be read there by all who reach
    it."""

    node_name: Text | None = None
    """The node's name in Kubernetes. Default: the environment's NODE_NAME, else the host's name."""

    nvml: Text = "real"
    """`real`, or the path of a simulation file."""

    poll_interval: PositiveMilliseconds = 5_000
    """Time between two looks at the GPUs. Default 5s; what changes in between is noticed that much later."""

    share_step: Part = 0.01
    """A new interval begins when an owner's memory moves by this part of the device's. Default 1%; smaller makes more
    intervals."""

    data_dir: FilePath = Path("data/labeler")
    """Folder of history and meters. Default ./data/labeler; lost meters are hours that nobody is billed for. Needs a
    restart."""

    proc_root: FilePath = Path("/proc")
    """The host's /proc."""

    cgroup_root: FilePath = Path("/sys/fs/cgroup")
    """The host's cgroup tree."""

    pod_resources_socket: FilePath | None = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    """The kubelet's PodResources socket. Empty: not asked, and owners are known by their processes only."""

    kubernetes: Text = "in-cluster"
    """`in-cluster`, the path of a kubeconfig, or of a pods file for bare nodes and tests."""

    dcgm_endpoint: Url | None = None
    """A dcgm-exporter whose metrics the labeler exposes with owners' labels. Default: none."""
