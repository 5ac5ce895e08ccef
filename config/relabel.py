"""Relabel rules as written: Prometheus' own keys. What they mean is decided where they are compiled."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from config.model import Frozen

_ZERO: dict[str, Any] = {"source_labels": (), "modulus": 0}


class RelabelConfig(Frozen):
    """One entry of `write_relabel_configs`. None is "not written", which differs from written and empty.

    An empty value is the type's zero value and not the default, as in Prometheus: `regex:` matches nothing but the
    empty string.
    """

    source_labels: tuple[str, ...] | None = None
    """Labels whose values are joined and matched. Prometheus' default: none."""

    separator: str | None = None
    """Stands between the joined values. Prometheus' default: `;`."""

    regex: str | None = None
    """RE2, matched against the whole joined value (labelmap, labeldrop, labelkeep: each label name). Default:
    `(.*)`."""

    modulus: Annotated[int, Field(ge=0, le=2**64 - 1)] | None = None
    """For hashmod: the number of buckets."""

    target_label: str | None = None
    """The label that replace, hashmod, lowercase and uppercase write; keepequal and dropequal compare with it."""

    replacement: str | None = None
    """What replace and labelmap write; `$1` is the first group. Prometheus' default: `$1`."""

    action: str = "replace"
    """One of Prometheus' eleven actions, in any case. Default: replace."""

    @model_validator(mode="before")
    @classmethod
    def _empty_is_zero(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {key: _ZERO.get(key, "") if value is None else value for key, value in given.items()}
