"""Bodies that hypothesis has broken, sent by HTTP to a proxy process: it stays up, and what it passes on is sound."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import cramjam
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proto.prompb.remote_pb2 import WriteRequest
from tests.e2e import fleet
from tests.e2e.proxy import Proxy, proxy
from tests.peers.push import HEADERS
from tests.proxy.core.messages import NOW_MS, STALE, VECTORS, blob, block, exemplar, recorded, sample
from tests.proxy.running import snappy

EXAMPLES = max(300, settings().max_examples)
CARD = fleet.BARE[0]
NAMES = ["__name__", "job", "UUID", "GPU_I_ID", "namespace", "pod", "cluster", "__replica__", "a", "z", "", "ü"]
VALUES = ["", "m", "whosegpu-labeler", "team-a", CARD, CARD, CARD, "GPU-other", "3", "ü" * 30, "v" * 2049]
RECORDED = [
    entry.SerializeToString()
    for path in sorted(VECTORS.glob("*.hex"))
    for entry in WriteRequest.FromString(recorded(path.stem)).timeseries[:40]
]

points = st.one_of(
    st.builds(sample, st.floats(), st.integers(NOW_MS - 3, NOW_MS + 3) | st.integers(-(1 << 63), (1 << 63) - 1)),
    st.builds(sample, st.just(STALE), st.integers(NOW_MS - 3, NOW_MS + 3)),
    st.builds(exemplar, st.just(0.5), st.just(NOW_MS)),
    st.builds(blob, st.integers(2, 20), st.binary(max_size=20)),
)
entries = st.one_of(
    st.sampled_from(RECORDED),
    st.builds(
        lambda pairs, tail: block(*pairs) + b"".join(tail),
        st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=8).map(
            lambda pairs: [("__name__", "m"), *pairs]
        ),
        st.lists(points, max_size=4),
    ),
)


@st.composite
def broken(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of which some are changed, put in, taken out or doubled, or none."""
    body = bytearray(draw(whole))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at, to = sorted((draw(st.integers(0, len(body))), draw(st.integers(0, len(body)))))
        to = min(to, at + 40)
        match draw(st.integers(0, 4)):
            case 0 if at < len(body):
                body[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                body[at:at] = draw(st.binary(max_size=12))
            case 2:
                del body[at:to]
            case 3:
                body[at:at] = body[at:to]
            case _:
                body[at:to] = draw(st.sampled_from([b"\xff" * 10, b"\x80" * 11, b"\x00", CARD.encode(), b"__name__"]))
    return bytes(body)


messages = st.lists(broken(entries).map(lambda entry: blob(1, entry)), max_size=8).map(b"".join)


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, dict[str, str]]:
    """A body, mostly a sound snappy block around sound frames around broken entries, and headers, mostly right."""
    how = draw(st.integers(0, 19))
    if how == 0:
        block = draw(broken(messages))
    elif how == 1:
        block = draw(broken(messages.map(snappy)))
    elif how == 2:
        block = snappy(draw(broken(messages)))
    else:
        block = snappy(draw(messages))
    odd = draw(st.text(st.characters(min_codepoint=32, max_codepoint=126))) if how == 3 else HEADERS["Content-Type"]
    return block, {**HEADERS, "Content-Type": odd.strip()}


class Sink:
    """A store that takes everything and notes what is wrong with it; its answers are those of its name."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.samples = 0
        self.port = 0

    def take(self, block: bytes) -> None:
        """Look at one request."""
        try:
            message = WriteRequest.FromString(bytes(cramjam.snappy.decompress_raw(block)))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a fault
            self.faults.append(repr(error))
            return
        for entry in message.timeseries:
            self.samples += len(entry.samples) + len(entry.histograms)
            names = [label.name for label in entry.labels]
            if (
                b"__name__" not in names
                or names != sorted(set(names))
                or not all(label.value for label in entry.labels)
            ):
                self.faults.append(str(entry))


@contextmanager
def listening(sink: Sink) -> Iterator[Sink]:
    """The sink on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            sink.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sink.port = server.server_port
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield sink
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def configuration(folder: Path, sink: Sink) -> dict[str, Any]:
    """All views, both kinds of storage, an owned card, rules, and a tenant made from data."""
    held = fleet.interval(NOW_MS, None, fleet.owner("team-a", "a-0", "Job", "a"))
    file = fleet.write(folder / "node.json", "node", [fleet.device(CARD, held)], from_ms=NOW_MS)
    url = f"http://127.0.0.1:{sink.port}/"
    rule = {"action": "replace", "source_labels": ["job", "UUID"], "target_label": "made", "replacement": "$1"}
    return {
        "proxy": {"unowned": "quarantine"},
        "ownership": {"files": [str(file)]},
        "tenants": [
            {"id": "joined", "endpoint": {"url": url}, "write_relabel_configs": [rule]},
            {"id": "raw", "view": "raw", "endpoint": {"embedded": True}},
            {"id": "owned", "namespaces": ["team-a"], "endpoint": {"url": url}},
        ],
    }


@pytest.mark.fuzz
@pytest.mark.timeout(3600)
def test_broken_bodies_are_never_the_proxys_trouble(tmp_path: Path) -> None:
    """The answer is 204 or a 4xx, the log shows no traceback, the books balance, and stores get sound data only."""
    with listening(Sink()) as sink, proxy(tmp_path, configuration(tmp_path, sink)) as through:
        host, port = through.url.removeprefix("http://").split(":")
        connection = HTTPConnection(host, int(port), timeout=10)
        answers: dict[int, int] = {}

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
        @given(requests())
        def send(request: tuple[bytes, dict[str, str]]) -> None:
            connection.request("POST", "/api/v1/push", *request)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 204 or 400 <= answer.status < 500, text
            assert text.count(b"\n") <= 1
            answers[answer.status] = answers.get(answer.status, 0) + 1

        send()
        connection.close()
        check(through, sink, answers)


def check(through: Proxy, sink: Sink, answers: dict[int, int]) -> None:
    """What must hold when all has been sent."""
    assert sink.faults == []
    found = through.balanced()
    assert {int(code): count for code, count in found.by("requests_total", "code").items()} == answers
    assert sink.samples == sum(found.total("samples_delivered_total", tenant=each) for each in ("joined", "owned"))
    assert found.by("samples_dropped_total", "reason").keys() <= {"labels_per_series", "collision"}
    assert set(answers) >= {204, 400}
    for line in (through.config_file.parent / "proxy.log").read_text().splitlines():
        assert json.loads(line)["level"] in {"info", "warning"}, line
