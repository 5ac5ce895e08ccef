"""From what an intake holds back to records in quarantine, durable before their sender is answered."""

import asyncio
from collections.abc import Sequence

from proxy.clock import now_ms
from proxy.core.errors import StorageError
from proxy.core.gathering import Held
from proxy.core.record import QuarantineRecord
from proxy.core.senders import Sender
from proxy.disk.quarantine import Quarantine
from proxy.lanes.delivery import ANSWER_SECONDS


async def hold_back(quarantine: Quarantine, held: Sequence[Held], sender: Sender) -> None:
    """Return when all is on the disk; raises StorageError, after ANSWER_SECONDS at the latest.

    What comes to a disk that hangs after its sender was told to send again is in quarantine all the same.
    """
    trust = "namespace_label" if sender.trust.namespace_label else ""
    received_ms = now_ms()
    records = [
        QuarantineRecord(received_ms, sender.name, trust, each.reason, each.time_ms, each.samples, each.entry)
        for each in held
    ]
    samples = sum(record.samples for record in records)

    def ended(appending: asyncio.Task[None]) -> None:
        if not appending.cancelled() and appending.exception() is not None:
            quarantine.dropped["handed_back"] += samples

    appending = asyncio.create_task(quarantine.append(records))
    appending.add_done_callback(ended)
    await asyncio.wait({appending}, timeout=ANSWER_SECONDS)
    if not appending.done():
        raise StorageError("the disk does not answer")
    appending.result()
