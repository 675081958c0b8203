"""Functions that stand in for dependencies while a test lasts."""

from collections.abc import Generator
from contextlib import contextmanager

from toolwright.core.checks import brief_value
from toolwright.core.dependencies.depends import Dependency, DependencyReader, Depends, name_of
from toolwright.core.dependencies.hints import Function
from toolwright.core.errors import DefinitionError


@contextmanager
def overriding(
    overrides: dict[Function, Dependency], dependency: Function, other: Function
) -> Generator[None]:
    """While the block lasts, `other` stands in for `dependency`; then what did so before.

    Raises `DefinitionError` for what is no function, and if `other` would need a value that it gives itself.
    """
    for each in (dependency, other):
        if not callable(each):
            raise DefinitionError(f"App.override takes two functions, not {brief_value(each)}.")
    read = DependencyReader("App.override", {}).read(Depends(other))
    _check(read, {**overrides, dependency: read}, [dependency])
    before = overrides.get(dependency)
    overrides[dependency] = read
    try:
        yield
    finally:
        if before is None:
            overrides.pop(dependency, None)
        else:
            overrides[dependency] = before


def _check(node: Dependency, overrides: dict[Function, Dependency], path: list[Function]) -> None:
    """Refuse a way from the function that stands in, over others that do, back to what it stands in for."""
    for each in node.below.values():
        if each.fn in path:
            names = " → ".join(name_of(fn) for fn in [*path, each.fn])
            raise DefinitionError(
                f"App.override: {name_of(path[0])!r} would be needed for its own value: {names}."
            )
        _check(overrides.get(each.fn, each), overrides, [*path, each.fn])
