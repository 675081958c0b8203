"""What comes of the effects of a unit, while they are done."""

from dataclasses import dataclass, field

from toolwright.core.threads.event import Event


@dataclass(slots=True)
class Performed:
    """What came of a unit's effects."""

    events: list[Event] = field(default_factory=list[Event])
    runs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    seq: int | None = None
    count: int = 0
