"""The Prometheus configuration that goes with the manifests."""

from pathlib import PurePosixPath
from urllib.parse import urlsplit

import pytest

from config.settings import Settings
from proxy.app import WRITE_PATHS
from proxy.core.negotiate import MEDIA_TYPE, check_request
from proxy.ingest import RETRY_AFTER_SECONDS
from proxy.lanes.delivery import ANSWER_SECONDS
from tests.deploy.manifests import configured, one
from tests.deploy.snippet import FILE, remote_write, snippet
from tests.peers.prometheus import check_config

SERIES_BYTES = 1024
"""More than twice what a series of DCGM takes with all of its labels."""


def seconds(text: str) -> int:
    """The seconds of a duration such as 30s."""
    return int(text.removesuffix("s"))


@pytest.mark.peer("promtool")
def test_promtool_takes_the_file() -> None:
    """The file is a configuration that the real Prometheus loads."""
    check_config(FILE)


def test_it_sends_to_the_service() -> None:
    """The URL is the Service's name and port, and a path on which the proxy takes remote write."""
    service = one("Service")
    url = urlsplit(remote_write()["url"])
    assert url.netloc == f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc:9009"
    assert [port["port"] for port in service["spec"]["ports"]] == [url.port]
    assert url.path in WRITE_PATHS


def test_it_sends_what_this_version_takes() -> None:
    """The message is one that the proxy takes."""
    check_request("POST", f"{MEDIA_TYPE};proto={remote_write()['protobuf_message']}", "snappy")


def test_it_bears_the_token_of_the_secret() -> None:
    """The credentials are a bearer token in a file that is called like the Secret's key for the proxy."""
    authorization = remote_write()["authorization"]
    assert authorization["type"] == "Bearer"
    assert PurePosixPath(authorization["credentials_file"]).name in one("Secret")["stringData"]


def test_it_waits_for_the_answer() -> None:
    """Prometheus waits longer than the proxy takes to answer, and backs off as long as the proxy asks it to."""
    assert seconds(remote_write()["remote_timeout"]) > ANSWER_SECONDS
    assert seconds(remote_write()["queue_config"]["max_backoff"]) == RETRY_AFTER_SECONDS


def test_its_requests_are_within_the_limits() -> None:
    """The largest request of series of DCGM is within the limits, and all shards are within the requests in flight."""
    queue, limits = remote_write()["queue_config"], configured().settings.proxy.limits
    assert queue["max_samples_per_send"] * SERIES_BYTES < limits.decoded_bytes
    assert queue["max_shards"] < limits.inflight_requests


def test_no_job_passes_for_a_labeler() -> None:
    """No job has the labeler's name, and none lets its targets choose theirs."""
    jobs = snippet()["scrape_configs"]
    reserved = set(Settings().ownership.trusted_jobs)
    assert not reserved & {job["job_name"] for job in jobs}
    assert not [job["job_name"] for job in jobs if job.get("honor_labels")]
    text = FILE.read_text(encoding="utf-8")
    assert all(name in text for name in reserved)


def test_the_proxy_is_watched() -> None:
    """One job scrapes the proxy's own metrics at its Service."""
    (job,) = (each for each in snippet()["scrape_configs"] if each["job_name"] == "whosegpu-proxy")
    assert job["static_configs"] == [{"targets": [urlsplit(remote_write()["url"]).netloc]}]
    assert job.get("metrics_path", "/metrics") == "/metrics"


def test_prometheus_may_come_in() -> None:
    """The policy lets one namespace in, by the label that Kubernetes itself puts on namespaces."""
    (rule,) = one("NetworkPolicy")["spec"]["ingress"]
    (peer,) = rule["from"]
    assert list(peer["namespaceSelector"]["matchLabels"]) == ["kubernetes.io/metadata.name"]
    assert one("NetworkPolicy")["spec"]["policyTypes"] == ["Ingress"]
