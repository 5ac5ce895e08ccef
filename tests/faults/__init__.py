"""Faults of stores, disks and of the proxy's own process, with an exact ledger of what was acknowledged."""
