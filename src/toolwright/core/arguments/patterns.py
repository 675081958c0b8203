"""Patterns of JSON Schemas that are valid, but that the validator cannot read: they are left out, with a warning."""

import logging
import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import jsonschema_rs

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.text import brief, quantity

MAPS = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords whose values are schemas by name."""
_VALUES = frozenset({"const", "enum", "default", "examples"})  # keywords whose values are no schemas
_NEGATED = frozenset({"not", "if"})
_OTHER_NAMES = ("additionalProperties", "unevaluatedProperties")
_HYPHEN = re.compile(r"(\\[dDsSwW])-(?!\])")  # `[\w-.]` is valid in JavaScript: the hyphen stands for itself
_MAX_NAMED, _MAX_PATTERN = 3, 200  # patterns that a warning names, and characters of each
_UNREAD: ContextVar[list[str] | None] = ContextVar("unread_patterns", default=None)
log = logging.getLogger("toolwright.tools")


@contextmanager
def warn_of_patterns(source: str) -> Generator[None]:
    """Log one warning that names the patterns, compiled within the block, that the validator cannot read.

    `source` begins the warning: a document, a server or a tool. A pattern is named once in a process. An inner block
    belongs to the outer one.
    """
    if _UNREAD.get() is not None:
        yield
        return
    token = _UNREAD.set(found := [])
    try:
        yield
    finally:
        _UNREAD.reset(token)
        if found:
            named = [brief(repr(each), _MAX_PATTERN) for each in found[:_MAX_NAMED]]
            more = [f"{len(found) - _MAX_NAMED} more"] if len(found) > _MAX_NAMED else []
            log.warning(
                "%s: values are not validated by %s that cannot be read: %s.",
                source, quantity(len(found), "pattern"), ", ".join([*named, *more]),
            )  # fmt: skip


def with_usable_patterns(schema: JSON) -> Any:  # of the same type
    """Return a copy of the schema without the patterns that the validator cannot read."""
    if isinstance(schema, list):
        return [with_usable_patterns(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    usable: JSONObject = {}
    for key, part in schema.items():
        if key in MAPS and isinstance(part, dict):
            usable[key] = {name: with_usable_patterns(each) for name, each in part.items()}
        elif key in _VALUES:
            usable[key] = part
        elif key in _NEGATED:  # without a pattern it would apply to more values
            if with_usable_patterns(part) == part:
                usable[key] = part
        elif not (key == "pattern" and isinstance(part, str) and _is_unreadable(part)):
            usable[key] = with_usable_patterns(part)
    by_pattern = usable.get("patternProperties")
    if isinstance(by_pattern, dict):
        readable = {pattern: part for pattern, part in by_pattern.items() if not _is_unreadable(pattern)}
        if len(readable) < len(by_pattern):
            usable["patternProperties"] = readable
            for key in _OTHER_NAMES:  # would reject the names that the pattern allows
                usable.pop(key, None)
    return usable


@lru_cache(1_000)
def _is_unreadable(pattern: str) -> bool:
    """Return whether the pattern is valid in JavaScript or Python, but the validator cannot read it."""
    try:
        jsonschema_rs.validator_for({"pattern": pattern})
    except jsonschema_rs.ValidationError:
        try:
            re.compile(_HYPHEN.sub(r"\1\-", pattern.replace("[^]", r"[\s\S]")))
        except (re.error, RecursionError, OverflowError):
            return False
        if (found := _UNREAD.get()) is not None:
            found.append(pattern)
        return True
    return False
