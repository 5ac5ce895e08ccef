"""The settings as `/-/config` shows them: effective values in the file's own notation, with nothing secret in them."""

from typing import Any

from config.headers import HIDDEN
from config.settings import Settings


def redacted(settings: Settings) -> dict[str, Any]:
    """All settings, defaults included, ready for JSON. Paths of secrets are shown.

    Header values and URLs' queries are hidden; a URL with credentials is none that `config.load` lets in.
    """
    shown: dict[str, Any] = settings.model_dump(mode="json", by_alias=True)
    return {key: _hide(value) for key, value in shown.items()}


def _hide(value: Any) -> Any:
    match value:
        case dict():
            return {key: _hide(inner) for key, inner in value.items()}
        case list():
            return [_hide(inner) for inner in value]
        case str() if "://" in value and "?" in value:
            return f"{value.partition('?')[0]}?{HIDDEN}"
    return value
