"""Text from elsewhere, made safe for a terminal."""


def printable(text: str) -> str:
    """The text with each character that could move a terminal's cursor, or hide text, as an escape."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode() for each in text
    )
