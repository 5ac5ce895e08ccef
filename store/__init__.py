"""Embedded storage: one SQLite file for each tenant, written by the proxy, readable by others while it writes."""

from store.errors import StoreBodyError, StoreError, StoreUnavailableError
from store.reading import SampleReader
from store.samples import SampleStore
from store.schema import store_path

__all__ = ["SampleReader", "SampleStore", "StoreBodyError", "StoreError", "StoreUnavailableError", "store_path"]
