"""What a trouble needs of its lane."""

from typing import Protocol

from proxy.lanes.group import Group


class Hand(Protocol):
    """The lane, as its trouble sees it."""

    def let_go(self) -> list[Group]:
        """The groups that wait in memory, which are not the lane's any more."""
        ...

    def recovered(self) -> None:
        """The trouble is over."""
        ...

    def rested(self) -> None:
        """Something ended that closing may have waited for."""
        ...
