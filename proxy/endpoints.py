"""Endpoints and senders as they are used: secrets read from their files, certificates loaded, heads of requests built.

Read as a whole when a configuration is taken, so that a missing password file refuses the configuration and never a
sample. Each problem is told under its place in the file.
"""

import ssl
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from config.problems import ConfigError, Fault, Place
from config.proxy import SenderConfig
from config.secrets import read_secret
from config.settings import Settings
from config.tenants import EndpointConfig
from config.tls import BasicAuth, ClientTls
from proxy.core.senders import Sender, Senders, anonymous
from proxy.core.tenancy import Trust
from proxy.upstreams.target import Credentials, TargetError, UpstreamTarget, target


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


def read_access(endpoint: EndpointConfig, place: Place, contexts: Contexts, faults: list[Fault]) -> Access:
    """The secrets and certificates of an endpoint; what cannot be used is added to `faults`."""
    if endpoint.embedded:
        return Access()
    credentials = _credentials(endpoint, place, faults)
    if endpoint.url is not None and not endpoint.url.lower().startswith("https:"):
        return Access(credentials)
    return Access(credentials, _context(endpoint.tls, (*place, "tls"), contexts, faults))


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


def read_targets(settings: Settings, faults: list[Fault]) -> Targets:
    """The targets of all tenants; what cannot be used is added to `faults`."""
    timeout_seconds = settings.proxy.delivery.timeout / 1000
    contexts: Contexts = {}

    def read(endpoint: EndpointConfig, place: Place) -> tuple[Access, Target | None]:
        access = read_access(endpoint, place, contexts, faults)
        try:
            return access, make_target(endpoint, access, timeout_seconds)
        except TargetError as error:
            faults.append(Fault(place, str(error)))
            return access, None

    declared: dict[str, Target] = {}
    for index, tenant in enumerate(settings.tenants):
        _, made = read(tenant.endpoint, ("tenants", index, "endpoint"))
        if made is not None:
            declared[tenant.id] = made
    dynamic = Access()
    if settings.dynamic_tenants is not None:
        dynamic, _ = read(settings.dynamic_tenants.endpoint_of("any"), ("dynamic_tenants", "endpoint"))
    return Targets(declared, dynamic)


def read_senders(settings: Settings, faults: list[Fault]) -> Senders:
    """All senders with their secrets; what cannot be used is added to `faults`."""
    default_jobs = settings.ownership.trusted_jobs
    senders: list[Sender] = []
    tokens: dict[str, Path] = {}
    for index, written in enumerate(settings.proxy.senders):
        place = ("proxy", "senders", index)
        scheme, secret = _secret(written, place, faults)
        if secret is None:
            continue
        file = written.bearer_token_file
        if file is not None and tokens.setdefault(secret, file) != file:
            faults.append(Fault((*place, "bearer_token_file"), "has the token of another sender; each needs its own"))
        jobs = default_jobs if written.trusted_jobs is None else written.trusted_jobs
        trust = Trust(frozenset(jobs), written.trust_namespace_label)
        senders.append(Sender(written.name, scheme, secret.encode(), trust, written.admin))
    return Senders(tuple(senders), anonymous(default_jobs))


def _secret(sender: SenderConfig, place: Place, faults: list[Fault]) -> tuple[str, str | None]:
    """The scheme, and what a sender has to show; None where that cannot be read."""
    if sender.basic_auth is None:
        return "bearer", _read(sender.bearer_token_file, (*place, "bearer_token_file"), faults)
    password = _password(sender.basic_auth, place, faults)
    return "basic", None if password is None else f"{sender.basic_auth.username}:{password}"


def _credentials(endpoint: EndpointConfig, place: Place, faults: list[Fault]) -> Credentials | None:
    if endpoint.basic_auth is not None:
        password = _password(endpoint.basic_auth, place, faults)
        return None if password is None else Credentials.basic(endpoint.basic_auth.username, password)
    token = _read(endpoint.bearer_token_file, (*place, "bearer_token_file"), faults)
    return None if token is None else Credentials.bearer(token)


def _password(auth: BasicAuth, place: Place, faults: list[Fault]) -> str | None:
    return _read(auth.password_file, (*place, "basic_auth", "password_file"), faults)


def _read(file: Path | None, place: Place, faults: list[Fault]) -> str | None:
    """The secret in a file; None without a file, and for one that cannot be read, which is added to `faults`."""
    if file is None:
        return None
    try:
        return read_secret(file)
    except ConfigError as error:
        faults.append(Fault(place, str(error)))
        return None


def _context(written: ClientTls, place: Place, contexts: Contexts, faults: list[Fault]) -> ssl.SSLContext | None:
    """The context for some certificates; None where one cannot be loaded, which is added to `faults`."""
    if written in contexts:
        return contexts[written]
    known = len(faults)
    try:
        context = ssl.create_default_context(cafile=written.ca_file)
    except OSError as error:
        faults.append(Fault((*place, "ca_file"), f"{written.ca_file}: cannot be loaded: {error.strerror or error}"))
        context = ssl.create_default_context()
    if written.cert_file is not None and written.key_file is not None:
        try:
            context.load_cert_chain(written.cert_file, written.key_file)
        except OSError as error:
            files = f"{written.cert_file} with the key {written.key_file}"
            faults.append(Fault((*place, "cert_file"), f"{files}: cannot be loaded: {error.strerror or error}"))
    if len(faults) > known:
        return None
    if written.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    contexts[written] = context
    return context
