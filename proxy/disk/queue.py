"""The durable queue of one tenant, as its lane and a person see it.

The counts belong to the event loop, the files to the writer threads that all queues share. Each thing to do is a job; a
queue has one job in hand at a time, the others wait in the order in which they were asked for. What is to be appended
while a job runs goes into the next together, with one sync for all. A queue without a job has no thread, task or timer,
and an empty one has no file open.

A failure of the disk fails the job that met it, and the next one simply tries again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec

import structlog

from proxy.core.books import BY_HAND
from proxy.core.errors import StorageError
from proxy.core.record import QueueRecord
from proxy.disk.appending import Call
from proxy.disk.contents import Effect
from proxy.disk.spool import Spool
from proxy.disk.terms import Terms

_log: Final = structlog.get_logger()

P = ParamSpec("P")

_CLOSED: Final = "the queue is closed"

OnDrop = Callable[[str, str, int], None]
"""Told what is lost after it was acknowledged: tenant, reason, samples."""


@dataclass(slots=True)
class _Report:
    """How a job ended, and what the files hold since."""

    effect: Effect
    error: StorageError | None = None
    bytes: int = 0
    oldest_ms: int | None = None
    torn_bytes: int = 0


@dataclass(slots=True)
class _Job:
    """`run` is called in a writer thread, then `ended` in the event loop. `calls` are what it appends, if it does."""

    run: Callable[[Spool, Effect], None]
    ended: Callable[[_Report], None]
    calls: list[Call] = field(default_factory=list)
    makes: bool = False  # the folder, where there is none


class TenantQueue:
    """The queue of one tenant; used by one event loop.

    `samples` and `records` are durable and not done, what is taken among them; `bytes` are on the disk, `torn_bytes`
    were found to be damaged. `on_drop` is told what is dropped, and why: `queue_full`, `queue_age`, `dropped_by_hand`,
    or `torn`, which was there once and is damaged.
    """

    def __init__(self, tenant: str, folder: Path, terms: Terms, pool: Executor, on_drop: OnDrop) -> None:
        self.tenant = tenant
        self.samples = 0
        self.records = 0
        self.bytes = 0
        self.torn_bytes = 0
        self._folder = folder
        self._terms = terms
        self._pool = pool
        self._on_drop = on_drop
        self._spool: Spool | None = None  # the writer threads', one at a time
        self._oldest_ms: int | None = None
        self._taken: tuple[QueueRecord, ...] = ()
        self._jobs: deque[_Job] = deque()
        self._busy = False
        self._appending = 0
        self._failing: set[bool] = set()
        self._closed = False

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest record was received, or a little before, in milliseconds since the epoch; or None."""
        return self._oldest_ms if self.records else None

    @property
    def taken(self) -> int:
        """Records that are under way."""
        return len(self._taken)

    @property
    def expired(self) -> bool:
        """Whether all that is under way has become too old to be kept."""
        return bool(self._taken) and self._taken[-1].received_ms < self._terms.oldest_ms

    @property
    def idle(self) -> bool:
        """Whether nothing waits, and nothing is being appended."""
        return not self.records and not self._appending

    def append(
        self, records: Sequence[QueueRecord], done: Callable[[StorageError | None], None], *, taken: bool = False
    ) -> None:
        """Call `done` later, once: with None when the records are durable, else with why none of them is.

        `taken`: the first of them is under way already; where the queue is empty, it is as if it had been taken.
        """
        if self._closed or not records:
            error = StorageError(_CLOSED) if self._closed else None
            asyncio.get_running_loop().call_soon(done, error)
            return
        self._appending += 1
        call = Call(records, done, taken)
        if self._jobs and self._jobs[-1].calls:
            self._jobs[-1].calls.append(call)
        else:
            calls = [call]
            self._submit(
                _Job(
                    lambda spool, effect: spool.append(calls, effect), partial(self._appended, calls), calls, makes=True
                )
            )

    def take(
        self, max_samples: int, max_bytes: int, taken: Callable[[tuple[QueueRecord, ...] | StorageError], None]
    ) -> None:
        """Call `taken` later, once, with the first records that may go in one request; they are kept until `done`.

        That is one `attempted` record alone, or as many of one kind as the bounds allow, one at least; none where none
        is there. Until `done`, the same are taken again.
        """
        if self._closed:
            asyncio.get_running_loop().call_soon(taken, StorageError(_CLOSED))
            return

        def ended(report: _Report) -> None:
            taken(self._taken if report.error is None else report.error)

        self._submit(_Job(lambda spool, effect: spool.take(max_samples, max_bytes, effect), ended))

    def done(self) -> None:
        """What was taken has been settled, and is in the queue no more."""
        records, self._taken = self._taken, ()
        if records:
            self.records -= len(records)
            self.samples -= sum(record.samples for record in records)
            if not self._closed:
                self._submit(_Job(lambda spool, _: spool.settle(), _nobody_waits))

    def unload(self) -> None:
        """Nobody takes more for a while: keep nothing in memory but what is taken."""
        if self.records and not self._closed:
            self._submit(_Job(lambda spool, _: spool.unload(), _nobody_waits))

    async def drop(self, records: int | None = None) -> tuple[int, int]:
        """Drop the oldest so many, or all, but for what is taken; how many records and samples. Raises StorageError."""
        effect = await _effect(self._ask(lambda spool, effect: spool.drop(records, effect)))
        return effect.dropped_records[BY_HAND], effect.dropped_samples[BY_HAND]

    async def inspect(self, limit: int) -> list[QueueRecord]:
        """The oldest records, so many at most, what is taken among them. Raises StorageError."""
        found: list[QueueRecord] = []
        await _effect(self._ask(lambda spool, _: found.extend(spool.inspect(limit))))
        return found

    async def trim(self) -> None:
        """Drop what has become too old, or too much. Raises StorageError."""
        if self.records:
            await _effect(self._ask(Spool.trim))

    async def open(self) -> None:
        """Read what the folder holds. Raises StorageError."""
        await _effect(self._ask(_nothing_to_do, makes=True))

    def shut(self) -> None:
        """Take nothing more."""
        self._closed = True

    async def close(self) -> None:
        """Take nothing more, and return when what was asked for has ended. Raises StorageError. May be called again."""
        if not self._closed:
            closing = self._ask(lambda spool, _: spool.close())
            self.shut()
            await _effect(closing)

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def _ask(self, run: Callable[[Spool, Effect], None], *, makes: bool = False) -> asyncio.Future[_Report]:
        reported: asyncio.Future[_Report] = asyncio.get_running_loop().create_future()
        if self._closed:
            reported.set_result(_Report(Effect(), StorageError(_CLOSED)))
        elif self._spool is None and not self._jobs and not self._busy and not makes:
            reported.set_result(_Report(Effect()))
        else:
            self._submit(_Job(run, partial(_resolve, reported), makes=makes))
        return reported

    def _submit(self, job: _Job) -> None:
        self._jobs.append(job)
        if not self._busy:
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._jobs)
        if self._busy:
            job = self._jobs.popleft()
            asyncio.get_running_loop().run_in_executor(self._pool, self._work, job).add_done_callback(
                partial(self._ended, job)
            )

    def _ended(self, job: _Job, worked: asyncio.Future[_Report]) -> None:
        report = worked.result()
        effect = report.effect
        self.records += effect.records
        self.samples += effect.samples
        self.bytes = report.bytes
        self.torn_bytes = report.torn_bytes
        self._oldest_ms = report.oldest_ms
        if effect.taken is not None:
            self._taken = effect.taken
        self._say(report.error, appends=bool(job.calls))
        self._next()
        _guarded(job.ended, report)
        for reason, samples in effect.dropped_samples.items():
            if samples:
                _log.warning("queue dropped samples", tenant=self.tenant, reason=reason, samples=samples)
                _guarded(self._on_drop, self.tenant, reason, samples)

    def _appended(self, calls: Sequence[Call], report: _Report) -> None:
        self._appending -= len(calls)
        for call in calls:
            _guarded(call.done, None if call.durable else call.error or report.error)

    def _say(self, error: StorageError | None, *, appends: bool) -> None:
        """Log that the disk failed, once, until it works again; a full one may be read, and is not written."""
        if error is None:
            self._failing.discard(appends)
        elif appends not in self._failing:
            self._failing.add(appends)
            _log.error("queue failed", tenant=self.tenant, error=str(error))

    # -- in a writer thread --------------------------------------------------------------------------------------------

    def _work(self, job: _Job) -> _Report:
        report = _Report(Effect())
        try:
            if self._spool is None and job.makes:
                self._spool = Spool(self._folder, self._terms)
                report.effect.records = self._spool.records
                report.effect.samples = self._spool.samples
            if self._spool is not None:
                job.run(self._spool, report.effect)
        except OSError as error:
            report.error = StorageError(f"the queue of {self.tenant}: {error}")
        except Exception as error:  # noqa: BLE001 - the outermost frame of a thread: nobody may be left waiting
            _log.exception("queue failed", tenant=self.tenant)
            report.error = StorageError(f"the queue of {self.tenant} failed: {error}")
        if self._spool is not None:
            report.bytes = self._spool.size
            report.oldest_ms = self._spool.oldest_ms
            report.torn_bytes = self._spool.torn_bytes
        return report


def _nobody_waits(_report: _Report) -> None:
    pass


def _nothing_to_do(_spool: Spool, _effect: Effect) -> None:
    pass


async def _effect(reported: asyncio.Future[_Report]) -> Effect:
    report = await reported
    if report.error is not None:
        raise report.error
    return report.effect


def _resolve(reported: asyncio.Future[_Report], report: _Report) -> None:
    if not reported.done():  # who asked does not wait any more
        reported.set_result(report)


def _guarded(callback: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call it; what it does wrong is its own affair."""
    try:
        callback(*args, **kwargs)
    except Exception:  # noqa: BLE001 - the outermost frame of a callback: what waits behind it goes on
        _log.exception("callback of a queue failed")
