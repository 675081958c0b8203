"""The guard of tests against requests to providers: it refuses them, and remembers which models were asked."""

from collections.abc import Generator
from contextlib import contextmanager

from toolwright.core.errors import ModelRefused

_guards: list["ProviderGuard"] = []
"""Those that are on, in the whole process: a runtime that was begun before a test is guarded too, in every thread."""


class ProviderGuard:
    """While it is on, no model of a provider is asked; `asked` are the names of those that would have been."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @property
    def fault(self) -> str | None:
        """A sentence that names the models that would have been asked; None if there were none."""
        if not self.asked:
            return None
        names = ", ".join(map(repr, dict.fromkeys(self.asked)))
        return (
            f"This test would have asked a provider for {names}: give the app a model of the test's own, as in "
            "testing.runtime(app, model=testing.ScriptedModel([…]))."
        )

    @contextmanager
    def on(self) -> Generator[None]:
        """Refuse requests to providers while the block lasts."""
        _guards.append(self)
        try:
            yield
        finally:
            _guards.remove(self)


def check_provider(name: str) -> None:
    """Raise `ModelRefused` where the model or embedder of that name must not be asked."""
    if not _guards:
        return
    for guard in _guards:
        guard.asked.append(name)
    raise ModelRefused(f"{name!r} is a provider's, which this test does not let anybody ask.")
