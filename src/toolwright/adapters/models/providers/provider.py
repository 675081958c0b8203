"""A pydantic-ai model from its name; what is missing for it is said in one sentence."""

import re

from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model

from toolwright.core.errors import DefinitionError, MissingExtra, ModelRefused

_OUR_EXTRAS = ("openai", "anthropic")


def model_named(name: str) -> Model:
    """The model `provider:model`. The first of a provider imports its SDK, which takes a second or more.

    Raises:
        DefinitionError: there is no such provider.
        MissingExtra: the provider's SDK is not installed.
        ModelRefused: the provider's API key is not set.
    """
    provider, colon, model = name.partition(":")
    if not (provider and colon and model):
        raise DefinitionError(f"The model {name!r} needs a provider, as in 'openai:gpt-5'.")
    try:
        return infer_model(name)
    except ImportError as error:
        raise missing_sdk(name, error) from error
    except UserError as error:
        raise _unusable(name, error.message) from error
    except Exception as error:
        raise _unusable(name, str(error)) from error


def missing_sdk(name: str, error: ImportError) -> MissingExtra:
    """The error that says what to install for the model `name`."""
    found = re.search(r"pydantic-ai-slim\[([\w-]+)\]", str(error))
    group = found.group(1) if found else name.partition(":")[0]
    package = f"toolwright[{group}]" if group in _OUR_EXTRAS else f"pydantic-ai-slim[{group}]"
    return MissingExtra(f"The model {name!r} needs an optional dependency: install {package}.")


def _unusable(name: str, message: str) -> DefinitionError | ModelRefused:
    variables = re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`", message)
    if variables:
        return ModelRefused(
            f"The model {name!r} has no key: set the environment variable {' or '.join(variables)}."
        )
    if message.startswith("Unknown model"):
        return DefinitionError(f"The model {name!r} has an unknown provider: {name.partition(':')[0]!r}.")
    return DefinitionError(f"The model {name!r} cannot be used: {message}")
