"""A thread's tenvs as a handler sees them: `state.tenvs.vector_store_id` (S2 §9.6)."""

from collections.abc import Iterator, Mapping
from typing import Any

from toolwright.core.json_value import JSON
from toolwright.core.text import sentence


class Tenvs:
    """A thread's tenvs as attributes: `state.tenvs.vector_store_id`.

    Those of the calling tool's model are built as it says, None or their default where they are optional and absent.
    They are an instance of that model, whose properties and methods they have. All others are JSON as it was given.
    """

    __slots__ = ("_built", "_model", "_values")

    def __init__(self, values: Mapping[str, JSON] | None = None) -> None:
        self._values = values or {}
        self._built: dict[str, object] = {}
        self._model: object = None

    def __getattr__(self, name: str) -> Any:  # whatever the tool's model makes of it
        if name in self._built:
            return self._built[name]
        try:
            return self._values[name]
        except KeyError:
            if hasattr(self._model, name):
                return getattr(self._model, name)
            listed = ", ".join(sorted({*self._values, *self._built})) or "none"
            raise AttributeError(sentence(f"This thread has no tenv {name!r}; it has: {listed}")) from None

    def __getitem__(self, name: str) -> JSON:
        return self._values[name]

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]  # it is never set
        """The declared model of the calling tool, so that `isinstance` accepts the tenvs as one of it."""
        return Tenvs if self._model is None else type(self._model)

    def adopt(self, model: object, built: Mapping[str, object]) -> None:
        """Show these names as they were built for a tool, and the rest of its model."""
        self._model = model
        self._built.update(built)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Tenvs({', '.join(self._values)})"  # names only
