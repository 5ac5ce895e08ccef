"""Which tenant ids every store takes. A store answers a bad one with 500 for ever, so a bad one is refused here.

Source: Mimir's and Cortex' tenant ids (dskit, tenant/tenant.go), without two characters that some of them take: `|`
joins tenants in reads, and newer stores cut an id at `:`, so that `team-a:x` would write into team-a.
"""

from typing import Final

from config.durations import cut

_CHARACTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!-_.*'()")
_LONGEST: Final = 150
_RESERVED: Final = frozenset({".", "..", "__mimir_cluster"})


def tenant_id_fault(tenant_id: str) -> str | None:
    """What is wrong with a tenant id, as the end of a sentence that starts with its place; None for a good one."""
    if not tenant_id:
        return "must not be empty"
    if len(tenant_id) > _LONGEST:
        return f"{cut(tenant_id)} has {len(tenant_id)} characters; no store takes more than {_LONGEST}"
    if tenant_id in _RESERVED:
        return f"{cut(tenant_id)} is a name that stores keep for themselves; use another"
    if not _CHARACTERS.issuperset(tenant_id):
        return f"{cut(tenant_id)} has a character that no store takes; use letters, digits and !-_.*'()"
    return None
