"""The ids of tenants that were made from data, in a file: what is queued for one goes out before it is made again.

A declared tenant that was taken out of the configuration is not among them: its queue waits, though tenants are made
from data by now. One line for each id, appended and not synced: a machine that crashes forgets the last ones, whose
queues then wait until an owner of theirs is seen.
"""

from pathlib import Path
from typing import Final

import structlog

from config.tenant_id import tenant_id_fault

_log: Final = structlog.get_logger()

_NAME: Final = "made_tenants"


class MadeTenants:
    """The ids of one data folder. Raises OSError where they cannot be read."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        self._ids = {line for line in lines if tenant_id_fault(line) is None}

    def __contains__(self, tenant_id: object) -> bool:
        """Whether a tenant of that id was ever made from data."""
        return tenant_id in self._ids

    def note(self, tenant_id: str) -> None:
        """Remember one. A disk that fails costs the memory of it, and nothing else."""
        if tenant_id in self._ids:
            return
        self._ids.add(tenant_id)
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"\n{tenant_id}\n")  # a line of its own, also behind one that a crash cut
        except OSError as error:
            _log.warning("made tenant not noted", tenant=tenant_id, error=str(error))
