"""Models by name: each made once, without holding up the event loop."""

import asyncio

from toolwright.adapters.models.resolve import Resolver
from toolwright.core.model import Model


class NamedModels:
    """The `Models` port: importing a provider's library takes seconds, so it is done in a thread."""

    def __init__(self) -> None:
        self._resolver = Resolver()
        self._known: dict[str, Model] = {}
        self._making = asyncio.Lock()

    async def __call__(self, name: str) -> Model:
        model = self._known.get(name)
        if model is None:
            async with self._making:
                model = self._known[name] = await asyncio.to_thread(self._resolver.resolve, name)
        return model

    async def aclose(self) -> None:
        """Close the models' connections."""
        await self._resolver.aclose()
