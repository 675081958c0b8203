"""The part of a file that a caller asks for (RFC 9110 §14)."""

import re

_ONE = re.compile(r"bytes=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", re.IGNORECASE)


class Unsatisfiable(Exception):
    """The part lies behind the end."""


def part_of(size: int, asked: str | None) -> slice | None:
    """The bytes of a `Range`, None for all of them: what cannot be read, and several parts at once, may be ignored.

    Raises `Unsatisfiable`.
    """
    found = None if asked is None else _ONE.fullmatch(asked)
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        start, stop = max(0, size - int(found[2])), size
    else:
        start, stop = int(found[1]), int(found[2]) + 1 if found[2] else size
        if stop <= start and found[2]:
            return None  # it ends before it begins
    if start >= size or stop <= start:
        raise Unsatisfiable
    return slice(start, min(stop, size))
