"""A data folder with something in it, and the configuration that names it."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.load import load
from proto.prompb.remote_pb2 import WriteRequest
from proxy.clock import now_ms
from proxy.core.errors import StorageError
from proxy.core.record import QuarantineRecord, QueueRecord
from proxy.disk.kept import Kept
from tests.e2e.fleet import device, interval, owner
from tests.peers.push import Entry

CARD = "GPU-5b1e0c44-7a0d-4f6b-9a52-0d6f2f7c1a10"
OWNED_MS = 1_767_225_000_000
"""From then on the card is owned, for five minutes, by a pod of the namespace `ml`."""

HOUR_MS = 3_600_000

CONFIG: Mapping[str, Any] = {
    "tenants": [{"id": "ml", "namespaces": ["ml"], "endpoint": {"url": "http://127.0.0.1:1/push"}}],
}


@dataclass(frozen=True)
class Folder:
    """A folder with a configuration, a data folder, and an ownership document."""

    path: Path

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.path / "whosegpu.yaml"

    @property
    def data_dir(self) -> Path:
        """The data folder."""
        return self.path / "data"

    def configure(self, **sections: Any) -> None:
        """Write the configuration, with these sections over what every test needs."""
        files = {"ownership": {"files": [str(self.path / "node.json")]}}
        proxy = {"proxy": {"listen": "127.0.0.1:0", "data_dir": str(self.data_dir), **sections.pop("proxy", {})}}
        self.config.write_text(json.dumps({**CONFIG, **files, **proxy, **sections}), encoding="utf-8")

    def own(self, namespace: str = "ml", from_ms: int = OWNED_MS) -> None:
        """Write who owns the card."""
        held = interval(from_ms, OWNED_MS + 300_000, owner(namespace, "trainer-0", "Job", "trainer"))
        document = {"version": 1, "revision": 1, "node": "gpu-node-a", "devices": [device(CARD, held)]}
        observed = {"observed_from": from_ms, "observed_until": OWNED_MS + 600_000}
        (self.path / "node.json").write_text(json.dumps({**document, **observed}), encoding="utf-8")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Kept]:
        """What is kept, open."""
        kept = await Kept.open(load(self.config).settings)
        try:
            yield kept
        finally:
            await kept.close()

    async def put(self, queues: Mapping[str, Sequence[QueueRecord]], held: Sequence[QuarantineRecord] = ()) -> None:
        """Put records into the queues and into the quarantine."""
        async with self.open() as kept:
            for tenant, records in queues.items():
                done: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
                kept.queues.queue(tenant).append(records, done.set_result)
                assert await done is None
            await kept.quarantine.append(held)

    def fill(self, queues: Mapping[str, Sequence[QueueRecord]], held: Sequence[QuarantineRecord] = ()) -> None:
        """As `put`, for tests without a loop."""
        asyncio.run(self.put(queues, held))

    def queued(self, tenant: str) -> list[QueueRecord]:
        """The records of a queue."""

        async def read() -> list[QueueRecord]:
            async with self.open() as kept:
                return await kept.queues.queue(tenant).inspect(1000)

        return asyncio.run(read())

    def waiting(self) -> dict[str, int]:
        """Samples in quarantine, by reason."""

        async def read() -> dict[str, int]:
            async with self.open() as kept:
                return dict(+kept.quarantine.waiting)

        return asyncio.run(read())


def entries(some: Iterable[Entry]) -> bytes:
    """Framed entries."""
    request = WriteRequest()
    for labels, samples in some:
        series = request.timeseries.add()
        for name, value in sorted(labels.items()):
            series.labels.add(name=name.encode(), value=value.encode())
        for at_ms, number in samples:
            series.samples.add(timestamp=at_ms, value=number)
    return request.SerializeToString()


def queued(name: str, *, age_ms: int = 0, series: int = 1, **more: Any) -> QueueRecord:
    """A record of so many series with a sample each, received so long ago."""
    body = entries(({"__name__": name, "number": str(number)}, [(OWNED_MS, 1.0)]) for number in range(series))
    given: dict[str, Any] = {"pair": ("", ""), "samples": series, "made": 0, "exemplars": 0, **more}
    return QueueRecord(now_ms() - age_ms, entries=body, **given)


def held(name: str, at_ms: int, reason: str = "unknown_owner", *, age_ms: int = 0, **labels: str) -> QuarantineRecord:
    """A record of one sample of the card."""
    entry = entries([({"__name__": name, "UUID": CARD, **labels}, [(at_ms, 1.0)])])
    return QuarantineRecord(now_ms() - age_ms, "prom-a", "", reason, at_ms, 1, entry)
