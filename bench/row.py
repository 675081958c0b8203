"""One figure of the benchmark."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Row:
    """A figure with its floor, measured in the same run, and its target."""

    name: str
    value: float
    unit: str
    floor: float | None
    target: float | None
    better: Literal["less", "more"] = "less"
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The value as a multiple of the floor."""
        return self.value / self.floor if self.floor else None

    @property
    def met(self) -> bool | None:
        """Return whether the target is met."""
        if self.target is None:
            return None
        return self.value <= self.target if self.better == "less" else self.value >= self.target
