"""Sends the demo's requests as Prometheus' remote write does: in order, one connection, a while after each scrape."""

import http.client
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from cli.demo.scraping import Request

PATH: Final = "/api/v1/push"
TIMEOUT_SECONDS: Final = 10.0
ACCEPTED: Final = 204

_HEADERS: Final = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
    "User-Agent": "whosegpu-demo",
}


@dataclass(slots=True)
class Tally:
    """How sending went: `accepted` requests and their `samples`; `others` counts every other end by its name."""

    accepted: int = 0
    samples: int = 0
    others: Counter[str] = field(default_factory=Counter)


class Sender:
    """Holds requests until they are due, then sends them; one that is not accepted stays first, as with a 503."""

    def __init__(self, host: str, port: int) -> None:
        self.tally = Tally()
        self._connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
        self._waiting: deque[tuple[float, Request]] = deque()

    @property
    def waiting(self) -> int:
        """Requests that are not sent yet."""
        return len(self._waiting)

    def put(self, request: Request, due: float) -> None:
        """Send a request when the clock says `due`, after all that were put before it."""
        self._waiting.append((due, request))

    def send_due(self, now: float) -> None:
        """Send what is due, up to the first that is not accepted."""
        while self._waiting and self._waiting[0][0] <= now:
            end = self._post(self._waiting[0][1].body)
            if end != str(ACCEPTED):
                self.tally.others[end] += 1
                return
            _, request = self._waiting.popleft()
            self.tally.accepted += 1
            self.tally.samples += request.samples

    def give_up(self) -> None:
        """Never send what waits."""
        self._waiting.clear()

    def wrong(self) -> tuple[str, ...]:
        """One sentence for each thing that went wrong."""
        told = [
            f"{count:,} requests ended with {end} instead of {ACCEPTED}" for end, count in self.tally.others.items()
        ]
        if self._waiting:
            told.append(f"{len(self._waiting):,} requests were never accepted")
        return tuple(told)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _post(self, body: bytes) -> str:
        """The status, or why there is none."""
        try:
            self._connection.request("POST", PATH, body, _HEADERS)
            with self._connection.getresponse() as answer:
                answer.read()
                return str(answer.status)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return type(error).__name__
