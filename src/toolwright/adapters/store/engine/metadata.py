"""Where all tables of the journal are told, each in the module of its noun in `tables`.

JSON is kept as text, instants as microseconds since 1970 in UTC. Text rather than JSONB: arguments must come back
byte for byte, and neither NUL nor a lone surrogate may make a row unwritable (see docs/decisions/0002-json-as-text.md).
"""

from typing import get_args

from sqlalchemy import MetaData

metadata = MetaData()
WORDS = "words"


def one_of(kinds: object) -> dict[str, frozenset[str]]:
    """The `info` of a column that holds one word of a `Literal`: which they are."""
    return {WORDS: frozenset(get_args(kinds))}
