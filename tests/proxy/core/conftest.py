"""The wire tests run on both builds of the module: `pure` and `compiled`."""

from tests.proxy.core.twins import both, twin, wire

__all__ = ["both", "twin", "wire"]
