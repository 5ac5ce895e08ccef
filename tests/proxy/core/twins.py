"""The two builds of proxy/core/wire and fields, and the module that stands on them, each loaded by itself."""

import os
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from proxy import core
from proxy.core import fields as fields_module
from proxy.core import timeseries
from proxy.core import wire as wire_module


@dataclass(frozen=True, slots=True)
class Twin:
    """One build: `wire` is all that is compiled, of both modules, and `timeseries` reads with it."""

    wire: ModuleType
    timeseries: ModuleType


def pure() -> Twin:
    """The plain Python build, from the source, under names of its own."""
    plain = _merged(_from_source("wire"), _from_source("fields"))
    reader = _from_source("timeseries")
    for name in ("read_field", "read_varint", "varint"):
        setattr(reader, name, getattr(plain, name))
    return Twin(plain, reader)


def compiled() -> Twin:
    """The compiled build; where there is none, the test is skipped, and fails if a compiled build was asked for."""
    if not (wire_module.COMPILED and fields_module.COMPILED):
        reason = "proxy/core/wire and fields are not compiled; `make compiled` does it"
        if os.environ.get("REQUIRE_CYTHON") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return Twin(_merged(wire_module, fields_module), timeseries)


@pytest.fixture(scope="session", params=["pure", "compiled"])
def twin(request: pytest.FixtureRequest) -> Twin:
    """One build of wire, with the reader of entries that stands on it: what asks for it runs on both."""
    return pure() if request.param == "pure" else compiled()


@pytest.fixture(scope="session")
def wire(twin: Twin) -> ModuleType:
    """One build of wire."""
    return twin.wire


@pytest.fixture(scope="session")
def both() -> tuple[Twin, Twin]:
    """Both builds, the plain one first, to compare their answers."""
    return pure(), compiled()


def _merged(*modules: ModuleType) -> ModuleType:
    merged = ModuleType("wire_and_fields")
    for module in modules:
        merged.__dict__.update(vars(module))
    return merged


def _from_source(name: str) -> ModuleType:
    path = Path(core.__path__[0]) / f"{name}.py"
    loader = SourceFileLoader(f"pure_{name}", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
