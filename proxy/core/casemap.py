"""Case mapping as Go's `strings.ToLower` and `strings.ToUpper` do it: character by character, one for one.

Python maps words (`"ß".upper()` is "SS", "Σ" at a word's end becomes "ς"); Go takes Unicode's simple mappings. Where
Python's full upper case of one character is longer, the simple one is the title case if that is one character
(ᾳ -> ᾼ), else the character itself (ß, ŉ). The only longer lower case is that of İ, whose simple one is its first, i.
"""


def to_lower(text: str) -> str:
    """The text in lower case; as many characters as it has."""
    if text.isascii():
        return text.lower()
    return "".join([character.lower()[0] for character in text])


def to_upper(text: str) -> str:
    """The text in upper case; as many characters as it has."""
    if text.isascii():
        return text.upper()
    return "".join([_upper(character) for character in text])


def _upper(character: str) -> str:
    for mapped in (character.upper(), character.title()):
        if len(mapped) == 1:
            return mapped
    return character
