"""The parsers are fuzzed in both builds of the wire module."""

from tests.proxy.core.twins import both, twin

__all__ = ["both", "twin"]
