"""A thread's tenvs as a handler sees them: `state.tenvs.vector_store_id` (S2 §9.6)."""

from collections.abc import Iterator, Mapping
from typing import Any

from toolwright.core.json_value import JSON
from toolwright.core.text import sentence


class Tenvs:
    """A thread's tenvs as attributes: `state.tenvs.vector_store_id`. Those of the calling tool's model are built
    as it says, None or their default where they are optional and absent; all others are JSON as it was given.
    """

    __slots__ = ("_built", "_values")

    def __init__(self, values: Mapping[str, JSON] | None = None) -> None:
        self._values = values or {}
        self._built: dict[str, object] = {}

    def __getattr__(self, name: str) -> Any:  # whatever the tool's model makes of it
        if name in self._built:
            return self._built[name]
        try:
            return self._values[name]
        except KeyError:
            listed = ", ".join(sorted({*self._values, *self._built})) or "none"
            raise AttributeError(sentence(f"This thread has no tenv {name!r}; it has: {listed}")) from None

    def __getitem__(self, name: str) -> JSON:
        return self._values[name]

    def __ior__(self, built: Mapping[str, object]) -> "Tenvs":
        """From now on these names are seen as they were built for a tool."""
        self._built.update(built)
        return self

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Tenvs({', '.join(self._values)})"  # names only
