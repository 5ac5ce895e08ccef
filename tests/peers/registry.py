"""Where the peers' programs are, which are missing, and the command that brings them."""

from collections.abc import Iterable
from pathlib import Path

from tests.peers.build import PEERS

COMMAND = "make peers"
_BY_PROGRAM = {peer.program: peer for peer in PEERS}


class MissingPeerError(Exception):
    """A peer's program has not been built."""


def binary(program: str) -> Path:
    """The built program; raises MissingPeerError, and KeyError for a name that is not a peer."""
    path = _BY_PROGRAM[program].binary
    if not path.exists():
        raise MissingPeerError(f"{program} is not at {path}: `{COMMAND}` brings it")
    return path


def version(program: str) -> str:
    """The pinned version, such as v0.316.0."""
    return _BY_PROGRAM[program].version


def missing(programs: Iterable[str]) -> tuple[str, ...]:
    """Those of these programs that have not been built, sorted; raises KeyError for a name that is not a peer."""
    return tuple(sorted(program for program in set(programs) if not _BY_PROGRAM[program].binary.exists()))
