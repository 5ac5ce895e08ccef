"""The wire tests run on both builds of the module: `pure` and `compiled`."""

from types import ModuleType

import pytest

from tests.proxy.core import twins
from tests.proxy.core.twins import Twin


@pytest.fixture(scope="session", params=["pure", "compiled"])
def twin(request: pytest.FixtureRequest) -> Twin:
    """One build of wire, with the reader of entries that stands on it."""
    return twins.pure() if request.param == "pure" else twins.compiled()


@pytest.fixture(scope="session")
def wire(twin: Twin) -> ModuleType:
    """One build of wire."""
    return twin.wire


@pytest.fixture(scope="session")
def both() -> tuple[Twin, Twin]:
    """Both builds, to compare their answers."""
    return twins.pure(), twins.compiled()
