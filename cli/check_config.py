"""`whosegpu check-config`: every problem with its line, or what the configuration sets up."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding

from cli.errors import unusable
from cli.terminal import columns, console, print_json
from cli.text import printable
from config.problems import ConfigError
from config.settings import Settings
from config.tenants import EndpointConfig, TenantConfig
from proxy.configured import configure


def check(file: Path, *, as_json: bool) -> int:
    """Print the verdict; the exit status. Raises CommandError with every problem, unless it is printed as JSON."""
    try:
        settings = configure(file).settings
    except ConfigError as error:
        if not as_json:
            raise unusable(error) from error
        print_json({"good": False, "problems": [problem(each) for each in error.problems]})
        return 1
    if as_json:
        print_json({"good": True, "problems": [], **summary(settings)})
    else:
        show(settings, file, console())
    return 0


def problem(found: Any) -> dict[str, Any]:
    """One problem as plain values."""
    return {"source": found.source, "line": found.line, "where": found.where, "sentence": found.sentence}


def summary(settings: Settings) -> dict[str, Any]:
    """What is set up, as plain values."""
    return {
        "listen": str(settings.proxy.listen),
        "senders": [sender.name for sender in settings.proxy.senders],
        "tenants": [_tenant(tenant) for tenant in settings.tenants],
        "dynamic_tenants": settings.dynamic_tenants is not None,
        "ownership": [str(source) for source in (*settings.ownership.files, *settings.ownership.labelers)],
    }


def show(settings: Settings, file: Path, out: Console) -> None:
    """Print what is set up."""
    found = summary(settings)
    out.print(f"{printable(str(file))}: good", style="bold green")
    facts = columns("", "")
    facts.show_header = False
    facts.add_row("  listen", found["listen"])
    facts.add_row("  senders", printable(", ".join(found["senders"])) or "whoever is on this machine")
    facts.add_row(
        "  ownership", "\n".join(map(printable, found["ownership"])) or "no source: no series is a device series"
    )
    out.print(facts)
    tenants = columns("tenant", "view", "namespaces", ">rules", "endpoint")
    for tenant in found["tenants"]:
        tenants.add_row(
            tenant["id"],
            tenant["view"],
            printable(", ".join(tenant["namespaces"])),
            str(tenant["rules"]),
            printable(tenant["endpoint"]),
        )
    if settings.dynamic_tenants is not None:
        dynamic = settings.dynamic_tenants
        rules = str(len(dynamic.write_relabel_configs))
        tenants.add_row("(dynamic)", "owned", "each other one", rules, printable(_endpoint(dynamic.endpoint)))
    if tenants.row_count:
        out.print()
        out.print(Padding(tenants, (0, 0, 0, 2)))


def _tenant(tenant: TenantConfig) -> dict[str, Any]:
    return {
        "id": tenant.id,
        "view": tenant.view,
        "namespaces": list(tenant.namespaces),
        "rules": len(tenant.write_relabel_configs),
        "endpoint": _endpoint(tenant.endpoint),
    }


def _endpoint(endpoint: EndpointConfig) -> str:
    return "embedded" if endpoint.embedded else str(endpoint.url).partition("?")[0]
