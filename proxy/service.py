"""One running proxy: what it owns, in which order it starts and stops, and how it takes another configuration.

Everything runs in one event loop. The intake decides, lanes deliver, the quarantine writes; nothing else changes state.

- Start: the data folder's lock, the quarantine and the queues (which read what they hold), then the ownership files (so
  that the first sample finds its owner), then the lanes of what is queued, then the port, which is the server's.
- Stop: not ready; the server lets requests finish; then no orders are taken, then lanes are closed (what they have in
  hand is parked), then the queues, then the quarantine.
- Reload: everything is read, parsed, compiled and checked before anything is changed; then all of it changes at once,
  between two requests.
"""

import asyncio
import time
from pathlib import Path
from typing import Any, Final, Self

import structlog

from config.problems import ConfigError
from config.redacted import redacted
from config.settings import Settings
from ownership import Changes, Fleet
from proxy.attempts import CarriedOut
from proxy.clock import now_ms
from proxy.configured import Configured, configure
from proxy.control import Control
from proxy.core import wire
from proxy.core.books import DUPLICATE
from proxy.core.errors import RequestError, StorageError
from proxy.core.explain import explain_lines
from proxy.core.gathering import Moment, Taken
from proxy.core.had import Incomplete
from proxy.core.intake import Intake
from proxy.core.metadata import Metadata
from proxy.core.owners import OwnersQuery, OwnerView, owners_at
from proxy.core.senders import Sender, Senders
from proxy.core.series_cache import CacheBudget
from proxy.core.sorter import Limits
from proxy.core.times import parse_time
from proxy.disk.kept import Kept
from proxy.gate import Gate
from proxy.holding import hold_back
from proxy.ingest import RequestLimits
from proxy.lanes.delivery import Delivery, outcomes
from proxy.metrics import Gauges, ProxyMetrics
from proxy.ownership_files import OwnershipFiles
from proxy.replay import Replayer
from proxy.storeroom import Storeroom

VERSION_1: Final = "1.0"
"""The value of the label `version` for remote write 1.0."""

STOPPING: Final = "stopping"
"""Why a proxy is not ready that was told to end."""

TRIM_SECONDS: Final = 60.0
"""How often old records leave the quarantine and the queues when nothing new comes in."""

_log: Final = structlog.get_logger()


class Proxy:
    """Made by `start`. Is what the write endpoint works for, and what the other routes ask."""

    def __init__(self, path: Path, configured: Configured, kept: Kept) -> None:
        settings = configured.settings
        self.books = kept.books
        self.not_ready = "starting"
        self._path = path
        self._configured = configured
        self._kept = kept
        self._quarantine = kept.quarantine
        self._generation = 1
        self._reloaded = True
        self._reloading = asyncio.Lock()
        self._gate = Gate()
        self._metrics = ProxyMetrics(self.books, kept.quarantine, kept.queues, self._gauges)
        self.registry = self._metrics.registry
        self._fleet = Fleet(settings.ownership.max_age, settings.ownership.history)
        self._limits = _request_limits(settings)
        self._intake = Intake(configured.tenancy, self._fleet, self.books, _label_limits(settings), CacheBudget())
        self._metadata = Metadata(self._intake.families, self.books)
        self._delivery = Delivery(configured, kept, self._metrics.observe_upstream)
        self._replayer = Replayer(
            kept.quarantine, lambda: (self._intake.tenancy, self._fleet), self._delivery.deliver, self.books
        )
        storeroom = Storeroom(kept, self._replayer, lambda: self._intake.tenancy, self._delivery)
        self._control = Control(Path(settings.proxy.data_dir), storeroom.carry_out)
        self._files = OwnershipFiles(map(Path, settings.ownership.files), self._fleet, self._ownership_changed)
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(cls, path: Path) -> Self:
        """A proxy by the configuration in a file. Raises ConfigError, and StorageError for a data folder of no use."""
        configured = configure(path)
        kept = await Kept.open(configured.settings)
        proxy = cls(path, configured, kept)
        await proxy._files.read_changed()
        proxy._delivery.start()
        proxy._tasks = [
            asyncio.create_task(each) for each in (proxy._files.watch(), proxy._trim(), proxy._replayer.run())
        ]
        await proxy._control.open()
        proxy.not_ready = ""
        if not wire.COMPILED:
            _log.warning("wire module not compiled", mend="same answers, slower; install a C compiler, then reinstall")
        return proxy

    async def stop(self) -> None:
        """End everything, after the last request was answered."""
        self.not_ready = STOPPING
        await self._control.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._delivery.close()
        await self._kept.close()

    def stopping(self) -> None:
        """Say that no new traffic is wanted; what is in flight goes on."""
        self.not_ready = STOPPING

    def hurry(self) -> None:
        """When stopping, wait for nobody: what was not acknowledged is sent again, what was is on the disk."""
        self._delivery.hurry()

    @property
    def settings(self) -> Settings:
        """The configuration in force."""
        return self._configured.settings

    # -- what the write endpoint works for ----------------------------------------------------------------------------

    @property
    def senders(self) -> Senders:
        """Who may send."""
        return self._configured.senders

    @property
    def limits(self) -> RequestLimits:
        """What a request may take."""
        return self._limits

    async def take(self, body: bytes, sender: Sender, had: Incomplete | None = None) -> Taken:
        """Decide on a decoded request and enter it into the books; raises RequestError."""
        taken = Taken()
        await self._gate.enter()
        try:
            moment = Moment(now_ms(), int(time.monotonic()))
            slices = self._intake.take_slices(body, sender.trust, moment, had)
            for number, some in enumerate(slices):
                if number > 1:  # the first is no work
                    await asyncio.sleep(0)
                taken.add(some)
        finally:
            self._gate.leave()
        self.books.received[sender.name, VERSION_1] += taken.received
        self.books.fields_dropped += taken.fields_dropped
        if taken.exemplars_dropped:
            self.books.exemplars["dropped"] += taken.exemplars_dropped
        return taken

    async def carry_out(self, taken: Taken, sender: Sender, attempt: int) -> CarriedOut:
        """Deliver and hold back, side by side."""
        batch = self._delivery.send(taken.parts, attempt)
        failed: StorageError | None = None
        try:
            await self._hand_out(taken.metadata)
            if taken.held:
                await hold_back(self._quarantine, taken.held, sender)
        except StorageError as error:
            failed = error
        finally:
            ended = await outcomes(batch)
        return CarriedOut(batch, ended, failed)

    def came_again(self, received: int, sender: Sender) -> None:
        """Count the samples of a request that is sent again though all of it has been done."""
        self.books.received[sender.name, VERSION_1] += received
        self.books.fate(DUPLICATE).samples += received

    def refused(self, error: RequestError) -> None:
        """Count a request that was refused as a whole."""
        self.books.requests_rejected[error.reason] += 1

    def answered(self, status: int, seconds: float) -> None:
        """Count an answer."""
        self._metrics.observe_request(status, seconds)

    async def _hand_out(self, metadata: list[bytes]) -> None:
        """Send the metadata of a request behind its series, best effort: no sender waits for it."""
        for number, parts in enumerate(self._metadata.take(metadata, _steady_ms())):
            if number > 1:  # the first is what others left
                await asyncio.sleep(0)
            self._delivery.send(parts, 0)
        metadata.clear()

    # -- what the other routes ask ------------------------------------------------------------------------------------

    def owners(self, query: OwnersQuery) -> list[OwnerView]:
        """Who owns what, at the time of the query; raises TextFormatError."""
        at_ms = now_ms() if query.at is None or not query.at.strip() else parse_time(query.at)
        return owners_at(query, at_ms, self._intake.tenancy, self._fleet)

    def explain(self, text: str, at: str | None) -> list[dict[str, Any]]:
        """Why series go where they go, for a sender that is trusted by default; raises TextFormatError, LabelError."""
        at_ms = now_ms() if at is None else parse_time(at)
        trust = self.senders.anonymous.trust
        return [found.to_json() for found in explain_lines(text, at_ms, trust, self._intake.tenancy, self._fleet)]

    def settings_shown(self) -> dict[str, Any]:
        """The configuration in force, secrets hidden."""
        return redacted(self.settings)

    async def reload(self) -> int:
        """Take the configuration file anew, all or nothing; the generation now in force. Raises ConfigError."""
        async with self._reloading:
            try:
                configured = await asyncio.to_thread(configure, self._path, self._configured)
            except ConfigError as error:
                self._reloaded = False
                _log.error("reload refused", problems=[str(problem) for problem in error.problems])
                raise
            async with self._gate.alone():
                self._change_to(configured)
            await self._files.read_changed()
            _log.info("reloaded", generation=self._generation, tenants=len(configured.settings.tenants))
            return self._generation

    def _change_to(self, configured: Configured) -> None:
        settings = configured.settings
        self._configured = configured
        self._limits = _request_limits(settings)
        self._generation += 1
        self._reloaded = True
        self._intake.retenant(configured.tenancy, _label_limits(settings))
        self._delivery.reconfigure(configured)
        self._fleet.keep(settings.ownership.max_age, settings.ownership.history)
        self._kept.keep(settings)
        self._replayer.reconfigured()
        self._files.follow(map(Path, settings.ownership.files))

    # -- the rest -----------------------------------------------------------------------------------------------------

    async def _trim(self) -> None:
        """Drop what has become too old on the disk and of the metadata, until cancelled."""
        while True:
            await asyncio.sleep(TRIM_SECONDS)
            self._metadata.expire(_steady_ms())
            self._delivery.expire()
            try:
                await self._kept.trim()
            except StorageError as error:
                _log.error("quarantine not trimmed", error=str(error))

    def _ownership_changed(self, changes: Changes) -> None:
        self._intake.ownership_changed(changes.node, changes.keys, changes.all_keys, changes.open_until_ms)
        self._replayer.ownership_changed(changes)

    def _gauges(self) -> Gauges:
        now = now_ms()
        return Gauges(
            ownership_age_seconds={state.node: (now - state.observed_until_ms) / 1000 for state in self._fleet.nodes()},
            config_generation=self._generation,
            config_last_reload_successful=self._reloaded,
            wire_compiled=wire.COMPILED,
            cached_series=self._intake.cached_series,
            circuits=self._delivery.waiting(),
            now_ms=now,
        )


def _steady_ms() -> int:
    return int(time.monotonic() * 1000)


def _request_limits(settings: Settings) -> RequestLimits:
    limits = settings.proxy.limits
    return RequestLimits(
        limits.compressed_bytes, limits.decoded_bytes, limits.inflight_requests, limits.read_timeout / 1000
    )


def _label_limits(settings: Settings) -> Limits:
    limits = settings.proxy.limits
    return Limits(limits.label_name_bytes, limits.label_value_bytes)
