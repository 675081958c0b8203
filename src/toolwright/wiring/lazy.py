"""Models by name, each made once, without holding up the event loop; and models of pydantic-ai's own."""

import asyncio
from importlib import import_module
from typing import cast

from toolwright.adapters.models.resolve import Resolver
from toolwright.core.model import Model


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
