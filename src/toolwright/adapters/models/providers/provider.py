"""Creates a pydantic-ai model by name. A missing requirement is reported in one sentence."""

import difflib
import re

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model

from toolwright.adapters.system import check_certificates
from toolwright.core.errors import DefinitionError, MissingExtra, ModelRefused, install
from toolwright.core.schemas.provider_forms import alias_of

PROVIDERS = (
    "anthropic", "azure", "bedrock", "cerebras", "cohere", "deepseek", "fireworks", "google", "google-cloud", "groq",
    "huggingface", "litellm", "mistral", "moonshotai", "ollama", "openai", "openai-chat", "openrouter", "scripted",
    "together", "vercel", "xai",
)  # fmt: skip
"""Providers that an error message lists; pydantic-ai supports more."""
_OUR_EXTRAS = ("openai", "anthropic")


def provider_model(name: str) -> Model:
    """Return the model `provider:model`. The first model of a provider imports its SDK, which takes a second or more.

    Raises:
        DefinitionError: there is no such provider, or the trusted certificates cannot be read.
        MissingExtra: the provider's SDK is not installed.
        ModelRefused: the provider's API key is not set.
    """
    provider, colon, model = name.partition(":")
    if not (provider and colon and model):
        raise DefinitionError(f"The model {name!r} needs a provider, as in 'openai:gpt-5'.")
    try:
        check_certificates()
        return infer_model(name)
    except DefinitionError as error:
        raise DefinitionError(f"The model {name!r} cannot be used: {error.message}") from error
    except ImportError as error:
        raise missing_sdk(name, error) from error
    except UserError as error:
        raise _unusable(name, error.message) from error
    except Exception as error:
        raise _unusable(name, str(error)) from error


def missing_sdk(name: str, error: ImportError) -> MissingExtra:
    """Return the error with the package to install for the model `name`."""
    match = re.search(r"pydantic-ai-slim\[([\w-]+)\]", str(error))
    group = match.group(1) if match else name.partition(":")[0]
    package = f"pydantic-ai-slim[{group}]"
    command = install(group) if group in _OUR_EXTRAS else f"pip install '{package}'"
    return MissingExtra(f"The model {name!r} needs {package}, which is not installed: {command}.")


def _unusable(name: str, message: str) -> DefinitionError | ModelRefused:
    variables = re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`", message)
    if variables:
        missing = (
            "has no key" if any("KEY" in each or "TOKEN" in each for each in variables) else "is not set up"
        )
        return ModelRefused(
            f"The model {name!r} {missing}: set the environment variable {' or '.join(variables)}."
        )
    if message.startswith("Unknown model"):
        provider = name.partition(":")[0]
        close = difflib.get_close_matches(provider, PROVIDERS, n=1, cutoff=0.7)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        return DefinitionError(
            f"The model {name!r} has an unknown provider: {provider!r}.{meant} Providers: {', '.join(PROVIDERS)}."
        )
    return DefinitionError(f"The model {name!r} cannot be used: {message}")


class Aliases:
    """Tool name aliases of one model. Names sent to the provider are stored to be mapped back."""

    def __init__(self) -> None:
        self._wire: dict[str, str] = {}
        self._real: dict[str, str] = {}

    def wire(self, name: str) -> str:
        """Return the name to send to the provider."""
        cached = self._wire.get(name)
        if cached is not None:
            return cached
        alias = alias_of(name)
        if alias != name:
            self._wire[name] = alias
            self._real[alias] = name
        return alias

    def real(self, name: str) -> str:
        """Return the tool's own name for a name from the provider. An unknown name is unchanged."""
        return self._real.get(name, name)
