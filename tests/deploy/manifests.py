"""The manifests of deploy/proxy, as the tests look at them."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from config.load import Loaded, parse
from proxy.core.series_cache import CACHE_BYTES

FOLDER = Path(__file__).parents[2] / "deploy/proxy"

Manifest = dict[str, Any]

_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def documents(path: Path) -> list[Manifest]:
    """All manifests of a file."""
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]


def files() -> list[Path]:
    """Every file of manifests, in the order in which kustomization.yaml applies them, then the examples."""
    listed = documents(FOLDER / "kustomization.yaml")[0]["resources"]
    return [*(FOLDER / name for name in listed), *sorted((FOLDER / "examples").glob("*.yaml"))]


@cache
def everything() -> tuple[Manifest, ...]:
    """Every manifest."""
    return tuple(document for file in files() for document in documents(file))


def one(kind: str, name: str = "whosegpu-proxy") -> Manifest:
    """The manifest of a kind and name."""
    (found,) = (each for each in everything() if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def pod() -> Manifest:
    """The pod's spec in the StatefulSet."""
    spec: Manifest = one("StatefulSet")["spec"]["template"]["spec"]
    return spec


def container() -> Manifest:
    """The one container."""
    (only,) = pod()["containers"]
    found: Manifest = only
    return found


def configured() -> Loaded:
    """The configuration in the ConfigMap; raises ConfigError."""
    return parse(one("ConfigMap")["data"]["whosegpu.yaml"], "configmap.yaml")


def mounted_at(folder: Path) -> str:
    """The text of the configuration in the ConfigMap, with the files that it names below another folder."""
    mount = str(PurePosixPath(next(mounted_files())).parent)
    text: str = one("ConfigMap")["data"]["whosegpu.yaml"]
    return text.replace(f"{mount}/", f"{folder}/")


def mounted_files() -> Iterator[str]:
    """The paths in the container of all keys of the projected ConfigMaps and Secrets."""
    (mount,) = (each for each in container()["volumeMounts"] if each["name"] == "config")
    (volume,) = (each for each in pod()["volumes"] if each["name"] == "config")
    for source in volume["projected"]["sources"]:
        ((kind, reference),) = source.items()
        manifest = one({"configMap": "ConfigMap", "secret": "Secret"}[kind], reference["name"])
        for key in {**manifest.get("data", {}), **manifest.get("stringData", {})}:
            yield f"{mount['mountPath']}/{key}"


def quantity(text: str) -> int:
    """The bytes of a Kubernetes quantity."""
    return int(text[:-2]) * _UNITS[text[-2:]]


def memory_needed() -> int:
    """Bytes of as many requests as may be in flight, each at its largest, and of a full cache."""
    limits = configured().settings.proxy.limits
    return limits.inflight_requests * (limits.compressed_bytes + limits.decoded_bytes) + CACHE_BYTES
