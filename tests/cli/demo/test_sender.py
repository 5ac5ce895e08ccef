"""Requests go in order, when they are due, and one that is not accepted stays first."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from cli.demo.scraping import Request
from cli.demo.sender import Sender
from tests.peers.processes import free_ports


class Receiver:
    """A receiver that answers each request with the next of `statuses`, 204 when there is none; 0 hangs up."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.connections = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                receiver.connections += 1

            def do_POST(self) -> None:
                receiver.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.headers.append(dict(self.headers))
                status = receiver.statuses.pop(0) if receiver.statuses else 204
                self.close_connection = not status
                if status:
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = int(self.server.server_address[1])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver on loopback."""
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.02,))
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


@pytest.fixture
def sender(receiver: Receiver) -> Iterator[Sender]:
    """A sender to the receiver; its connection is closed before the receiver ends."""
    found = Sender("127.0.0.1", receiver.port)
    yield found
    found.close()


def test_requests_are_sent_when_due_and_in_order(receiver: Receiver, sender: Sender) -> None:
    """What is not due waits; what is due goes over one connection, with the headers of remote write 1.0."""
    for number in range(4):
        sender.put(Request(b"%d" % number, 10 + number), due=float(number))
    sender.send_due(1.5)
    assert receiver.bodies == [b"0", b"1"]
    sender.send_due(3.0)
    assert receiver.bodies == [b"0", b"1", b"2", b"3"]
    assert (sender.tally.accepted, sender.tally.samples, sender.waiting) == (4, 46, 0)
    assert receiver.connections == 1
    assert receiver.headers[0]["Content-Encoding"] == "snappy"
    assert receiver.headers[0]["X-Prometheus-Remote-Write-Version"] == "0.1.0"
    assert sender.wrong() == ()


@pytest.mark.parametrize(("status", "named"), [(503, "503"), (400, "400"), (200, "200"), (0, "RemoteDisconnected")])
def test_what_is_not_accepted_stays_first(receiver: Receiver, sender: Sender, status: int, named: str) -> None:
    """Anything but 204 is counted, and the request is sent again before any other."""
    receiver.statuses = [status]
    sender.put(Request(b"a", 1), due=0.0)
    sender.put(Request(b"b", 1), due=0.0)
    sender.send_due(1.0)
    assert (receiver.bodies, sender.waiting) == ([b"a"], 2)
    sender.send_due(2.0)
    assert receiver.bodies == [b"a", b"a", b"b"]
    assert sender.wrong() == (f"1 requests ended with {named} instead of 204",)


def test_nobody_listens() -> None:
    """A receiver that is not there is a counted end, and what waits is told."""
    (port,) = free_ports(1)
    sender = Sender("127.0.0.1", port)
    sender.put(Request(b"a", 1), due=0.0)
    sender.send_due(1.0)
    assert sender.wrong() == (
        "1 requests ended with ConnectionRefusedError instead of 204",
        "1 requests were never accepted",
    )
    sender.give_up()
    assert sender.waiting == 0
