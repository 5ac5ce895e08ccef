"""What a series is called: a label set, its names, and its text form.

A `LabelSet` is canonical: sorted by name (code points, which is bytewise order of the UTF-8), each name once, no empty
name, no empty value (an empty value means that the label is absent). So two sets are equal exactly when they name the
same series. Rules: Prometheus remote write 1.0, section Labels; text form: exposition format 0.0.4 with quoted UTF-8
names.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal, Self

from proxy.core.errors import DuplicateLabelError, EmptyLabelNameError, InvalidUtf8Error

METRIC_NAME = "__name__"

NameScheme = Literal["utf8", "legacy"]

_LEGACY_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_LEGACY_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class LabelSet:
    """The sorted labels of one series; made by `of`, the constructor trusts its caller."""

    pairs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, labels: Mapping[str, str] | Iterable[tuple[str, str]]) -> Self:
        """The set of these labels in any order, without those whose value is empty.

        Raises `EmptyLabelNameError`, `DuplicateLabelError`, and `InvalidUtf8Error` for a lone surrogate.
        """
        pairs = sorted(labels.items() if isinstance(labels, Mapping) else labels)
        if pairs and not pairs[0][0]:
            raise EmptyLabelNameError(f"a label without a name has the value {quoted(pairs[0][1])}")
        if not is_utf8("".join(chain.from_iterable(pairs))):
            name = next(name for name, value in pairs if not (is_utf8(name) and is_utf8(value)))
            raise InvalidUtf8Error(f"not UTF-8: label {name!a}")
        present = tuple(pair for pair in pairs if pair[1])
        if len(dict(present)) < len(present):
            twice = next(name for (name, _), (after, _) in pairwise(present) if name == after)
            raise DuplicateLabelError(f"label {quoted(twice)} occurs twice")
        return cls(present)

    def get(self, name: str) -> str:
        """The value of a label, "" when it is absent."""
        for known, value in self.pairs:
            if known == name:
                return value
        return ""

    def names(self) -> tuple[str, ...]:
        """The names, sorted."""
        return tuple(name for name, _ in self.pairs)

    def without(self, names: Collection[str]) -> Self:
        """The set less the labels of these names; itself when it has none of them."""
        kept = tuple(pair for pair in self.pairs if pair[0] not in names)
        return self if len(kept) == len(self.pairs) else type(self)(kept)

    def with_labels(self, labels: Mapping[str, str]) -> Self:
        """The set with these labels put over it; the value "" takes a label off. Raises as `of` does."""
        type(self).of(labels)
        return type(self)(tuple(sorted(pair for pair in {**dict(self.pairs), **labels}.items() if pair[1])))

    def __str__(self) -> str:
        metric = self.get(METRIC_NAME)
        bare = _LEGACY_METRIC_NAME.fullmatch(metric) is not None
        inside = [] if bare or not metric else [quoted(metric)]
        inside += [f"{_label_name(name)}={quoted(value)}" for name, value in self.pairs if name != METRIC_NAME]
        if bare:
            return f"{metric}{{{','.join(inside)}}}" if inside else metric
        return f"{{{','.join(inside)}}}"


def valid_label_name(name: str, scheme: NameScheme) -> bool:
    """Whether a label may be called so: any text in UTF-8 but "", or `[a-zA-Z_][a-zA-Z0-9_]*` under "legacy"."""
    if scheme == "legacy":
        return _LEGACY_LABEL_NAME.fullmatch(name) is not None
    return name != "" and is_utf8(name)


def is_utf8(text: str) -> bool:
    """Whether a text can be written as UTF-8, that is, has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def quoted(text: str) -> str:
    """A text as the exposition format writes a label value."""
    return f'"{text.translate(_ESCAPES)}"'


def _label_name(name: str) -> str:
    return name if _LEGACY_LABEL_NAME.fullmatch(name) else quoted(name)
