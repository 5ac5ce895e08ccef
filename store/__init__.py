"""Embedded storage: one SQLite file for each tenant, written by the proxy, readable by others while it writes."""
