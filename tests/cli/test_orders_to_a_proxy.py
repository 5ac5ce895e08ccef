"""`whosegpu queue` and `whosegpu quarantine` while a proxy runs, and after it was killed."""

import json
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli import data_folder
from cli.data_folder import ask
from cli.errors import CommandError
from proxy.control import SOCKET_NAME
from store.reading import SampleReader
from store.schema import store_path
from tests.cli.command import Command, Result, spawned
from tests.cli.stock import CARD, OWNED_MS, Folder
from tests.e2e.proxy import Proxy, proxy
from tests.peers.processes import free_ports, wait_until

DELIVERY = {"park_after": "100ms", "timeout": "2s"}
UTIL = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": CARD}


def config_of(folder: Path, tenants: Sequence[str] = ("down", "up")) -> dict[str, Any]:
    """Tenants that all get everything; the store of the one called `down` is not there."""
    (closed,) = free_ports(1)
    endpoints = {"down": {"url": f"http://127.0.0.1:{closed}/push"}, "up": {"embedded": True}}
    return {
        "proxy": {"delivery": DELIVERY},
        "tenants": [{"id": name, "endpoint": endpoints.get(name, endpoints["down"])} for name in tenants],
        "ownership": {"files": [str(folder / "node.json")]},
    }


@pytest.fixture
def through(tmp_path: Path) -> Iterator[Proxy]:
    """A running proxy; at the end its books balance, and it stops in order."""
    with proxy(tmp_path, config_of(tmp_path)) as started:
        yield started


Ask = Callable[..., Any]


@pytest.fixture
def verb(whosegpu: Command) -> Ask:
    """A command, in this process, that asks a proxy or looks itself."""

    def verb(through: Proxy, *arguments: str) -> Result:
        return whosegpu(*arguments, "--config", str(through.config_file))

    return verb


@pytest.fixture
def told(verb: Ask) -> Ask:
    """What a command says as JSON."""

    def told(through: Proxy, *arguments: str) -> Any:
        return value_of(verb(through, *arguments, "--json"))

    return told


def value_of(result: Result) -> Any:
    """The JSON that a command printed that did what it was told."""
    assert (result.status, result.err) == (0, "")
    return json.loads(result.out)


def push(through: Proxy, name: str, number: int = 0, samples: int = 1) -> None:
    """A request that is acknowledged."""
    labels = {"__name__": name, "number": str(number)}
    assert through.push([(labels, [(OWNED_MS + at, 1.0) for at in range(samples)])]).status == 204


def test_the_queue_of_a_store_that_is_down(through: Proxy, verb: Ask, told: Ask) -> None:
    """What waits is listed with the reason, shown, and dropped by hand: counted, and not sent any more."""
    for number in range(5):
        push(through, "m", number, samples=2)
    found = told(through, "queue", "list")["queues"]
    assert [(each["tenant"], each["state"], each["why"]) for each in found] == [("down", "waiting", "upstream_refused")]
    assert found[0]["samples"] == 10
    assert found[0]["age_seconds"] < 60
    shown = told(through, "queue", "inspect", "down")
    assert (shown["samples"], shown["records"]) == (10, found[0]["records"])
    assert shown["shown"][0]["series"][0] == 'm{number="0"}'
    table = verb(through, "queue", "list")
    assert table.out.splitlines()[1].endswith("waits: upstream_refused")
    first = told(through, "queue", "drop", "down", "--oldest", "1", "--yes")
    assert first["records"] == 1
    assert told(through, "queue", "inspect", "down")["shown"][0]["series"][0] == 'm{number="1"}'
    rest = told(through, "queue", "drop", "down", "--all", "--yes")
    assert (first["samples"] + rest["samples"], rest["left_samples"]) == (10, 0)
    metrics = through.balanced()
    dropped = metrics.total("samples_dropped_total", tenant="down", reason="dropped_by_hand")
    assert dropped == first["samples"] + rest["samples"] > 0
    assert metrics.total("samples_delivered_total", tenant="up") == 10


def test_a_tenant_that_was_removed(through: Proxy, tmp_path: Path, verb: Ask, told: Ask) -> None:
    """Its queue is kept and shown as that, and can be dropped."""
    for number in range(3):
        push(through, "m", number)
    assert through.reload(config_of(tmp_path, ["up"])).status == 200
    (found,) = told(through, "queue", "list")["queues"]
    assert (found["tenant"], found["state"]) == ("down", "not_configured")
    assert "kept: no such tenant" in verb(through, "queue", "list").out
    dropped = verb(through, "queue", "drop", "down", "--all", "--yes")
    assert dropped.out == "dropped 3 records with 3 samples of down\n"
    through.balanced()
    assert verb(through, "queue", "list").out == "nothing is queued\n"


def test_the_quarantine(through: Proxy, tmp_path: Path, told: Ask) -> None:
    """What waits for an owner is listed with the reason, dropped by hand, and replayed when the owner is known."""
    entries = [(UTIL, [(OWNED_MS + 1 + at, 1.0)]) for at in range(4)]
    assert through.push(entries).status == 204
    found = told(through, "quarantine", "list", "--match", CARD)
    assert found["samples"] == {"unknown_owner": 4}
    assert [each["sender"] for each in found["shown"]] == ["anonymous"] * 4
    assert found["shown"][0]["why"].endswith(f"no node lists {CARD}")
    assert told(through, "quarantine", "replay") == {
        "released": 0,
        "dropped": {},
        "waiting": {"unknown_owner": 4},
        "unsettled": [],
        "running": True,
    }
    dropped = told(through, "quarantine", "drop", "--reason", "unknown_owner", "--yes")
    assert dropped == {"records": 4, "samples": 4, "left": {}}
    assert through.balanced().total("quarantine_dropped_total", reason="dropped_by_hand") == 4

    assert through.push(entries[:3]).status == 204
    Folder(tmp_path).own("ml")
    wait_until(lambda: told(through, "quarantine", "replay")["waiting"] == {}, "the owner to be known")
    metrics = through.balanced()
    assert metrics.total("quarantine_released_total") == 3
    assert metrics.total("samples_queued", tenant="down") == 3
    assert SampleReader(store_path(through.data_dir, "up")).count() == 3
    (record,) = told(through, "queue", "inspect", "down")["shown"]
    assert record["replay"]


def test_only_its_owner_may_ask(through: Proxy) -> None:
    """The socket of a real process has the mode 0600."""
    found = (through.data_dir / SOCKET_NAME).stat()
    assert (stat.S_ISSOCK(found.st_mode), stat.S_IMODE(found.st_mode)) == (True, 0o600)


def test_two_at_once(through: Proxy) -> None:
    """Several people may ask at once; each drop is counted once."""
    for number in range(8):
        push(through, "m", number)
    with ThreadPoolExecutor(4) as pool:
        command = ["queue", "drop", "down", "--oldest", "2", "--yes", "--json", "--config", str(through.config_file)]
        drops = pool.map(lambda _: value_of(spawned(*command)), range(4))
        samples = sum(each["samples"] for each in drops)
    metrics = through.balanced()
    assert metrics.total("samples_dropped_total", reason="dropped_by_hand") == samples
    assert metrics.total("samples_queued") == 8 - samples


def test_answers_agree(through: Proxy, tmp_path: Path, verb: Ask, told: Ask) -> None:
    """A running proxy, and a command under the lock when it was killed, say the same of the same folder."""
    for number in range(3):
        push(through, "m", number, samples=3)
    assert through.push([(UTIL, [(OWNED_MS, 1.0)])]).status == 204
    Folder(tmp_path).own("ml", from_ms=OWNED_MS + 1)
    wait_until(lambda: "gpu-node-a" in verb(through, "quarantine", "list").out, "the document to be read")
    questions = [["queue", "list"], ["queue", "inspect", "down"], ["quarantine", "list"]]
    running = [aged(told(through, *question)) for question in questions]
    through.process.kill9()
    assert (through.data_dir / SOCKET_NAME).is_socket()
    alone = [aged(told(through, *question)) for question in questions]
    assert (running[0]["queues"][0].pop("state"), running[0]["queues"][0].pop("why")) == ("waiting", "upstream_refused")
    assert (alone[0]["queues"][0].pop("state"), alone[0]["queues"][0].pop("why")) == ("stopped", "")
    assert alone == running
    assert told(through, "queue", "drop", "down", "--oldest", "1", "--yes")["records"] == 1
    through.start()
    (found,) = told(through, "queue", "list")["queues"]
    assert (found["state"], found["records"]) == ("waiting", alone[0]["queues"][0]["records"] - 1)
    through.stop()
    assert not (through.data_dir / SOCKET_NAME).exists()


def aged(value: Any) -> Any:
    """Without ages, which differ from moment to moment."""
    if isinstance(value, Mapping):
        return {key: aged(each) for key, each in value.items() if key != "age_seconds"}
    return [aged(each) for each in value] if isinstance(value, list) else value


def test_what_was_released_without_a_proxy_goes_out(tmp_path: Path, verb: Ask, told: Ask) -> None:
    """A replay under the lock puts its parts into the queues; the proxy delivers them when it starts."""
    config = config_of(tmp_path, ["up"])
    with proxy(tmp_path, config) as through:
        assert through.push([(UTIL, [(OWNED_MS + 1, 1.0)])]).status == 204
    Folder(tmp_path).own("ml")
    found = verb(through, "quarantine", "replay")
    assert found.out == "released 1 sample; they are in the tenants' queues, and go out when the proxy starts\n"
    assert [(each["tenant"], each["state"]) for each in told(through, "queue", "list")["queues"]] == [("up", "stopped")]
    with proxy(tmp_path, config) as through:
        wait_until(lambda: through.scrape().total("samples_delivered_total") == 1, "the sample to be delivered")
    assert SampleReader(store_path(through.data_dir, "up")).count() == 1


def test_a_proxy_that_hangs(whosegpu: Command, through: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has the folder but does not answer is a sentence after a while."""
    monkeypatch.setattr(data_folder, "QUEUE_SECONDS", 0.3)
    os.kill(through.process.pid, signal.SIGSTOP)
    try:
        result = whosegpu("queue", "list", "--config", str(through.config_file))
    finally:
        os.kill(through.process.pid, signal.SIGCONT)
    said = (
        f"whosegpu: the proxy that has {through.data_dir} does not answer; look at its log, or stop it and try again\n"
    )
    assert (result.status, result.out, result.err) == (1, "", said)


@contextmanager
def answering(folder: Path, answer: bytes) -> Iterator[None]:
    """Something that listens at the socket of a folder, and answers the first line with these bytes."""
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(str(folder / SOCKET_NAME))
        listener.listen()
        listener.settimeout(20)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        served = pool.submit(serve)
        yield
        served.result()


OTHERS = [
    pytest.param(b"", "the proxy ended before it had answered; look at its log, and try again", id="nothing"),
    pytest.param(b'{"answer":', "the proxy ended before it had answered; look at its log, and try again", id="cut"),
    pytest.param(b"nonsense\n", "an answer is one line of JSON; this is none", id="no-json"),
    pytest.param(b"[1]\n", "an answer is a JSON object; this is another value", id="no-object"),
    pytest.param(b"{}\n", "the answer is none; is the command of another version than the proxy?", id="empty"),
    pytest.param(b'{"error":"no \\u001b[2J"}\n', "no \\x1b[2J", id="hostile-error"),
    pytest.param(
        b'{"answer":{"queues":[{}]}}\n', "{socket} answers something else; is the proxy of this version?", id="other"
    ),
]


@pytest.mark.parametrize(("answer", "sentence"), OTHERS)
def test_another_program_at_the_socket(whosegpu: Command, tmp_path: Path, answer: bytes, sentence: str) -> None:
    """Whatever answers there, a person gets one sentence."""
    folder = Folder(tmp_path)
    folder.configure()
    folder.data_dir.mkdir()
    with answering(folder.data_dir, answer):
        result = whosegpu("queue", "list", "--config", str(folder.config))
    said = sentence.format(socket=folder.data_dir / SOCKET_NAME) if "{socket}" in sentence else sentence
    assert (result.status, result.out, result.err) == (1, "", f"whosegpu: {said}\n")


def test_an_answer_that_drips(tmp_path: Path) -> None:
    """An answer has to be there in time, not only something of it."""
    with answering(tmp_path, b"{"), pytest.raises(CommandError, match="ended before it had answered"):
        ask(tmp_path, b"{}\n", 5)
