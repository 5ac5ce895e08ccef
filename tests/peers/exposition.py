"""A scrape target: text in Prometheus' exposition format, served on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class Exposition:
    """What a scraper gets; ``text`` may be set at any time, None answers 503 (the target is down)."""

    def __init__(self, text: str | None, port: int) -> None:
        self.text = text
        self.target = f"127.0.0.1:{port}"
        self.scrapes = 0


@contextmanager
def serving(text: str) -> Iterator[Exposition]:
    """The text at every path of a loopback port, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            exposition.scrapes += 1
            body = (exposition.text or "").encode()
            self.send_response(200 if exposition.text is not None else 503)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    exposition = Exposition(text, server.server_port)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield exposition
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
