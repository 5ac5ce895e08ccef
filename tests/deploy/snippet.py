"""deploy/prometheus/remote_write.yaml, as the tests look at it."""

from typing import Any

import yaml

from tests.deploy.dockerfile import ROOT

FILE = ROOT / "deploy/prometheus/remote_write.yaml"


def snippet() -> dict[str, Any]:
    """The whole configuration."""
    found: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def remote_write() -> dict[str, Any]:
    """Its one remote_write."""
    (found,) = snippet()["remote_write"]
    return dict(found)
