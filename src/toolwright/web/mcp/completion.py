"""`completion/complete`: values for the arguments of prompts, and for the variables of resource templates."""

from collections.abc import Iterable

import mcp_types as types

from toolwright.web.mcp.content import PromptMethods, declared_values
from toolwright.web.mcp.resources import Resources
from toolwright.web.mcp.tools import Context

MAX_VALUES = 100
"""Maximum number of values in one answer, according to the protocol."""


class Completion:
    """The method of completion. Values are those that schemas declare, and paths of the caller's own files."""

    def __init__(self, prompts: PromptMethods, resources: Resources) -> None:
        self._prompts = prompts
        self._resources = resources

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Handle `completion/complete`. Raises the protocol's error for an unknown prompt, template or argument."""
        name = params.argument.name
        if isinstance(params.ref, types.PromptReference):
            values = declared_values(self._prompts.parameters(context, params.ref.name, name), name)
        else:
            chosen = {} if params.context is None else params.context.arguments or {}
            values = await self._resources.values(context, params.ref.uri, name, chosen)
        matching = _matching(values, params.argument.value)
        return types.CompleteResult(
            completion=types.Completion(
                values=matching[:MAX_VALUES], total=len(matching), has_more=len(matching) > MAX_VALUES
            )
        )


def _matching(values: Iterable[str], typed: str) -> list[str]:
    """Return the values that contain the text, those that begin with it first."""
    wanted = typed.casefold()
    found = [value for value in dict.fromkeys(values) if wanted in value.casefold()]
    return sorted(found, key=lambda value: not value.casefold().startswith(wanted))
