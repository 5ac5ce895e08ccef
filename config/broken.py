"""Which places of a file are broken, and what else cannot be told while they are."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from config.problems import Fault, Place
from config.tree import Plain

_LONGEST_COMPARED: Final = 200
"""Characters of a value; an id has at most 150."""


class Broken:
    """The broken places of a file: what is written there says nothing, and so does what stands for it meanwhile."""

    def __init__(self, written: Mapping[Place, Plain], doubled: Iterable[Place] = ()) -> None:
        """`written` has what is written at each broken place; `doubled` are keys written twice, with the first kept."""
        self._written = dict(written)
        self._unsure = self._written | dict.fromkeys(doubled)
        self._around = {above for place in self._unsure for above in _prefixes(place)}

    def __contains__(self, place: Place) -> bool:
        """Whether a place is broken, by itself or with what is around it."""
        return place in self._written or any(above in self._written for above in _prefixes(place))

    def explains(self, fault: Fault) -> bool:
        """Whether a fault may be gone once the broken places are mended, so that it is not to be told before."""
        return fault.place in self or any(self._could_mend(read, fault.sought) for read in fault.reads)

    def _could_mend(self, read: Place, sought: str | None) -> bool:
        if read in self._around or any(above in self._unsure for above in _prefixes(read)):
            return True
        return read in self._unsure and (sought is None or _could_mean(self._unsure[read], sought))


def _prefixes(place: Place) -> Iterator[Place]:
    return (place[:length] for length in range(len(place)))


def _could_mean(written: Plain, sought: str) -> bool:
    """Whether a broken value may have been meant as another: where it says nothing, or nearly the same."""
    if not written or not isinstance(written, str):
        return True
    return bool(difflib.get_close_matches(sought[:_LONGEST_COMPARED], [written[:_LONGEST_COMPARED]], n=1))
