"""The signer's settings: what it reads, how it counts, and where it publishes."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from config.addresses import Address, FilePath, Listen, Text, check_url
from config.durations import Milliseconds, PositiveMilliseconds, cut
from config.model import Section

_HOUR_MS = 3_600_000

_CURRENCY_CODE = re.compile(r"[A-Z]{3}")


def _source(text: str) -> str:
    return text if text == "embedded" else check_url(text)


def _currency(text: str) -> str:
    if not _CURRENCY_CODE.fullmatch(text):
        message = f"{cut(text)} is no currency code of ISO 4217; write it like EUR"
        raise ValueError(message)
    return text


Source = Annotated[str, AfterValidator(_source)]
Currency = Annotated[str, AfterValidator(_currency)]
Price = Annotated[Decimal, Field(ge=0, max_digits=18, decimal_places=9)]


class ClusterConfig(Section):
    """Which cluster the statements are about."""

    name: Text | None = None
    """A name for people."""

    uid: Text | None = None
    """The cluster's identity: the kube-system namespace's uid. Statements of two clusters differ by it."""


class BillingAccountConfig(Section):
    """The account that FOCUS exports name."""

    id: Text | None = None
    """Its id."""

    name: Text | None = None
    """Its name for people."""


class FocusConfig(Section):
    """What a FOCUS export says beside the hours."""

    currency: Currency
    """ISO 4217 code of the prices."""

    billing_account: BillingAccountConfig = BillingAccountConfig()
    """Who is billed."""

    issuer: Text | None = None
    """Who issues the invoice."""

    provider: Text | None = None
    """Who provides the GPUs."""

    prices: dict[str, Price] = Field(default_factory=dict)
    """Price of a GPU-hour for each model as NVML names it. A model without a price is exported with its hours and no
    cost."""


class SignerConfig(Section):
    """The signer."""

    listen: Listen = Address("127.0.0.1", 9410)
    """Address for downloads, metrics and probes. Default 127.0.0.1:9410. Needs a restart."""

    data_dir: FilePath = Path("data/signer")
    """Folder of the log. Default ./data/signer; it cannot be made again, so back it up. Needs a restart."""

    cluster: ClusterConfig = ClusterConfig()
    """Which cluster the statements are about."""

    source: Source = "embedded"
    """`embedded`, or the base URL of a PromQL API; the tenant's id goes in X-Scope-OrgID."""

    key: Text = "./data/signer/key.pem"
    """A PEM file, made at the first start, or `pkcs11:...`. Losing it needs a rotation without the old key's
    signature."""

    method: Literal["meter", "gauge"] = "meter"
    """How hours are counted: by the labeler's meters, or by holding gauges forward. Default: meter."""

    settle: Milliseconds = 15 * 60_000
    """Wait after an hour's end for late samples. Default 15m; what arrives later needs a revision."""

    scrape_interval: PositiveMilliseconds = 15_000
    """Interval at which the labeler is scraped. Default 15s; a longer gap counts as unmeasured."""

    backfill: Milliseconds = 24 * _HOUR_MS
    """On the first start and after downtime, hours that began within it are signed too. Default 24h."""

    focus: FocusConfig | None = None
    """What a FOCUS export says beside the hours. Default: no export."""

    kubernetes: Text = "in-cluster"
    """`in-cluster`, or the path of a kubeconfig; for `publish` and `auth`."""

    publish: Literal["none", "kubernetes"] = "none"
    """Where statements are put: nowhere, or a ConfigMap in each tenant's namespace. Default: none."""

    auth: Literal["none", "token-review"] = "none"
    """Who may download: all who reach the address (loopback only), or holders of a Kubernetes token. Default: none."""
