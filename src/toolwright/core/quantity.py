"""Numbers with their nouns: `1 byte`, `2 bytes`."""


def quantity(number: int | float, noun: str) -> str:
    """The number and the noun, in the plural but for 1."""
    said = f"{number:g}" if isinstance(number, float) else str(number)
    if number == 1:
        return f"{said} {noun}"
    return f"{said} {noun.removesuffix('y')}ies" if noun.endswith("y") else f"{said} {noun}s"
