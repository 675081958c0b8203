"""Models by name, each made once, without holding up the event loop; models of pydantic-ai's own; and the embedder."""

import asyncio
import os
from importlib import import_module
from typing import TYPE_CHECKING, cast

from toolwright.adapters.models.resolve import Resolver
from toolwright.core.errors import ModelRefused
from toolwright.core.model import Model

if TYPE_CHECKING:
    from toolwright.adapters.models.embeddings import OpenAIEmbedder

KEY, BASE_URL, OPENAI = "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1"
"""Variables that the provider's own library reads for models, and where the provider is without the second."""


class NamedModels:
    """The `Models` port: importing a provider's library takes seconds, so it is done in a thread."""

    def __init__(self) -> None:
        self._resolver = Resolver()
        self._models: dict[str, Model] = {}
        self._wrapped: dict[int, tuple[object, Model]] = {}
        self._making = asyncio.Lock()

    async def __call__(self, model: object) -> Model:
        if isinstance(model, str):
            return await self._named(model)
        if hasattr(model, "respond"):
            return cast("Model", model)  # it has our one method
        return self._wrap(model)

    async def aclose(self) -> None:
        """Close the models' connections."""
        await self._resolver.aclose()

    async def _named(self, name: str) -> Model:
        known = self._models.get(name)
        if known is None:
            async with self._making:
                known = self._models[name] = await asyncio.to_thread(self._resolver.resolve, name)
        return known

    def _wrap(self, model: object) -> Model:
        """A model object of pydantic-ai, kept beside its wrapping so that its id stays its own."""
        if id(model) not in self._wrapped:
            adapter = import_module("toolwright.adapters.models.providers.model")
            self._wrapped[id(model)] = (model, adapter.PydanticAIModel(model))
        return self._wrapped[id(model)][1]


def open_embedder(name: str) -> "OpenAIEmbedder":
    """The embedder `openai:MODEL`; raises `ModelRefused` if there is no key for its provider."""
    key = os.environ.get(KEY, "").strip()
    if not key:
        raise ModelRefused(f"The embedder {name!r} has no key: set the environment variable {KEY}.")
    module = import_module("toolwright.adapters.models.embeddings")  # by name: few apps have an embedder
    base_url = os.environ.get(BASE_URL, "").strip() or OPENAI
    made: OpenAIEmbedder = module.OpenAIEmbedder(name.partition(":")[2], key=key, base_url=base_url)
    return made
