"""Tenants: which series are whose, under which rules, and where each tenant's series are sent."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from config.addresses import FilePath, Text, Url
from config.durations import cut
from config.headers import Headers
from config.model import Section
from config.relabel import RelabelConfig
from config.tenant_id import tenant_id_fault
from config.tls import ClientTls, OptionalBasicAuth


def _good_id(text: str) -> str:
    fault = tenant_id_fault(text)
    if fault:
        raise ValueError(fault)
    return text


def _id_source(text: str) -> str:
    if text != "namespace" and not text.startswith("namespace_label:"):
        message = f"must be namespace or namespace_label:<key>, not {cut(text)}"
        raise ValueError(message)
    return text


IdSource = Annotated[str, AfterValidator(_id_source)]
TenantId = Annotated[str, AfterValidator(_good_id)]
View = Literal["owned", "joined", "raw"]


class EndpointConfig(Section):
    """Where a tenant's series are sent: a store's `url`, or `embedded: true` and nothing else."""

    url: Url | None = None
    """The store's remote-write URL, used as it is. A wrong path is answered 404 by most stores, and the parts are then
    lost."""

    embedded: bool = False
    """Keep the samples in a file below `proxy.data_dir` instead: for one node, a lab or a trial."""

    org_id: TenantId | None = None
    """X-Scope-OrgID, the store's name of the tenant. Default: the tenant's id."""

    headers: Headers = Field(default_factory=dict)
    """Further headers of each request. Not for secrets, and not for what the protocol or another setting says."""

    basic_auth: OptionalBasicAuth = None
    """User name and password for the store. Default: none."""

    bearer_token_file: FilePath | None = None
    """A file with a token for the store. Default: none."""

    tls: ClientTls = ClientTls()
    """TLS towards the store."""

    remote_write: Annotated[int, Field(ge=1, le=2)] = 1
    """Version of the protocol that the store is sent. Default 1."""

    refusal: Literal["partial", "whole"] = "partial"
    """What the store's 400 means. `partial`: the good series are in (Mimir, Cortex, any store with 2.0). `whole`:
    nothing is in (Prometheus with 1.0); with the wrong one good samples are lost, or sent twice."""


class NamespaceSelector(Section):
    """Chooses namespaces by their labels."""

    match_labels: dict[str, str] = Field(alias="matchLabels", default_factory=dict)
    """All of these labels must be there, as in Kubernetes."""


class TenantConfig(Section):
    """One tenant. The first in the file comes first where several claim a sample."""

    id: TenantId
    """Name of the tenant everywhere: metrics, files, X-Scope-OrgID. A new name is a new tenant with new queues."""

    namespaces: tuple[Text, ...] = ()
    """Owners in these namespaces are this tenant's. A namespace has one tenant. Default: none."""

    namespace_selector: NamespaceSelector | None = None
    """Further namespaces, by their labels."""

    view: View = "joined"
    """`owned`: its own parts only. `joined`: everything, with owners' labels. `raw`: everything as sent. Default:
    owned with namespaces, joined without. `joined` and `raw` show other tenants' series to whoever reads the store."""

    endpoint: EndpointConfig
    """Where its series are sent."""

    write_relabel_configs: tuple[RelabelConfig, ...] = ()
    """Prometheus' relabel rules, applied after the view to each of its series. Default: none, everything is kept."""

    @model_validator(mode="before")
    @classmethod
    def _view_by_namespaces(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("view") is not None:
            return given
        return given | {"view": "owned" if given.get("namespaces") else "joined"}

    @model_validator(mode="after")
    def _name_at_the_store(self) -> Self:
        object.__setattr__(self, "endpoint", _with_org_id(self.endpoint, self.id))
        return self


class DynamicTenantsConfig(Section):
    """Tenants as data: one is made for each owner's namespace that no tenant above has, its id validated."""

    id_from: IdSource = "namespace"
    """Where the id comes from: `namespace`, or `namespace_label:<key>`. Default: namespace."""

    endpoint: EndpointConfig
    """Where they are all sent, each under its own X-Scope-OrgID."""

    write_relabel_configs: tuple[RelabelConfig, ...] = ()
    """Relabel rules that all of them share. Default: none."""

    def endpoint_of(self, tenant_id: str) -> EndpointConfig:
        """The endpoint of one of them, under its own name at the store."""
        return _with_org_id(self.endpoint, tenant_id)


def _with_org_id(endpoint: EndpointConfig, tenant_id: str) -> EndpointConfig:
    if endpoint.embedded or endpoint.org_id is not None:
        return endpoint
    return endpoint.model_copy(update={"org_id": tenant_id})
