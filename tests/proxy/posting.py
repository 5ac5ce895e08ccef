"""What the tests of the upstream client share: upstreams of a test, and a post whose reply is waited for."""

import asyncio

from proxy.core.outcome import Reply
from proxy.upstreams.target import Credentials, target
from proxy.upstreams.upstream import HttpUpstream
from tests.proxy.receiver import Receiver


class Client:
    """Upstreams of one test, with replies to wait for."""

    def __init__(self) -> None:
        self.made: list[HttpUpstream] = []

    def to(self, url: str, timeout_seconds: float = 5) -> HttpUpstream:
        """An upstream that posts to a URL."""
        made = target(url, (("X-Scope-OrgID", "team-ml"),), Credentials.bearer("token"), None, timeout_seconds)
        self.made.append(HttpUpstream(made, asyncio.get_running_loop()))
        return self.made[-1]

    def at(self, receiver: Receiver, timeout_seconds: float = 5) -> HttpUpstream:
        """An upstream that posts to a receiver."""
        return self.to(f"http://127.0.0.1:{receiver.port}/api/v1/push?a=b", timeout_seconds)


async def post(upstream: HttpUpstream, body: bytes = b"body", attempt: int = 0) -> Reply:
    """The reply to one request; fails if there is a second one."""
    replied: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    upstream.post(body, attempt, replied.set_result)
    return await replied
