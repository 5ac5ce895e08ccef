"""Who owns what by `ownership.files` alone; nobody is asked."""

from pathlib import Path

from cli.errors import CommandError
from config.settings import Settings
from ownership import Fleet, OwnershipError, parse_document


def fleet_by_files(settings: Settings) -> Fleet:
    """The owners that the files tell of. Raises CommandError where one is of no use: answers would be wrong."""
    ownership = settings.ownership
    fleet = Fleet(ownership.max_age, ownership.history)
    for file in ownership.files:
        try:
            fleet.replace(parse_document(Path(file).read_bytes()), static=True)
        except OSError as error:
            raise CommandError(f"the ownership file {file} cannot be read: {error.strerror}") from error
        except OwnershipError as error:
            raise CommandError(f"the ownership file {file}: {error}") from error
    return fleet
