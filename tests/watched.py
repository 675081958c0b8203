"""A model that plays a script and records its requests."""

from collections.abc import AsyncGenerator, Sequence

from toolwright.core.model import ModelEvent, ModelRequest
from toolwright.testing import ScriptedModel


class Watched:
    """A scripted model that records its requests."""

    name = "test:watched"

    def __init__(self, turns: Sequence[object]) -> None:
        self._script = ScriptedModel(turns)
        self.requests: list[ModelRequest] = []

    def says(self, turns: Sequence[object]) -> None:
        """Replace the script, for answers with references that are unknown at the start."""
        self._script = ScriptedModel(turns)

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        self.requests.append(request)
        async for event in self._script.respond(request):
            yield event
