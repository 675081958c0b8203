"""Removal of files' bytes from a folder, which loses nothing that somebody puts there at the same moment.

Old bytes are first moved aside, and looked at again there: whoever has made them young meanwhile gets them back, and
whoever comes later does not find them, and writes them again.
"""

import os
from contextlib import suppress
from pathlib import Path

ASIDE = "#0"
"""The ending of bytes that are moved aside: no writer of parts begins with 0."""


def renew(path: Path) -> bool:
    """Make the file young; false if it is not there."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def bring_back(aside: Path) -> None:
    """Put back what a killed process has moved aside: somebody may have made it young just before."""
    with suppress(FileNotFoundError):  # who moved it is alive
        with suppress(FileExistsError):  # somebody has written it again
            os.link(aside, aside.with_name(aside.name.removesuffix(ASIDE)))
        aside.unlink()


def remove_old(path: Path, before: float) -> bool:
    """Delete a file that was not touched since `before` (seconds since 1970). Return whether it no longer exists."""
    try:
        if path.stat().st_mtime >= before:
            return False
        aside = path.with_name(path.name + ASIDE)
        path.rename(aside)
        if aside.stat().st_mtime >= before:
            with suppress(FileExistsError):  # somebody has written it again
                os.link(aside, path)
            aside.unlink()
            return False
        aside.unlink()
    except FileNotFoundError:
        return True
    return True
