"""One Cortex for all tests here: a tenant of it costs nothing, a process takes seconds."""

from collections.abc import Iterator

import pytest

from tests.peers.cortex import Cortex, cortex


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cortex]:
    """A running Cortex; each test has tenants of its own."""
    with cortex(tmp_path_factory.mktemp("cortex")) as running:
        yield running
