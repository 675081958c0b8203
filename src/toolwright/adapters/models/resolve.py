"""Resolution of a model's name to the model, and the guard of tests against requests to providers."""

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module

from toolwright.adapters.models.scripted import ScriptedModel
from toolwright.core.errors import DefinitionError, ModelRefused, missing_extra
from toolwright.core.model import EXAMPLE_MODEL, Model

_guards: list["ProviderGuard"] = []
"""Active guards of the whole process. They also apply to a runtime started before a test, in every thread."""
_PYDANTIC_AI = "toolwright.adapters.models.providers.model"


class ProviderGuard:
    """Blocks requests to providers' models while it is active. `asked` are the names of the blocked models."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    @property
    def fault(self) -> str | None:
        """A sentence that names the blocked models, or None if there were none."""
        if not self.asked:
            return None
        names = ", ".join(map(repr, dict.fromkeys(self.asked)))
        return (
            f"This test would have sent a request to a provider for {names}. Give the app a test model, as in "
            "testing.runtime(app, model=testing.ScriptedModel([…]))."
        )

    @contextmanager
    def on(self) -> Generator[None]:
        """Reject requests to providers within the block."""
        _guards.append(self)
        try:
            yield
        finally:
            _guards.remove(self)


def check_provider(name: str) -> None:
    """Raise `ModelRefused` if requests to the named model or embedder are blocked."""
    if not _guards:
        return
    for guard in _guards:
        guard.asked.append(name)
    raise ModelRefused(f"{name!r} is a provider's, and this test allows no request to a provider.")


def check_key(owner: str, key: str) -> None:
    """Raise `ModelRefused` if no HTTP header takes the key. The message begins with `owner`, without the key."""
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise ModelRefused(
            f"{owner} has a key with characters that no HTTP header takes, such as '…', an accent, a line break or a "
            "space at its end: set the key itself."
        )


def resolve(name: str) -> Model:
    """Return a new model for `provider:model`, or `scripted:PATH.yaml` for offline runs.

    Blocks while a provider's SDK is imported (1 to 4 seconds, once): call it in a thread from async code.

    Raises:
        DefinitionError: the name has no provider or an unknown one, or the script is invalid.
        MissingExtra: the provider's library is not installed.
        ModelRefused: the provider's API key is not set.
    """
    provider, colon, rest = name.partition(":")
    if provider and colon and not rest:
        raise DefinitionError(
            f"The model {name!r} has no name: write it after the colon, as in {EXAMPLE_MODEL!r}."
        )
    if not (provider and colon):
        raise DefinitionError(
            f"The model {name!r} needs a provider, as in {EXAMPLE_MODEL!r} or 'scripted:demo.yaml'."
        )
    if provider == "scripted":
        return ScriptedModel.from_yaml(rest)
    check_provider(name)
    try:
        adapter = import_module(_PYDANTIC_AI)
    except ImportError as error:
        extra = provider if provider in ("openai", "anthropic") else "pydantic-ai"
        raise missing_extra(f"The model {name!r}", extra, error) from error
    # Any: a module imported by name has no static type
    model: Model = adapter.PydanticAIModel(name)
    return model


class Resolver:
    """Resolves names to models, each name once. `aclose` closes the models that it created."""

    def __init__(self) -> None:
        self._models: dict[str, Model] = {}

    def resolve(self, name: str) -> Model:
        """Return the model with this name; see `resolve`."""
        model = self._models.get(name)
        if model is None:
            model = self._models[name] = resolve(name)
        return model

    async def aclose(self) -> None:
        """Close the connections of all models that have an `aclose`."""
        models, self._models = self._models, {}
        for model in models.values():
            close = getattr(model, "aclose", None)
            if close is not None:
                await close()
