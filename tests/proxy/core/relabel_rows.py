"""What the tests of relabelling share: rules as written, and the tables in tests/vectors/relabel."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

VECTORS = Path(__file__).parents[2] / "vectors" / "relabel"


@dataclass(frozen=True)
class Written:
    """A rule as written; what is left out is absent."""

    source_labels: tuple[str, ...] | None = None
    separator: str | None = None
    regex: str | None = None
    modulus: int | None = None
    target_label: str | None = None
    replacement: str | None = None
    action: str | None = None


@dataclass(frozen=True)
class Row:
    """Labels, the rules that they pass, and the labels after; None for a dropped series."""

    name: str
    before: Mapping[str, str]
    after: Mapping[str, str] | None
    rules: tuple[Written, ...]


def written(fields: Mapping[str, Any]) -> Written:
    """A rule from its fields as YAML has them."""
    sources = fields.get("source_labels")
    return Written(**{**fields, "source_labels": None if sources is None else tuple(sources)})


def action_rows(name: str) -> tuple[Row, ...]:
    """The rows of one file in tests/vectors/relabel/actions."""
    rows = yaml.safe_load((VECTORS / "actions" / f"{name}.yaml").read_text(encoding="utf-8"))
    return tuple(
        Row(
            name=row["name"],
            before=row["before"],
            after=None if row["after"] == "dropped" else row["after"],
            rules=tuple(written(rule) for rule in row["rules"]),
        )
        for row in rows
    )
