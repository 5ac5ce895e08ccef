"""The whole configuration file: one for all services, each reads its section."""

from config.labeler import LabelerConfig
from config.model import Section
from config.ownership import OwnershipConfig
from config.proxy import ProxyConfig
from config.signer import SignerConfig
from config.tenants import DynamicTenantsConfig, TenantConfig


class Settings(Section):
    """Everything that is configured. A section that is not in the file has its defaults."""

    proxy: ProxyConfig = ProxyConfig()
    """The proxy."""

    tenants: tuple[TenantConfig, ...] = ()
    """Declared tenants, in order of precedence. Default: none."""

    dynamic_tenants: DynamicTenantsConfig | None = None
    """Tenants as data. Default: none are made."""

    ownership: OwnershipConfig = OwnershipConfig()
    """Who owns which GPU."""

    labeler: LabelerConfig = LabelerConfig()
    """The labeler of a node."""

    signer: SignerConfig = SignerConfig()
    """The signer."""
