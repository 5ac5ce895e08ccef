"""The proxy's own settings: who may send, how much, and what happens when a store does not answer."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from config.addresses import Address, FilePath, Listen, Text
from config.durations import Bytes, Milliseconds, PositiveMilliseconds, cut
from config.model import Section
from config.tls import OptionalBasicAuth, ServerTls

_MIB = 1 << 20
_GIB = 1 << 30
_HOUR_MS = 3_600_000

SNAPPY_LARGEST_BYTES = 2**32 - 1
"""A snappy block declares its length in 32 bits (google/snappy, format_description.txt)."""

PositiveInt = Annotated[int, Field(gt=0)]
MessageBytes = Annotated[Bytes, Field(le=SNAPPY_LARGEST_BYTES)]


def _unowned_fate(text: str) -> str:
    if text not in {"quarantine", "drop", "reject"} and not text.startswith("tenant:"):
        message = f"must be quarantine, drop, reject or tenant:<id>, not {cut(text)}"
        raise ValueError(message)
    return text


UnownedFate = Annotated[str, AfterValidator(_unowned_fate)]


class LimitsConfig(Section):
    """What a sender may send at most. Each is checked before anything is allocated by it."""

    compressed_bytes: MessageBytes = 32 * _MIB
    """Bytes of a request's body. Default 32MiB, as Prometheus' receiver. A longer body is answered 400."""

    decoded_bytes: MessageBytes = 32 * _MIB
    """Bytes that a body declares to have after decompression. Default 32MiB, as Prometheus' receiver; memory in use
    grows with this times the requests in flight."""

    labels_per_series: PositiveInt = 30
    """Labels of a series as it would be sent. Default 30, as Mimir; more are dropped here, because there the whole
    request fails."""

    label_value_bytes: PositiveInt = 2048
    """Bytes of a label value as received. Default 2048, as Mimir; such a series is rejected."""

    label_name_bytes: PositiveInt = 1024
    """Bytes of a label name as received. Default 1024, as Mimir; such a series is rejected."""

    inflight_requests: PositiveInt = 256
    """Requests worked on at once; one more is answered 503 and sent again by its sender. Bounds the memory in use."""

    read_timeout: PositiveMilliseconds = 30_000
    """Time that a body may take to arrive. Default 30s; a slower one is answered 408, which frees its place."""


class SenderConfig(Section):
    """One sender and how it is known: a bearer token, basic authentication, or a client certificate; exactly one."""

    name: Text
    """Stands in metrics and quarantine records, so a change of it begins new series."""

    bearer_token_file: FilePath | None = None
    """A file with the token; read at start and at each reload."""

    basic_auth: OptionalBasicAuth = None
    """User name and password."""

    client_cert_subject: Text | None = None
    """Subject of a client certificate, as `CN=prom-c`."""

    trust_namespace_label: bool = False
    """Believe the `namespace` label of its series that are no device series. With it this sender can write into every
    tenant that has namespaces; without it such series reach only views `joined` and `raw`."""

    admin: bool = False
    """May also reload, read the configuration and ask who owns what. Default: loopback peers only."""

    trusted_jobs: tuple[str, ...] | None = None
    """Scrape jobs of this sender whose series are a labeler's. Default: `ownership.trusted_jobs`."""


class QuarantineConfig(Section):
    """How much waits for its owner to become known; the oldest beyond either bound is dropped, and counted."""

    bytes: Bytes = _GIB
    """Bytes on disk. Default 1GiB."""

    age: PositiveMilliseconds = 24 * _HOUR_MS
    """Age since reception. Default 24h; older samples are refused by most stores anyway."""


class DeliveryConfig(Section):
    """What happens to parts that a tenant's store has not accepted yet. Each tenant has a queue of its own on disk."""

    park_after: Milliseconds = 1_000
    """Wait this long for a store before its part is queued on disk and acknowledged, while the attempt goes on. Default
    1s; longer lets one slow store hold its senders, shorter writes more to disk."""

    timeout: PositiveMilliseconds = 10_000
    """An attempt without an answer by then has failed and is made again. Default 10s."""

    queue_bytes: Bytes = _GIB
    """Bytes on disk that wait for one tenant. Default 1GiB; all tenants together can need this times their number."""

    queue_age: PositiveMilliseconds = 24 * _HOUR_MS
    """Parts that waited longer are dropped and counted. Default 24h."""

    queue_full: Literal["drop_oldest", "refuse"] = "drop_oldest"
    """A full queue drops its oldest parts, or has senders wait with 503. `refuse` loses nothing, but stops senders for
    all tenants."""


class ProxyConfig(Section):
    """The proxy."""

    listen: Listen = Address("127.0.0.1", 9009)
    """Address for senders, metrics and probes. Default 127.0.0.1:9009; beyond loopback `senders` must be listed. Needs
    a restart."""

    data_dir: FilePath = Path("data")
    """Folder of queues, quarantine and embedded storage. Default ./data; must survive a restart, and is never shared.
    Needs a restart."""

    workers: PositiveInt = 1
    """Processes that share the port. Only 1, until order and books are kept over processes. Needs a restart."""

    limits: LimitsConfig = LimitsConfig()
    """What a sender may send at most."""

    senders: tuple[SenderConfig, ...] = ()
    """Who may send. Default: nobody is asked, which is allowed on a loopback address only."""

    tls: ServerTls = ServerTls()
    """TLS towards senders."""

    unowned: UnownedFate = "quarantine"
    """What becomes of device series whose owner is unknown, or whose owner's namespace is nobody's: `quarantine` keeps
    them for a replay, `drop` loses them, `reject` answers 400, `tenant:<id>` gives them to that tenant. Default:
    quarantine."""

    quarantine: QuarantineConfig = QuarantineConfig()
    """Bounds of the quarantine."""

    idle_tenant: str | None = None
    """A declared tenant that gets idle devices and what no pod owns, as a platform team. Default: none, these are not
    sent."""

    delivery: DeliveryConfig = DeliveryConfig()
    """Queues and time limits."""

    @property
    def unowned_tenant(self) -> str | None:
        """The id in `unowned: tenant:<id>`; None for the other three."""
        _, colon, tenant_id = self.unowned.partition(":")
        return tenant_id if colon else None
