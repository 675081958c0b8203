"""Removal of partial files that a process left in a folder when it was killed while it wrote.

The library writes the bytes of `sha256/ab/abcd…` to `sha256/ab/abcd…#1`, and links these to their place once they are
whole. So a part is never taken for a file; it is only never taken away.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from toolwright.adapters.files.removal import ASIDE, bring_back

FOLDER, PROBE = "sha256", "toolwright-probe"
_PART = re.compile("[0-9a-f]{64}#[0-9]+")
_PREFIX = re.compile("[0-9a-f]{2}")


def remove_leftovers(folder: Path, before: float) -> int:
    """Take away parts that nobody has written to since `before`, in seconds since 1970; how many. Raises `OSError`.

    A writer touches its part with every write: one that was not touched for long has lost its writer. What a killed
    process was removing is put back at once; it is removed again if nobody needs it.
    """
    count = 0
    for part in _parts(folder):
        if part.name.endswith(ASIDE):
            bring_back(Path(part))
            continue
        with suppress(FileNotFoundError):  # its writer was there after all
            if part.stat(follow_symlinks=False).st_mtime < before:
                Path(part).unlink()
                count += 1
    return count


def _parts(folder: Path) -> Iterator["os.DirEntry[str]"]:
    for each in (folder, folder / FOLDER):
        yield from (entry for entry in _entries(each) if entry.name.startswith(PROBE) and _is_file(entry))
    for inner in _entries(folder / FOLDER):
        if _PREFIX.fullmatch(inner.name):
            yield from (entry for entry in _entries(inner) if _PART.fullmatch(entry.name) and _is_file(entry))


def _entries(folder: "Path | os.DirEntry[str]") -> Iterator["os.DirEntry[str]"]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        yield from entries


def _is_file(entry: "os.DirEntry[str]") -> bool:
    return entry.is_file(follow_symlinks=False)
