"""What only several settings together show to be wrong. Pure: one function for each subject, all of them always run."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final

from config.durations import cut, format_duration
from config.problems import Fault, Place
from config.proxy import SenderConfig
from config.settings import Settings
from config.tenants import EndpointConfig

_CREDENTIALS: Final = ("bearer_token_file", "basic_auth", "client_cert_subject")


def faults(settings: Settings) -> Iterator[Fault]:
    """Everything that is wrong between settings which are right each by itself."""
    for check in _CHECKS:
        yield from check(settings)


def _twice(values: Iterable[tuple[Place, Hashable]], sentence: str) -> Iterator[Fault]:
    """A fault for each value after its first occurrence; `{0}` in the sentence is the value."""
    seen: dict[Hashable, Place] = {}
    for place, value in values:
        first = seen.setdefault(value, place)
        if first != place:
            yield Fault(place, sentence.format(value), reads=(first,))


def _listening(settings: Settings) -> Iterator[Fault]:
    proxy, signer = settings.proxy, settings.signer
    if proxy.workers != 1:
        yield Fault(("proxy", "workers"), "must be 1, until order and books are kept over several processes")
    if not proxy.senders and not proxy.listen.is_loopback:
        yield Fault(
            ("proxy", "senders"),
            f"nobody is listed, and other machines can reach {proxy.listen}; list the senders, or listen on 127.0.0.1",
            reads=(("proxy", "senders"),),
        )
    if signer.auth == "none" and not signer.listen.is_loopback:
        yield Fault(
            ("signer", "auth"),
            f"must not be none, as other machines can reach {signer.listen}; use token-review, or listen on 127.0.0.1",
            reads=(("signer", "auth"),),
        )


def _senders(settings: Settings) -> Iterator[Fault]:
    senders = list(enumerate(settings.proxy.senders))
    for i, sender in senders:
        given = _credentials(sender)
        if len(given) != 1:
            yield Fault(
                ("proxy", "senders", i),
                f"needs exactly one of {', '.join(_CREDENTIALS)}; it has {' and '.join(given) or 'none'}",
                reads=tuple(("proxy", "senders", i, name) for name in _CREDENTIALS),
            )
        if sender.client_cert_subject is not None:
            yield Fault(
                ("proxy", "senders", i, "client_cert_subject"),
                "is not built yet; use bearer_token_file or basic_auth",
            )
    yield from _twice(
        ((("proxy", "senders", i, "name"), sender.name) for i, sender in senders),
        '"{0}" is the name of two senders; metrics could not tell them apart',
    )
    yield from _twice(
        (
            (("proxy", "senders", i, "bearer_token_file"), sender.bearer_token_file)
            for i, sender in senders
            if sender.bearer_token_file
        ),
        "{0} is the token of two senders; they could not be told apart",
    )
    yield from _twice(
        (
            (("proxy", "senders", i, "basic_auth", "username"), sender.basic_auth.username)
            for i, sender in senders
            if sender.basic_auth
        ),
        '"{0}" is the user name of two senders; they could not be told apart',
    )


def _credentials(sender: SenderConfig) -> list[str]:
    return [name for name in _CREDENTIALS if getattr(sender, name) is not None]


def _named_tenants(settings: Settings) -> Iterator[Fault]:
    """Settings that name a tenant name a declared one."""
    declared = {tenant.id for tenant in settings.tenants}
    ids = tuple(("tenants", i, "id") for i in range(len(settings.tenants) or 1))
    named = {"idle_tenant": settings.proxy.idle_tenant, "unowned": settings.proxy.unowned_tenant}
    for key, tenant_id in named.items():
        if tenant_id is not None and tenant_id not in declared:
            sentence = f"{cut(tenant_id)} is no tenant of this file; declare it under tenants"
            yield Fault(("proxy", key), sentence, reads=ids if tenant_id else (), sought=tenant_id)


def _tenants(settings: Settings) -> Iterator[Fault]:
    tenants = list(enumerate(settings.tenants))
    yield from _twice(
        ((("tenants", i, "id"), tenant.id) for i, tenant in tenants),
        '"{0}" is the id of two tenants; join them, or rename one',
    )
    yield from _twice(
        (
            (("tenants", i, "namespaces", j), namespace)
            for i, tenant in tenants
            for j, namespace in enumerate(tenant.namespaces)
        ),
        '"{0}" is listed twice; a namespace has one tenant',
    )
    for i, tenant in tenants:
        if tenant.view == "owned" and not tenant.namespaces and tenant.namespace_selector is None:
            sentence = "owned shows nothing without namespaces; list them, or use joined"
            reads = ("tenants", i, "namespaces"), ("tenants", i, "namespace_selector")
            yield Fault(("tenants", i, "view"), sentence, reads)
        if tenant.namespace_selector is not None:
            yield Fault(("tenants", i, "namespace_selector"), "comes with the labeler; list the namespaces")
        yield from _endpoint(tenant.endpoint, ("tenants", i, "endpoint"))


def _dynamic_tenants(settings: Settings) -> Iterator[Fault]:
    dynamic = settings.dynamic_tenants
    if dynamic is None:
        return
    if dynamic.id_from != "namespace":
        yield Fault(("dynamic_tenants", "id_from"), "namespace labels come with the labeler; use namespace")
    if dynamic.endpoint.org_id is not None:
        yield Fault(
            ("dynamic_tenants", "endpoint", "org_id"),
            "would be the same for all of them; remove it, and each has its own id",
        )
    yield from _endpoint(dynamic.endpoint, ("dynamic_tenants", "endpoint"))


def _endpoint(endpoint: EndpointConfig, place: Place) -> Iterator[Fault]:
    if endpoint.embedded:
        beside = [key for key in EndpointConfig.model_fields if key != "embedded" and _is_set(endpoint, key)]
        if beside:
            yield Fault((*place, "embedded"), f"needs nothing else; remove {', '.join(beside)}, or embedded")
        return
    if endpoint.url is None:
        reads = (*place, "url"), (*place, "embedded")
        yield Fault(place, "needs a url, or embedded: true", reads)
    if endpoint.basic_auth is not None and endpoint.bearer_token_file is not None:
        yield Fault((*place, "bearer_token_file"), "cannot stand beside basic_auth; keep one of them")
    if endpoint.remote_write != 1:
        yield Fault((*place, "remote_write"), f"{endpoint.remote_write} is not built yet; use 1")
    if (endpoint.tls.cert_file is None) is not (endpoint.tls.key_file is None):
        reads = (*place, "tls", "cert_file"), (*place, "tls", "key_file")
        yield Fault((*place, "tls"), "needs cert_file and key_file together, or neither", reads)
    if _is_set(endpoint, "tls") and endpoint.url is not None and not endpoint.url.startswith("https:"):
        yield Fault((*place, "tls"), "has no effect on an http url; write https, or remove it")


def _is_set(endpoint: EndpointConfig, key: str) -> bool:
    return bool(getattr(endpoint, key) != EndpointConfig.model_fields[key].get_default(call_default_factory=True))


def _ownership(settings: Settings) -> Iterator[Fault]:
    ownership = settings.ownership
    if ownership.labelers:
        yield Fault(("ownership", "labelers"), "comes with the labeler; use files")
    if ownership.kubernetes.service is not None:
        yield Fault(("ownership", "kubernetes", "service"), "comes with the labeler; use files")
    if ownership.history < ownership.max_age:
        yield Fault(
            ("ownership", "history"),
            f"must not be shorter than max_age, which is {format_duration(ownership.max_age)}",
            reads=(("ownership", "max_age"),),
        )


def _delivery(settings: Settings) -> Iterator[Fault]:
    delivery = settings.proxy.delivery
    if delivery.park_after >= delivery.timeout:
        yield Fault(
            ("proxy", "delivery", "park_after"),
            f"must be shorter than timeout, which is {format_duration(delivery.timeout)}",
            reads=(("proxy", "delivery", "timeout"),),
        )


def _tls_in_front(settings: Settings) -> Iterator[Fault]:
    for key in ("cert_file", "key_file", "client_ca_file"):
        if getattr(settings.proxy.tls, key) is not None:
            yield Fault(("proxy", "tls", key), "is not built yet; leave it empty, and put a TLS proxy in front")


_CHECKS: Final[tuple[Callable[[Settings], Iterable[Fault]], ...]] = (
    _listening,
    _tls_in_front,
    _senders,
    _named_tenants,
    _delivery,
    _tenants,
    _dynamic_tenants,
    _ownership,
)
