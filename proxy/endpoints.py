"""Endpoints and senders as they are used: secrets read from their files, certificates loaded, heads of requests built.

Read as a whole when a configuration is taken, so that a missing password file refuses the configuration and never a
sample. Each problem is told under its place in the file.
"""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from config.problems import ConfigError
from config.proxy import SenderConfig
from config.secrets import read_secret
from config.settings import Settings
from config.tenants import EndpointConfig
from config.tls import ClientTls
from proxy.core.senders import Sender, Senders, anonymous
from proxy.core.tenancy import Trust
from proxy.target import Credentials, TargetError, UpstreamTarget, target

Where = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class EndpointProblem:
    """An endpoint or sender that cannot be used, and where it stands in the configuration."""

    path: Where
    sentence: str


@dataclass(frozen=True, slots=True)
class Embedded:
    """A tenant whose samples are kept in a file of this proxy."""


Target = UpstreamTarget | Embedded


def _version() -> str:
    try:
        return version("whosegpu")
    except PackageNotFoundError:
        return "0"


USER_AGENT: Final = f"whosegpu/{_version()}"


Contexts = dict[ClientTls, ssl.SSLContext]
"""One context for all endpoints with the same certificates: each takes about a megabyte and 30 ms to make."""


@dataclass(frozen=True, slots=True)
class Access:
    """What of an endpoint is read from files: read with the configuration, and used for each tenant that shares it."""

    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None


def read_access(endpoint: EndpointConfig, contexts: Contexts) -> Access:
    """The secrets and certificates of an endpoint. Raises TargetError, or ConfigError for a secret out of reach."""
    if endpoint.embedded or endpoint.url is None:
        return Access()
    if not endpoint.url.lower().startswith("https:"):
        return Access(_credentials(endpoint))
    tls = contexts.get(endpoint.tls) or contexts.setdefault(endpoint.tls, _context(endpoint.tls))
    return Access(_credentials(endpoint), tls)


def make_target(endpoint: EndpointConfig, access: Access, timeout_seconds: float) -> Target:
    """An endpoint made ready; raises TargetError."""
    if endpoint.embedded or endpoint.url is None:
        return Embedded()
    headers = [
        ("User-Agent", USER_AGENT),
        ("Content-Type", "application/x-protobuf"),
        ("Content-Encoding", "snappy"),
        ("X-Prometheus-Remote-Write-Version", "0.1.0"),
        ("X-Scope-OrgID", endpoint.org_id or ""),
        *endpoint.headers.items(),
    ]
    return target(endpoint.url, headers, access.credentials, access.tls, timeout_seconds)


@dataclass(frozen=True, slots=True)
class Targets:
    """Where each declared tenant's series go, and what the tenants made from data share."""

    declared: dict[str, Target]
    dynamic: Access


def read_targets(settings: Settings, problems: list[EndpointProblem]) -> Targets:
    """The targets of all tenants; what cannot be used is added to `problems`."""
    timeout_seconds = settings.proxy.delivery.timeout / 1000
    targets: dict[str, Target] = {}
    dynamic = Access()
    contexts: Contexts = {}
    places: Iterable[tuple[str, EndpointConfig, Where]] = (
        (tenant.id, tenant.endpoint, ("tenants", index, "endpoint")) for index, tenant in enumerate(settings.tenants)
    )
    for tenant_id, endpoint, where in places:
        try:
            targets[tenant_id] = make_target(endpoint, read_access(endpoint, contexts), timeout_seconds)
        except (TargetError, ConfigError) as error:
            problems.append(EndpointProblem(where, str(error)))
    if settings.dynamic_tenants is not None:
        endpoint = settings.dynamic_tenants.endpoint_of("any")
        try:
            dynamic = read_access(endpoint, contexts)
            make_target(endpoint, dynamic, timeout_seconds)
        except (TargetError, ConfigError) as error:
            problems.append(EndpointProblem(("dynamic_tenants", "endpoint"), str(error)))
    return Targets(targets, dynamic)


def read_senders(settings: Settings, problems: list[EndpointProblem]) -> Senders:
    """All senders with their secrets; what cannot be used is added to `problems`."""
    default_jobs = settings.ownership.trusted_jobs
    senders: list[Sender] = []
    for index, written in enumerate(settings.proxy.senders):
        try:
            scheme, secret = _secret(written)
        except ConfigError as error:
            problems.append(EndpointProblem(("proxy", "senders", index), str(error)))
            continue
        jobs = default_jobs if written.trusted_jobs is None else written.trusted_jobs
        trust = Trust(frozenset(jobs), written.trust_namespace_label)
        if any(other.scheme == scheme and other.secret == secret for other in senders):
            problems.append(EndpointProblem(("proxy", "senders", index), "another sender has the same credentials"))
        senders.append(Sender(written.name, scheme, secret, trust, written.admin))
    return Senders(tuple(senders), anonymous(default_jobs))


def _secret(sender: SenderConfig) -> tuple[str, bytes]:
    if sender.basic_auth is not None:
        password = read_secret(Path(sender.basic_auth.password_file))
        return "basic", f"{sender.basic_auth.username}:{password}".encode()
    return "bearer", read_secret(Path(sender.bearer_token_file or "")).encode()


def _credentials(endpoint: EndpointConfig) -> Credentials | None:
    if endpoint.basic_auth is not None:
        return Credentials.basic(endpoint.basic_auth.username, read_secret(Path(endpoint.basic_auth.password_file)))
    if endpoint.bearer_token_file is not None:
        return Credentials.bearer(read_secret(Path(endpoint.bearer_token_file)))
    return None


def _context(written: ClientTls) -> ssl.SSLContext:
    """Raises TargetError where a certificate cannot be loaded."""
    try:
        context = ssl.create_default_context(cafile=written.ca_file)
        if written.cert_file is not None:
            context.load_cert_chain(written.cert_file, written.key_file)
    except (OSError, ssl.SSLError) as error:
        raise TargetError(f"tls: a certificate or key cannot be loaded: {error}") from error
    if written.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
