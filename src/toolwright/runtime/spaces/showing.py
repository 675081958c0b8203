"""Effects that show something in a space, made when it is known who is there: nobody's secrets are in it (D6)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from toolwright.core.env.redact import Redactor
from toolwright.core.journal.effects import Edit, Effect, Post


@dataclass(frozen=True, slots=True)
class Showing:
    """An effect on that space, which `make` gives without what the redactor knows."""

    space_id: str
    make: Callable[[Redactor], Post | Edit]


Intended: TypeAlias = Effect | Showing
"""Message of a unit: as it is, or as it may be shown."""
