"""A labeler in small: it watches devices, tells no lies, and writes the documents that a real one would write."""

from dataclasses import dataclass, field, replace

from ownership.device import DeviceKey
from ownership.document import Device, Interval, NodeDocument, Owner, Sharing


@dataclass
class Labeler:
    """Observes `owners` by device at every tick; None is an idle device, an absent one is not there."""

    now_ms: int = 0
    begun_ms: int = 0
    revision: int = 1
    histories: dict[DeviceKey, list[Interval]] = field(default_factory=dict)
    changed: dict[tuple[DeviceKey, int], int] = field(default_factory=dict)
    """The revision at which an interval, by device and start, changed last."""
    gone: set[DeviceKey] = field(default_factory=set)

    def observe(self, now_ms: int, owners: dict[DeviceKey, str | None]) -> None:
        """One poll."""
        self.now_ms = now_ms
        for key in [*self.histories.keys(), *(key for key in owners if key not in self.histories)]:
            if key in self.gone:
                continue
            history = self.histories.setdefault(key, [])
            open_one = history[-1] if history and history[-1].to_ms is None else None
            pods = _owners(owners.get(key))
            if open_one and (key not in owners or open_one.owners != pods):
                history[-1] = replace(open_one, to_ms=now_ms)
                self._mark(key, open_one.from_ms)
                open_one = None
            if open_one is None and key in owners:
                history.append(Interval(now_ms, None, pods))
                self._mark(key, now_ms)

    def learn(self, key: DeviceKey, position: int, pod_uid: str) -> None:
        """Completes an interval with a name that was not known."""
        history = self.histories[key]
        history[position] = replace(history[position], owners=_owners(pod_uid))
        self._mark(key, history[position].from_ms)

    def forget(self, key: DeviceKey) -> None:
        """Lists a device no more; one that came back would be listed with its history."""
        self.gone.add(key)
        del self.histories[key]
        self.revision += 1

    def restart(self, now_ms: int) -> None:
        """Begins anew, without history."""
        self.now_ms = self.begun_ms = now_ms
        self.revision += 1_000_000
        self.histories.clear()
        self.changed.clear()

    def whole(self) -> NodeDocument:
        """Everything."""
        devices = tuple(_device(key, tuple(history)) for key, history in self.histories.items())
        return NodeDocument(1, self.revision, "node-a", self.begun_ms, self.now_ms, devices)

    def partial(self, since: int) -> NodeDocument:
        """What changed after a revision."""
        news = {
            key: tuple(interval for interval in history if self.changed[key, interval.from_ms] > since)
            for key, history in self.histories.items()
        }
        devices = tuple(_device(key, intervals) for key, intervals in news.items() if intervals)
        return NodeDocument(1, self.revision, "node-a", self.begun_ms, self.now_ms, devices, since)

    def _mark(self, key: DeviceKey, start_ms: int) -> None:
        self.revision += 1
        self.changed[key, start_ms] = self.revision


def _owners(pod_uid: str | None) -> tuple[Owner, ...]:
    return () if pod_uid is None else (Owner(pod_uid=pod_uid),)


def _device(key: DeviceKey, intervals: tuple[Interval, ...]) -> Device:
    return Device(
        uuid=key.uuid,
        index=0,
        model="H100",
        memory_total_bytes=80,
        gpu_instance_id=key.gpu_instance_id or None,
        sharing=Sharing.EXCLUSIVE,
        intervals=intervals,
    )
