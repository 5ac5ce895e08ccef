"""A process that appends until it is killed or the disk is full, and says after each append that it returned.

python -m tests.store.writer FILE FIRST [BYTES]: append number n is SERIES samples of time n; BYTES limits each file.
"""

import resource
import sys
from pathlib import Path

from store.errors import StoreUnavailableError
from store.samples import SampleStore
from tests.store.bodies import body, entry

SERIES = 50


def main() -> None:
    """Appends and prints the numbers of what was appended, then `full`."""
    path, first = Path(sys.argv[1]), int(sys.argv[2])
    store = SampleStore(path)
    if len(sys.argv) > 3:
        limit = int(sys.argv[3])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    number = first
    try:
        while True:
            store.append(body(*(entry({"__name__": f"series_{each}"}, (number, number / 2)) for each in range(SERIES))))
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
            number += 1
    except StoreUnavailableError:
        sys.stdout.write("full\n")


if __name__ == "__main__":
    main()
