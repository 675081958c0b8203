"""Models by name, each created once, without blocking the event loop; pydantic-ai's model objects; and the embedder."""

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, cast

from toolwright.adapters.models.resolve import Resolver
from toolwright.core.errors import ModelRefused, missing_extra
from toolwright.core.model import Model
from toolwright.core.tools.tool_ui import ToolUI

if TYPE_CHECKING:
    from toolwright.adapters.models.embeddings import OpenAIEmbedder
    from toolwright.web.options import OpenPart

KEY, BASE_URL, OPENAI = "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1"
"""Variables that the provider's library reads for models, and the default of the second."""


class NamedModels:
    """The `Models` port. Importing a provider's library takes seconds, so it happens in a thread."""

    def __init__(self) -> None:
        self._resolver = Resolver()
        self._models: dict[str, Model] = {}
        self._wrapped: dict[int, tuple[object, Model]] = {}
        self._making = asyncio.Lock()

    async def __call__(self, model: object) -> Model:
        if isinstance(model, str):
            return await self._cached_model(model)
        if hasattr(model, "respond"):
            return cast("Model", model)  # it has our only method
        return self._wrap(model)

    async def aclose(self) -> None:
        """Close the models' connections."""
        await self._resolver.aclose()

    async def _cached_model(self, name: str) -> Model:
        cached = self._models.get(name)
        if cached is None:
            async with self._making:
                cached = self._models[name] = await asyncio.to_thread(self._resolver.resolve, name)
        return cached

    def _wrap(self, model: object) -> Model:
        """Return the wrapper of a pydantic-ai model. The model is kept with it, so that its id is not reused."""
        if id(model) not in self._wrapped:
            adapter = import_module("toolwright.adapters.models.providers.model")
            self._wrapped[id(model)] = (model, adapter.adapt(model))
        return self._wrapped[id(model)][1]


class OneModel:
    """The `Models` port that always returns the same model."""

    def __init__(self, model: object) -> None:
        self._model = model
        self._models = NamedModels()

    async def __call__(self, model: object) -> Model:
        return await self._models(self._model)

    async def aclose(self) -> None:
        """Close the model's connections."""
        await self._models.aclose()


def models_of(model: object | None) -> NamedModels | OneModel:
    """Return the models of an app by name, or the given model in place of all."""
    return NamedModels() if model is None else OneModel(model)


def open_mcp() -> ModuleType:
    """Return the module of the MCP server. Raises `MissingExtra` if the SDK is not installed."""
    try:
        import_module("mcp")
    except ImportError as error:
        raise missing_extra("The MCP server", "mcp", error) from error
    return import_module("toolwright.web.mcp.server")


def open_console(tool_uis: Sequence[ToolUI]) -> "OpenPart":
    """Return the console with these components of the app. Raises `MissingExtra` if NiceGUI is not installed."""
    try:
        import_module("nicegui")
    except ImportError as error:
        raise missing_extra("The console", "console", error) from error
    return partial(import_module("toolwright.web.console.console").Console, tool_uis=tool_uis)


def open_embedder(name: str) -> "OpenAIEmbedder":
    """Return the embedder `openai:MODEL`. Raises `ModelRefused` if its provider's key is not set."""
    key = os.environ.get(KEY, "").strip()
    if not key:
        raise ModelRefused(f"The embedder {name!r} has no key: set the environment variable {KEY}.")
    module = import_module("toolwright.adapters.models.embeddings")  # lazily: few apps have an embedder
    base_url = os.environ.get(BASE_URL, "").strip() or OPENAI
    embedder: OpenAIEmbedder = module.OpenAIEmbedder(name.partition(":")[2], key=key, base_url=base_url)
    return embedder
