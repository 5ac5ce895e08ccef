"""pydantic's findings as sentences that say what to do."""

import difflib
from collections.abc import Callable
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from config.durations import cut
from config.problems import Place
from config.relabel import RelabelConfig
from config.settings import Settings

_MERGE: Final = "<<"

_KNOWN_ELSEWHERE: Final = {
    _MERGE: "YAML's merge key is not supported; let an alias stand for a whole value, or write the settings out",
    "bearer_token": "secrets do not stand here; put the token into a file and name it under bearer_token_file",
    "password": "secrets do not stand here; put the password into a file and name it under password_file",
    "tls_config": "tls_config is Prometheus' name; here it is tls",
}

_MEANT: Final = {"bearer_token": "bearer_token_file", "password": "password_file", "tls_config": "tls"}

_VICTORIA_METRICS: Final = {
    "if": "is VictoriaMetrics' own; write the condition as source_labels and regex",
    "labels": "is VictoriaMetrics' own; write one rule for each label",
    "match": "is VictoriaMetrics' own; write the condition as source_labels and regex",
}


def sentence(error: ErrorDetails) -> str:
    """What is wrong with one value, as the end of a sentence that starts with its place."""
    return _SENTENCES.get(error["type"], _pydantic)(error)


def _pydantic(error: ErrorDetails) -> str:
    return error["msg"][:1].lower() + error["msg"][1:]


def _must_be(what: str) -> Callable[[ErrorDetails], str]:
    return lambda error: f"must be {what}, not {_shown(error['input'])}"


def _shown(given: object) -> str:
    match given:
        case None:
            return "an empty value"
        case dict():
            return "a section"
        case list() | tuple():
            return "a list"
    return cut(str(given))


def could_be_meant(place: Place) -> list[str]:
    """The settings that an unknown key may have been meant as; none where it is like no other."""
    key, section = str(place[-1]), _section_around(place)
    if key == _MERGE:
        return _known(section)
    near = _MEANT.get(key) or _nearest(key, section)
    return [near] if near else []


def _unknown_key(error: ErrorDetails) -> str:
    key = str(error["loc"][-1])
    section = _section_around(error["loc"])
    elsewhere = _KNOWN_ELSEWHERE | (_VICTORIA_METRICS if section is RelabelConfig else {})
    if key in elsewhere:
        return elsewhere[key]
    near = _nearest(key, section)
    return f"is no setting; {near} is" if near else f"is no setting; those here are {', '.join(_known(section))}"


def _known(section: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in section.model_fields.items()]


def _nearest(key: str, section: type[BaseModel]) -> str | None:
    return next(iter(difflib.get_close_matches(key[:100], _known(section), n=1)), None)


def _section_around(place: Place) -> type[BaseModel]:
    section: type[BaseModel] = Settings
    for step in place[:-1]:
        field = next((f for name, f in section.model_fields.items() if step in {name, f.alias}), None)
        section = (_section_in(field.annotation) if field else None) or section
    return section


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """The one section that a type consists of: itself, or what a list or an optional value is of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_section_in, get_args(annotation))), None)


def _context(template: str) -> Callable[[ErrorDetails], str]:
    return lambda error: template.format(**error.get("ctx", {}))


_SENTENCES: Final[dict[str, Callable[[ErrorDetails], str]]] = {
    "extra_forbidden": _unknown_key,
    "missing": lambda _: "is required",
    "value_error": _context("{error}"),
    "literal_error": lambda error: f"must be {error['ctx']['expected']}, not {_shown(error['input'])}".replace("'", ""),
    "greater_than": _context("must be more than {gt}"),
    "greater_than_equal": _context("must be at least {ge}"),
    "less_than": _context("must be less than {lt}"),
    "less_than_equal": _context("must be at most {le}"),
    **dict.fromkeys(("string_type", "path_type"), _must_be("text")),
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), _must_be("a whole number")),
    **dict.fromkeys(("bool_type", "bool_parsing"), _must_be("true or false")),
    **dict.fromkeys(("float_type", "float_parsing"), _must_be("a number")),
    **dict.fromkeys(
        ("decimal_type", "decimal_parsing", "decimal_max_digits", "decimal_max_places", "finite_number"),
        _must_be("a number with up to nine decimal places"),
    ),
    **dict.fromkeys(("tuple_type", "list_type"), _must_be("a list")),
    **dict.fromkeys(
        ("model_type", "model_attributes_type", "dict_type", "mapping_type"),
        _must_be("a section of `key: value` lines"),
    ),
}
