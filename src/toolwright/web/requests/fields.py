"""Fields that several routes and forms have."""

import re
from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator, Field, JsonValue

from toolwright.core.limits import MAX_DESCRIPTION, MAX_ID, MAX_NAME
from toolwright.core.plain import LONG_KEY, has_long_key

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_NUMBER = re.compile("[0-9]+")
_LONGEST = 18  # digits: what every journal can count to


def _storable(text: str) -> str:
    if _UNSTORABLE.search(text):
        raise ValueError("must not hold NUL characters or halves of characters (lone surrogates)")
    return text


def _event_id(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        raise ValueError("must be the id of an event, or 0 for the beginning")
    digits = text.lstrip("0") or "0"
    return digits if len(digits) <= _LONGEST else str(10**_LONGEST)


def _short_keys(given: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if has_long_key(given):
        raise ValueError(LONG_KEY)
    return given


Words = Annotated[str, AfterValidator(_storable)]
"""Text that every journal can keep."""

Name = Annotated[Words, Field(max_length=MAX_NAME)]
"""A name, a label or another short text."""

Reference = Annotated[Words, Field(max_length=MAX_ID)]
"""What names something else: its id, or a name that serves as one."""

Description = Annotated[Words, Field(max_length=MAX_DESCRIPTION)]
"""A text that says what something is."""

Metadata = Annotated[
    dict[str, JsonValue],
    AfterValidator(_short_keys),
    Field(json_schema_extra={"propertyNames": {"maxLength": MAX_NAME}}),
]
"""What programs keep beside something, by short keys."""

Id = Annotated[Words, Path(description="The id.")]

Limit = Annotated[int, Query(ge=1, le=1_000, description="The most items of the answer.")]
Offset = Annotated[int, Query(ge=0, le=10**9, description="How many items to leave out first.")]

EventId = Annotated[str, AfterValidator(_event_id)]
"""An event's id, in digits; one that is too long to be any is larger than all."""
