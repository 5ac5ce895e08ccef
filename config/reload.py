"""What a running process cannot change: a reload that would is refused, by name."""

from collections.abc import Iterator
from typing import Final, Literal

from config.problems import Place
from config.settings import Settings

Service = Literal["proxy", "labeler", "signer"]

_FIXED: Final[dict[Service, tuple[str, ...]]] = {
    "proxy": ("listen", "data_dir", "workers"),
    "labeler": ("listen", "data_dir"),
    "signer": ("listen", "data_dir"),
}


def needs_restart(service: Service, old: Settings, new: Settings) -> Iterator[tuple[Place, str]]:
    """Each setting of a service that differs and cannot, with the end of a sentence that starts with it."""
    for key in _FIXED[service]:
        before, after = (getattr(getattr(settings, service), key) for settings in (old, new))
        if before != after:
            yield (service, key), f"cannot change from {before} to {after} while it runs; restart it instead"
