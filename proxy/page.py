"""`GET /`: a plain table of owners and tenants, without a script, readable as it is."""

from collections.abc import Sequence
from html import escape
from typing import Final

from proxy.core.owners import OwnersQuery, OwnerView

_STYLE: Final = """
:root { color-scheme: light dark; font: 14px/1.45 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 100rem; padding: 0 1rem; }
h1 { font-size: 1.35rem; margin: 0 0 .25rem; }
p { margin: .25rem 0 1rem; opacity: .75; }
table { border-collapse: collapse; width: 100%; }
th, td { white-space: nowrap; text-align: left; padding: .4rem .7rem; border-bottom: 1px solid #8884; }
th { font-weight: 600; }
td.mono { font-family: ui-monospace, monospace; font-size: .9em; }
tr.idle td, tr.unknown td { opacity: .65; }
form { margin: 0 0 1rem; }
input { font: inherit; padding: .2rem .4rem; }
"""

_COLUMNS: Final = ("Node", "GPU", "Model", "Tenant", "Namespace", "Pod", "Controller", "Since (UTC)")
_NOBODY: Final = {"idle": "idle", "unknown": "unknown", "unattributed": "no pod's"}


def owners_page(views: Sequence[OwnerView], query: OwnersQuery) -> str:
    """The page for the answer to a query; every value is escaped."""
    rows = "\n".join(_row(view) for view in views)
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    empty = (
        ""
        if views
        else f'<tr><td colspan="{len(_COLUMNS)}">No device is known; see ownership in the configuration.</td></tr>'
    )
    when = escape(query.at or "")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Whose GPUs are these, anyway?</title><style>{_STYLE}</style></head>
<body><h1>Whose GPUs are these, anyway?</h1>
<p>{len({(view.uuid, view.gpu_instance_id) for view in views})} devices, {"at " + when if when else "now"}</p>
<form><label>At <input name="at" value="{when}" placeholder="2026-01-01T12:00:00Z" size="24"></label>
<button>Show</button></form>
<table><thead><tr>{head}</tr></thead><tbody>
{rows}{empty}
</tbody></table></body></html>
"""


def _short(time: str | None) -> str:
    """A time of RFC 3339 to the second, as people read it; all of it stands in the cell's title."""
    return "" if time is None else time.partition(".")[0].replace("T", " ")


def _row(view: OwnerView) -> str:
    instance = f" / {view.gpu_instance_id}" if view.gpu_instance_id else ""
    controller = " ".join(part for part in (view.controller_kind, view.controller_name) if part)
    tenant = view.tenant or _NOBODY.get(view.state, "nobody's namespace")
    cells = (
        ("", view.node),
        (' class="mono"', f"{view.uuid}{instance}"),
        ("", view.model or ""),
        (f' title="{escape(view.reason)}"', tenant),
        ("", view.namespace or ""),
        (' class="mono"', view.pod or ""),
        ("", controller),
        (f' title="{escape(view.since or "")}"', _short(view.since)),
    )
    inside = "".join(f"<td{attributes}>{escape(text)}</td>" for attributes, text in cells)
    return f'<tr class="{view.state}">{inside}</tr>'
