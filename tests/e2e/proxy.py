"""The proxy as people run it: a process with a configuration file, a log and a port; real peers stand around it."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from proxy.core.frames import scan
from proxy.core.record import QuarantineRecord
from tests.peers.processes import PeerError, Process, Program, answers, wait_until
from tests.peers.push import Entry, push
from tests.peers.web import Answer, Call, fetch
from tests.scrape import Scrape

ROOT = Path(__file__).parents[2]


class Proxy:
    """One data folder and the process that serves it; the process may end and start again, on the same port."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.config_file = folder / "whosegpu.yaml"
        self.data_dir = folder / "data"
        self._log = folder / "proxy.log"
        self._listen = self._address = "127.0.0.1:0"
        self._config = config
        command = [sys.executable, "-m", "cli.main", "proxy", "--config", str(self.config_file), "--log-format", "json"]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = Process(Program(command, self._log, Call("http://127.0.0.1"), environ))

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self._address}"

    @property
    def write_url(self) -> str:
        """Where it takes remote writes."""
        return f"{self.url}/api/v1/write"

    def start(self) -> None:
        """Start the process; it is ready when this returns."""
        self._listen = self._address  # port 0 the first time, the same one again later
        self._write(self._config)
        seen = len(self.events("listening"))
        self.process.spawn()
        self._await(lambda: len(self.events("listening")) > seen, "the proxy to listen")
        self._address = self.events("listening")[-1]["address"]
        self._await(lambda: answers(Call(f"{self.url}/-/ready")), "the proxy to be ready")

    def stop(self) -> None:
        """SIGTERM; everything is closed, the exit status is 0, and nothing went wrong unseen."""
        status = self.process.stop()
        log = self._log.read_text()
        assert status == 0, self.process.log_tail()
        assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:3000]
        assert self.events("stopped"), "the log does not end"

    def reload(self, config: Mapping[str, Any]) -> Answer:
        """POST /-/reload with another configuration in the file."""
        self._write(config)
        answer = fetch(Call(f"{self.url}/-/reload", "POST"))
        if answer.status == 200:
            self._config = config
        return answer

    def push(self, entries: Iterable[Entry], headers: Mapping[str, str] | None = None) -> Answer:
        """A hand-made remote write."""
        return push(self.write_url, entries, headers)

    def scrape(self) -> Scrape:
        """What /metrics says now."""
        return Scrape(fetch(Call(f"{self.url}/metrics")).body.decode())

    def balanced(self) -> Scrape:
        """What /metrics says at a moment at which the books balance, which comes when nothing is in flight."""
        last: list[Scrape] = []

        def balances() -> bool:
            last.append(self.scrape())
            return last[-1].imbalances() == []

        wait_until(balances, "the books to balance", deadline_s=10, diagnosis=lambda: str(last[-1].imbalances()))
        return last[-1]

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log's events of that name; a line that is being written is left out."""
        lines = self._log.read_text().splitlines(keepends=True) if self._log.exists() else []
        events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
        return [event for event in events if event.get("event") == name]

    def quarantined(self) -> list[QuarantineRecord]:
        """What lies in quarantine, read from its files; each of their bytes belongs to a whole record."""
        records = []
        for path in sorted((self.data_dir / "quarantine").glob("*.q")):
            found = scan(path.read_bytes())
            assert (found.damage, found.torn_at) == ((), None), f"{path} is damaged"
            records += [QuarantineRecord.decode(payload) for _, payload in found.records]
        return records

    def _write(self, config: Mapping[str, Any]) -> None:
        settings = {"listen": self._listen, "data_dir": str(self.data_dir), **config.get("proxy", {})}
        self.config_file.write_text(json.dumps({**config, "proxy": settings}, indent=1), encoding="utf-8")

    def _await(self, holds: Any, what: str) -> None:
        def alive_and_holds() -> bool:
            if not self.process.alive:
                raise PeerError(f"the proxy ended by itself\n{self.process.log_tail()}")
            return bool(holds())

        wait_until(alive_and_holds, what, deadline_s=60, diagnosis=self.process.log_tail)


@contextmanager
def proxy(folder: Path, config: Mapping[str, Any]) -> Iterator[Proxy]:
    """A proxy, ready inside the block; at its end the books balance and it stops in order."""
    started = Proxy(folder, config)
    try:
        started.start()
        yield started
        if started.process.alive:
            started.balanced()
            started.stop()
    except BaseException as error:
        error.add_note(started.process.log_tail(20))
        raise
    finally:
        started.process.stop()
