"""Senders as Prometheus' shards are: one request in flight, sent again byte for byte until it is answered for good.

`Retry-After` is ignored and `Retry-Attempt` counts, as there; only the pauses are shorter. 2xx is an acknowledgement,
other 4xx than 429 ends a request, and everything else, a dead connection included, is sent again.
"""

import contextlib
import http.client
import itertools
import random
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

from tests.faults.ledger import Ledger, Sent
from tests.faults.store import Key, Series
from tests.peers.push import HEADERS, encode

_TIMEOUT_S: Final = 25.0  # above what the proxy may take, below the 30 s of Prometheus
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.03, 0.3
_AGAIN: Final = 429
_STRANGE_SHARE: Final = 0.1
_STRANGE: Final = tuple(
    struct.pack("<Q", bits)
    for bits in (0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8_0000_0000_0DAD, 0xFFF8_DEAD_BEEF_0000, 1)
)
"""Zeros, infinities, NaNs that are no stale markers, the smallest number."""


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a sender, and whose it is."""

    tenant: str
    series: Series

    @property
    def labels(self) -> dict[str, str]:
        """As they are sent."""
        return dict(self.series)


@dataclass(frozen=True, slots=True)
class Answered:
    """How one attempt ended: the status, 0 for none, and after how long."""

    status: int
    seconds: float
    at_s: float


def lines(tenants: Sequence[str], sender: str, each: int = 2, replica: str = "") -> list[Line]:
    """Series of a sender for each of these tenants, whose `dest` label says so; all of one replica, or of none."""
    pair = {"cluster": "c", "__replica__": replica} if replica else {}
    return [
        Line(tenant, tuple(sorted({"__name__": "m", "dest": tenant, "sender": sender, "n": str(n), **pair}.items())))
        for tenant in tenants
        for n in range(each)
    ]


@dataclass
class Sender:
    """Sends a sample of each of its lines, over and over, for as long as its `with` block lasts."""

    url: str
    ledger: Ledger
    lines: Sequence[Line]
    pause_s: float = 0.05
    answers: list[Answered] = field(default_factory=list)
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        self._dice = random.Random(len(self.lines))
        self._newest_ms = 0
        self._stop = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._run, name="sender")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more, also nothing again; the answer that is awaited is still noted."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.close()
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """End the connection; the next request makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()

    @property
    def acknowledgements(self) -> int:
        """How many requests were acknowledged so far."""
        return sum(answer.status // 100 == 2 for answer in list(self.answers))

    @property
    def last_status(self) -> int:
        """How the last attempt ended; 0 before the first."""
        return self.answers[-1].status if self.answers else 0

    def once(self) -> Answered:
        """Send one request and once only; for a sender that was not started."""
        samples = self._samples()
        self.ledger.send(samples)
        answer = self._post(_body(samples), 0)
        self.answers.append(answer)
        if answer.status // 100 == 2:
            self.ledger.acknowledge(samples)
        return answer

    def _run(self) -> None:
        try:
            while not self._stop.wait(self.pause_s):
                self._request()
        except BaseException as error:  # noqa: BLE001 - the outermost frame of the thread: `stop` raises it
            self.failure = error

    def _request(self) -> None:
        samples = self._samples()
        self.ledger.send(samples)
        body = _body(samples)
        for attempt in itertools.count():
            answer = self._post(body, attempt)
            self.answers.append(answer)
            if answer.status // 100 == 2:
                self.ledger.acknowledge(samples)
            if answer.status // 100 in {2, 4} and answer.status != _AGAIN:
                return
            if self._stop.wait(min(_FIRST_PAUSE_S * 2**attempt, _LAST_PAUSE_S)):
                return

    def _samples(self) -> list[Sent]:
        """One for each line, at a time that is newer than all before."""
        self._newest_ms = max(self._newest_ms + 1, time.time_ns() // 1_000_000)
        now = time.monotonic()
        return [Sent(line.tenant, Key(line.series, self._newest_ms), self._bits(), now) for line in self.lines]

    def _bits(self) -> bytes:
        strange = self._dice.random() < _STRANGE_SHARE
        return self._dice.choice(_STRANGE) if strange else struct.pack("<d", self._dice.uniform(-1e9, 1e9))

    def _post(self, body: bytes, attempt: int) -> Answered:
        begun = time.monotonic()
        status = 0
        try:
            status = self._ask(body, {"Retry-Attempt": str(attempt)} if attempt else {})
        except (OSError, http.client.HTTPException):
            self.close()
        return Answered(status, time.monotonic() - begun, begun)

    def _ask(self, body: bytes, more: dict[str, str]) -> int:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=_TIMEOUT_S)
        self._connection.request("POST", urlsplit(self.url).path, body, {**HEADERS, **more})
        response = self._connection.getresponse()
        response.read()
        return response.status


def _body(samples: Sequence[Sent]) -> bytes:
    return encode((dict(sent.key.series), [(sent.key.at_ms, struct.unpack("<d", sent.bits)[0])]) for sent in samples)
