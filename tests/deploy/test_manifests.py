import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.load import parse
from config.problems import ConfigError
from config.settings import Settings
from ownership import parse_document
from proxy import serve
from proxy.configured import make_ready
from proxy.lanes import delivery
from tests.deploy import manifests
from tests.deploy.dockerfile import ROOT, stage
from tests.deploy.manifests import (
    Manifest,
    configured,
    container,
    memory_needed,
    mounted_at,
    mounted_files,
    one,
    pod,
    quantity,
)


def test_kustomization_lists_every_manifest() -> None:
    """`kubectl apply -k` applies all files of the folder but the examples, the namespace first."""
    listed = manifests.documents(manifests.FOLDER / "kustomization.yaml")[0]["resources"]
    assert sorted([*listed, "kustomization.yaml"]) == sorted(file.name for file in manifests.FOLDER.glob("*.yaml"))
    assert listed[0] == "namespace.yaml"


def test_everything_is_in_the_one_namespace() -> None:
    """Each object is in the namespace that is applied with it."""
    namespace = one("Namespace", "whosegpu")["metadata"]["name"]
    others = [each for each in manifests.everything() if each["kind"] != "Namespace"]
    assert {each["metadata"]["namespace"] for each in others} == {namespace}


def test_the_configuration_is_taken(tmp_path: Path) -> None:
    """What the ConfigMap says is a configuration that the proxy starts with, once its token is there."""
    (tmp_path / "prometheus.token").write_text("t0ken\n", encoding="utf-8")
    ready = make_ready(parse(mounted_at(tmp_path), "whosegpu.yaml"))
    assert [sender.name for sender in ready.senders.senders] == ["prometheus"]
    assert list(ready.targets.declared) == ["team-ml", "team-nlp", "platform"]


def test_the_placeholder_is_no_token(tmp_path: Path) -> None:
    """With the example Secret as it is the proxy does not start, so that nobody runs with a token that all can read."""
    for name, text in one("Secret")["stringData"].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"prometheus\.token"):
        make_ready(parse(mounted_at(tmp_path), "whosegpu.yaml"))


def test_files_that_the_configuration_names_are_mounted() -> None:
    """Each path in the configuration is a key of a Secret or ConfigMap at its mount, or the volume."""
    settings = configured().settings
    named = {str(sender.bearer_token_file) for sender in settings.proxy.senders}
    named |= {str(file) for file in settings.ownership.files}
    mounted = set(mounted_files())
    assert named <= mounted
    assert container()["args"] == json.loads(stage("proxy").values("CMD")[0])
    assert container()["args"][-1] in mounted
    data = [mount["mountPath"] for mount in container()["volumeMounts"] if mount["name"] == "data"]
    assert data == [str(settings.proxy.data_dir)]


def test_only_the_token_and_the_configuration_are_needed_to_start() -> None:
    """A pod without its Secret does not start; one without owners does, and quarantines."""
    (volume,) = (each for each in pod()["volumes"] if each["name"] == "config")
    optional = {
        (kind, reference["name"]): reference.get("optional", False)
        for source in volume["projected"]["sources"]
        for kind, reference in source.items()
    }
    assert optional == {
        ("configMap", "whosegpu-proxy"): False,
        ("secret", "whosegpu-proxy"): False,
        ("configMap", "whosegpu-ownership"): True,
    }


def test_the_example_of_owners_is_a_document() -> None:
    """The example is an ownership document of the node that its key names, of a declared tenant's namespace."""
    declared = {namespace for tenant in configured().settings.tenants for namespace in tenant.namespaces}
    for key, text in one("ConfigMap", "whosegpu-ownership")["data"].items():
        document = parse_document(text.encode())
        assert key == f"{document.node}.json"
        (device,) = document.devices
        assert {owner.namespace for interval in device.intervals for owner in interval.owners} <= declared


def test_no_scrape_job_is_believed() -> None:
    """As long as no labeler comes with these manifests, nobody can claim to be one."""
    assert configured().settings.ownership.trusted_jobs == ()


def test_one_port_everywhere() -> None:
    """The pod, both Services and the policy have the port that the configuration listens on, which is the default."""
    port = configured().settings.proxy.listen.port
    (declared,) = container()["ports"]
    assert port == declared["containerPort"] == Settings().proxy.listen.port
    for name in ("whosegpu-proxy", "whosegpu-proxy-pods"):
        (served,) = one("Service", name)["spec"]["ports"]
        assert (served["port"], served["targetPort"]) == (port, declared["name"])
    (rule,) = one("NetworkPolicy")["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": port}]
    assert rule["from"]


def test_probes_ask_what_the_proxy_answers() -> None:
    """Start and liveness ask for health, readiness for readiness, at the named port."""
    asked = {name: container()[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {get["port"] for get in asked.values()} == {"http"}
    paths = {name: get["path"] for name, get in asked.items()}
    assert paths == {"startupProbe": "/-/healthy", "livenessProbe": "/-/healthy", "readinessProbe": "/-/ready"}


def test_the_pod_runs_as_the_owner_of_its_data() -> None:
    """User and group are the image's, which own its data folder, and the volume is given to that group."""
    proxy = stage("proxy")
    user, group = map(int, proxy.values("USER")[-1].split(":"))
    context = pod()["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (user, group, group)
    (made,) = (run for run in proxy.values("RUN") if run.startswith("install --directory"))
    data_dir = str(configured().settings.proxy.data_dir)
    assert made.endswith(f"--owner {user} --group {group} {data_dir}")
    assert proxy.values("WORKDIR") == [data_dir]


def test_the_pod_has_no_rights() -> None:
    """No capability, no way to more, no writable root, no token of the API server, and no role for anybody."""
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod()["securityContext"]["runAsNonRoot"] is True
    assert pod()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod()["automountServiceAccountToken"] is False
    account = one("ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    assert account["metadata"]["name"] == pod()["serviceAccountName"]
    assert not [each for each in manifests.everything() if "Role" in each["kind"]]


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        ("Service", "whosegpu-proxy", ("selector",)),
        ("Service", "whosegpu-proxy-pods", ("selector",)),
        ("StatefulSet", "whosegpu-proxy", ("selector", "matchLabels")),
        ("PodDisruptionBudget", "whosegpu-proxy", ("selector", "matchLabels")),
        ("NetworkPolicy", "whosegpu-proxy", ("podSelector", "matchLabels")),
    ],
)
def test_selectors_find_the_pod(kind: str, name: str, path: tuple[str, ...]) -> None:
    """Whatever selects pods selects this one."""
    selected: Manifest = one(kind, name)["spec"]
    for step in path:
        selected = selected[step]
    labels = one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert selected
    assert selected.items() <= labels.items()


def test_one_replica_that_can_be_replaced() -> None:
    """There is one pod, under the headless Service, and no budget keeps its node from being drained."""
    spec = one("StatefulSet")["spec"]
    assert spec["replicas"] == 1
    assert one("Service", spec["serviceName"])["spec"]["clusterIP"] == "None"
    assert one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_the_pod_has_time_to_stop() -> None:
    """Kubernetes waits longer than requests and lanes may take to end."""
    assert pod()["terminationGracePeriodSeconds"] > serve.DRAIN_SECONDS + delivery.DRAIN_SECONDS


def test_memory_and_volume_are_enough_for_the_limits() -> None:
    """Requests at their largest and a full cache fit into the memory limit, a full quarantine into the volume."""
    assert memory_needed() < quantity(container()["resources"]["limits"]["memory"])
    (claim,) = one("StatefulSet")["spec"]["volumeClaimTemplates"]
    assert configured().settings.proxy.quarantine.bytes < quantity(claim["spec"]["resources"]["requests"]["storage"])


def test_the_image_has_the_version_of_the_project() -> None:
    """The tag is the project's version, and no registry is chosen for anybody."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert container()["image"] == f"whosegpu-proxy:{version}"
    assert f"--tag whosegpu-proxy:{version} " in (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")


def test_no_key_is_written_twice() -> None:
    """No manifest says a key twice, of which YAML readers take the last."""
    for file in manifests.files():
        for node in yaml.compose_all(file.read_text(encoding="utf-8"), yaml.SafeLoader):
            assert not list(_doubled(node)), file


def _doubled(node: Any) -> Iterator[str]:
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        yield from {key for key in keys if keys.count(key) > 1}
        for _, value in node.value:
            yield from _doubled(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _doubled(value)
