"""docs/operator.md says nothing that the code contradicts, as far as a test can tell."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from config.load import parse
from config.problems import ConfigError
from config.settings import Settings
from config.tenants import TenantConfig
from proxy.core.books import Books
from proxy.lanes import delivery
from proxy.metrics import Gauges, ProxyMetrics, QueueTotals
from tests.deploy.dockerfile import ROOT
from tests.deploy.manifests import container, memory_needed, one, pod, quantity

TEXT = (ROOT / "docs/operator.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", TEXT, flags=re.DOTALL | re.MULTILINE))
SETTING = re.compile(r"(?:proxy|ownership|tenants\[\])(?:\.[a-z_]+)+")


class EmptyQuarantine:
    """A quarantine that never held anything."""

    def __init__(self) -> None:
        self.waiting: dict[str, int] = {}
        self.recovered: dict[str, int] = {}
        self.dropped: dict[str, int] = {}
        self.released = 0


class NoQueues:
    """No tenant has ever had a queue."""

    @staticmethod
    def all() -> dict[str, QueueTotals]:
        """None."""
        return {}


def metrics() -> set[str]:
    """The names of all series that the proxy can expose."""
    gauges = Gauges({}, 1, True, True, 0, {}, 0)  # noqa: FBT003 - as fields
    registry = ProxyMetrics(Books(), EmptyQuarantine(), NoQueues(), lambda: gauges).registry
    suffix = {"counter": "_total"}
    return {family.name + suffix.get(family.type, "") for family in registry.collect()}


def settings_table() -> Iterator[tuple[str, str]]:
    """Each setting in the table with its default as written; empty where the table has words for it."""
    for line in TEXT.splitlines():
        cells = line.split(" | ")
        settings = SETTING.findall(cells[0])
        defaults = re.findall(r"^`([^`]+)`|^(\d+)$|(?<=, )`([^`]+)`$", cells[1]) if len(cells) > 2 else []
        written = ["".join(found) for found in defaults]
        if line.startswith("| `") and settings:
            yield from zip(settings, written * len(settings) if len(written) < len(settings) else written, strict=False)


def _field(section: type[BaseModel], path: list[str]) -> Any:
    """The type of a setting; raises KeyError where there is none."""
    annotation = section.model_fields[path[0]].annotation
    return _field(annotation, path[1:]) if len(path) > 1 and isinstance(annotation, type) else annotation


@pytest.mark.parametrize("setting", sorted({name for name in QUOTED if SETTING.fullmatch(name)}))
def test_settings_exist(setting: str) -> None:
    """Each setting that the page names is one."""
    root, path = (TenantConfig, setting.removeprefix("tenants[].")) if "[]" in setting else (Settings, setting)
    _field(root, path.split("."))


@pytest.mark.parametrize(("setting", "written"), [row for row in settings_table() if "[]" not in row[0]])
def test_defaults_are_those_of_the_code(setting: str, written: str) -> None:
    """A default in the table, written into a configuration, changes nothing."""
    value: Any = [written] if setting == "ownership.trusted_jobs" else written
    nested: Any = value
    for step in reversed(setting.split(".")):
        nested = {step: nested}
    assert parse(str(nested), "page").settings == Settings()


def test_the_table_has_defaults_to_check() -> None:
    """The test above has something to look at."""
    assert len([row for row in settings_table() if "[]" not in row[0]]) >= 10


def test_metrics_exist() -> None:
    """Each metric that the page names is exposed under that name."""
    named = set(re.findall(r"whosegpu_[a-z_]+", TEXT))
    assert named
    assert named <= metrics()


def test_files_exist() -> None:
    """Each file of the repository that the page names is there."""
    named = {name for name in QUOTED if name.startswith(("deploy/", "config/", "docs/", "tests/"))}
    assert len(named) >= 5
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_numbers_are_those_of_the_code() -> None:
    """What the page says on times, memory, disk and users is what the code and the manifests have."""
    assert f"the sender is answered after {delivery.ANSWER_SECONDS:g} s at the latest" in TEXT
    limit = quantity(container()["resources"]["limits"]["memory"]) >> 30
    assert f"As shipped that is {memory_needed() / (1 << 30):g} GiB of {limit}." in TEXT
    (claim,) = one("StatefulSet")["spec"]["volumeClaimTemplates"]
    assert f"a volume of {quantity(claim['spec']['resources']['requests']['storage']) >> 30} GiB" in TEXT
    assert f"as user {pod()['securityContext']['runAsUser']} " in TEXT
    assert f"REGISTRY/{container()['image']} " in TEXT


@pytest.mark.parametrize(
    "text",
    [
        "ownership: {labelers: [http://127.0.0.1:9401]}",
        "ownership: {kubernetes: {service: whosegpu-labeler}}",
        "tenants: [{id: a, namespace_selector: {matchLabels: {a: b}}, endpoint: {embedded: true}}]",
        "tenants: [{id: a, endpoint: {url: 'http://127.0.0.1:1/w', remote_write: 2}}]",
        "proxy: {tls: {cert_file: /a, key_file: /b}}",
        "proxy: {senders: [{name: a, client_cert_subject: CN=a}]}",
        "proxy: {workers: 2}",
        "proxy: {listen: '0.0.0.0:9009'}",
    ],
)
def test_what_is_not_there_yet_is_refused(text: str) -> None:
    """What the page says this version does not have is a configuration error and never ignored."""
    with pytest.raises(ConfigError):
        parse(text, "page")


def test_log_events() -> None:
    """The page lists just the events that the proxy logs."""
    logged = {
        event
        for file in (ROOT / "proxy").rglob("*.py")
        for event in re.findall(
            r"_log\.(?:info|warning|error|exception)\(\s*\"([^\"]+)\"", file.read_text(encoding="utf-8")
        )
    }
    table = TEXT.partition("| event |")[2].partition("\n\n")[0]
    listed = {
        event
        for line in table.splitlines()
        if line.startswith("| `")
        for event in re.findall(r"`([^`]+)`", line.split(" | ")[0])
    }
    assert listed == logged
