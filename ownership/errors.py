"""What can be wrong with ownership; the text is one sentence for a person."""


class OwnershipError(Exception):
    """Root of all errors of this package; never raised itself."""


class DocumentError(OwnershipError):
    """The bytes are no ownership document; the sentence begins with the path of the first thing that is wrong."""


class RevisionError(OwnershipError):
    """A partial document does not continue what is held of its node: ask the node for a whole one."""
