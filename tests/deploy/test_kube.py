"""The manifests before a real API server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deploy import manifests
from tests.deploy.manifests import one, pod
from tests.peers.kube import Kube, kube
from tests.peers.processes import PeerError, wait_until

pytestmark = [pytest.mark.peer("etcd", "kube-apiserver", "kubectl"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    """An API server with the namespace applied."""
    with kube(tmp_path_factory.mktemp("kube")) as running:
        wait_until(lambda: "namespace/default" in running.kubectl("get", "namespaces", "-o", "name"), "the namespaces")
        running.apply((manifests.FOLDER / "namespace.yaml").read_text(encoding="utf-8"))
        yield running


@pytest.mark.parametrize("file", manifests.files(), ids=lambda file: file.stem)
def test_the_api_server_takes_each_manifest(cluster: Kube, file: Path) -> None:
    """Each manifest is applied server-side with strict validation, each of its objects by name."""
    said = cluster.apply(file.read_text(encoding="utf-8"))
    for manifest in manifests.documents(file):
        assert f"/{manifest['metadata']['name']} serverside-applied" in said


def test_the_api_server_takes_the_whole_folder(cluster: Kube) -> None:
    """`kubectl apply -k`, the operator's command, applies everything but the examples."""
    said = cluster.kubectl("apply", "--server-side", "--validate=strict", "-k", str(manifests.FOLDER))
    expected = [each for each in manifests.everything() if each["metadata"]["name"] != "whosegpu-ownership"]
    assert said.count("serverside-applied") == len([each for each in expected if each["kind"] != "Secret"])


def test_a_field_that_does_not_exist_is_refused(cluster: Kube) -> None:
    """The check bites: a misspelt field of the StatefulSet is refused by name."""
    misspelt = one("StatefulSet") | {"spec": {**one("StatefulSet")["spec"], "replica": 1}}
    with pytest.raises(PeerError, match="replica"):
        cluster.apply(json.dumps(misspelt))


def _pod(**changed: Any) -> str:
    """The StatefulSet's pod, as its controller would make it."""
    spec = {**pod(), **changed}
    spec["volumes"] = [
        *spec["volumes"],
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-whosegpu-proxy-0"}},
    ]
    metadata = {"name": "whosegpu-proxy-0", "namespace": "whosegpu"}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def test_the_pod_is_within_the_restricted_profile(cluster: Kube) -> None:
    """The namespace enforces the restricted profile, and the API server admits the pod to it."""
    said = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=_pod())
    assert "pod/whosegpu-proxy-0 serverside-applied" in said


def test_a_pod_with_more_rights_is_not_admitted(cluster: Kube) -> None:
    """The check bites: the same pod that may run as root is refused."""
    with pytest.raises(PeerError, match="runAsNonRoot"):
        cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=_pod(securityContext={}))
