"""What can be wrong with the embedded storage: one root, leaves by what the caller does about it.

The text of an error is one sentence for a person that names the file.
"""


class StoreError(Exception):
    """Root of all errors of this package; raised itself for a file that is damaged, or is not one of ours."""


class StoreBodyError(StoreError):
    """The body cannot be stored, now or later; nothing of it was."""


class StoreUnavailableError(StoreError):
    """The disk or the file does not take or give anything now; the same call may succeed later."""
