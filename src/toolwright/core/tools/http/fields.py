"""Fields of an answer: which parts of its JSON are kept, by paths such as `owner.login`."""

from collections.abc import Iterable
from typing import TypeAlias

from toolwright.core.json_value import JSON

Fields: TypeAlias = dict[str, "Fields"]
"""The kept names of an object with those below them; none below keeps the whole value."""

ANY = "*"
"""Stands for every name that has no path of its own."""


def read_fields(paths: Iterable[str]) -> Fields:
    """The tree of these paths. A dot within a name is written `\\.`; a path and its beginning keep the whole."""
    tree: Fields = {}
    whole: set[tuple[str, ...]] = set()
    for names in sorted(map(_names, paths), key=len):
        if any(names[:length] in whole for length in range(1, len(names))):
            continue
        whole.add(names)
        below = tree
        for name in names:
            below = below.setdefault(name, {})
    return tree


def written_path(names: Iterable[str]) -> str:
    """The path of these names."""
    return ".".join(name.replace("\\", "\\\\").replace(".", "\\.") for name in names)


def trimmed(part: JSON, fields: Fields) -> JSON:
    """The value with these fields alone; each item of a list is trimmed as the list itself."""
    if not fields:
        return part
    if isinstance(part, list):
        return [trimmed(item, fields) for item in part]
    if not isinstance(part, dict):
        return part
    rest = fields.get(ANY)
    kept = ((name, item, fields.get(name, rest)) for name, item in part.items())
    return {name: trimmed(item, below) for name, item, below in kept if below is not None}


def _names(path: str) -> tuple[str, ...]:
    names, escaped = [""], False
    for each in path:
        if each == "." and not escaped:
            names.append("")
        elif each != "\\" or escaped:
            names[-1] += each
        escaped = each == "\\" and not escaped
    return tuple(names)
