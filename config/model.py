"""What all sections have in common: they are frozen, unknown keys are errors, and a value left empty is its default."""

from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, model_validator


class Frozen(BaseModel):
    """A mapping of the configuration file: unknown keys are errors, and nothing changes once it is read."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True)


class Section(Frozen):
    """A mapping in which an empty value means "not set": the default, or None where None is allowed."""

    @model_validator(mode="before")
    @classmethod
    def _empty_is_not_set(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        optional = _optional_fields(cls)
        not_set = {
            key
            for key, value in given.items()
            if (value is None and key in cls.model_fields) or (value == "" and key in optional)
        }
        return {key: value for key, value in given.items() if key not in not_set} | dict.fromkeys(not_set & optional)


@cache
def _optional_fields(section: type[Section]) -> frozenset[str]:
    return frozenset(name for name, field in section.model_fields.items() if type(None) in get_args(field.annotation))
