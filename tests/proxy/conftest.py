"""What the tests of the shell share."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pytest
import uvloop

from tests.proxy.posting import Client

_LOOPS: Final[Mapping[str, Callable[[], asyncio.AbstractEventLoop]]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The upstream client stands directly on the loop, so its tests run on both kinds; all others on uvloop."""
    del config
    return _LOOPS if item.path.name.startswith("test_upstream") else {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def client() -> Iterator[Client]:
    """Makes upstreams, and closes them."""
    made = Client()
    yield made
    for upstream in made.made:
        upstream.close()
