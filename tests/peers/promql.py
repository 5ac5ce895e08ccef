"""The query API that Prometheus, Cortex and VictoriaMetrics share."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from tests.peers.processes import PeerError
from tests.peers.web import Call, fetch


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a result; an instant query gives one sample each, a range selector ("up[5m]") the stored ones."""

    labels: Mapping[str, str]
    samples: tuple[tuple[int, float], ...]

    @property
    def value(self) -> float:
        """The newest sample's value."""
        return self.samples[-1][1]


@dataclass(frozen=True, slots=True)
class QueryApi:
    """Asks one server, always with the same headers. Times are milliseconds since the epoch."""

    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def query(self, promql: str, at_ms: int | None = None) -> tuple[Series, ...]:
        """An instant query; by default at the next second, since Cortex cuts "now" to a whole one. Raises PeerError."""
        at_ms = int(time.time() + 1) * 1000 if at_ms is None else at_ms
        return _series(self.get("/api/v1/query", query=promql, time=_seconds(at_ms)))

    def query_range(self, promql: str, start_ms: int, end_ms: int, step_ms: int = 1000) -> tuple[Series, ...]:
        """A range query, both ends included. Raises PeerError."""
        span = {"start": _seconds(start_ms), "end": _seconds(end_ms), "step": _seconds(step_ms)}
        return _series(self.get("/api/v1/query_range", query=promql, **span))

    def series(self, match: str, start_ms: int = 0, end_ms: int | None = None) -> list[dict[str, str]]:
        """The label sets that match. Raises PeerError."""
        end_ms = int(time.time() + 60) * 1000 if end_ms is None else end_ms
        found = self.get("/api/v1/series", **{"match[]": match}, start=_seconds(start_ms), end=_seconds(end_ms))
        return [{str(name): str(value) for name, value in labels.items()} for labels in found]

    def get(self, path: str, **parameters: str) -> Any:
        """The ``data`` of an answer. Raises PeerError for anything but success."""
        answer = fetch(Call(f"{self.base_url}{path}?{urlencode(parameters)}", headers=self.headers))
        if answer.status != 200:
            raise PeerError(f"{path} {parameters}: {answer.status} {answer.body.decode(errors='replace')}")
        return answer.json()["data"]


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f}"


def _series(data: Mapping[str, Any]) -> tuple[Series, ...]:
    if data["resultType"] not in ("vector", "matrix"):
        raise PeerError(f"a {data['resultType']} is not a set of series")
    return tuple(
        Series(
            labels=each["metric"],
            samples=tuple((round(at * 1000), float(value)) for at, value in each.get("values") or [each["value"]]),
        )
        for each in data["result"]
    )
