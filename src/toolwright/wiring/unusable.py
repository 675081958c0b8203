"""Which agents could not run: each in one line of the log when a server starts, which starts all the same."""

import logging
from collections.abc import AsyncGenerator

from toolwright.core.errors import NotFound, ToolwrightError
from toolwright.core.ports import Models
from toolwright.runtime.runtime import Runtime

log = logging.getLogger("toolwright.serve")

PAGE, MOST_TOLD = 500, 20  # agents


async def warn_of_agents(runtime: Runtime, models: Models, default_model: str | None) -> None:
    """Log why an agent could not run: it has no model, or one that cannot be made. No model is asked anything.

    It takes seconds where libraries of providers are loaded, which the first runs need not do then.
    """
    count = 0
    async for said in _unusable(runtime, models, default_model):
        count += 1
        if count <= MOST_TOLD:
            log.warning(said)
    if count > MOST_TOLD:
        log.warning("%s more agents cannot run for want of a usable model.", count - MOST_TOLD)


async def _unusable(runtime: Runtime, models: Models, default_model: str | None) -> AsyncGenerator[str]:
    faults: dict[str, str | None] = {}
    offset = 0
    while agents := await runtime.agents.list(PAGE, offset):
        offset += len(agents)
        for agent in agents:
            try:
                model = (await runtime.agents.active(agent.id)).model or default_model
            except NotFound:
                continue  # deleted meanwhile
            except ToolwrightError as error:
                yield f"The agent {agent.name!r} cannot run: {error.message}"
                continue
            if model is None:
                yield f"The agent {agent.name!r} has no model: name one in its prompt, or set TOOLWRIGHT_MODEL."
            elif isinstance(model, str):
                if model not in faults:
                    faults[model] = await _fault(model, models)
                if (fault := faults[model]) is not None:
                    yield f"The agent {agent.name!r} cannot run: {fault}"


async def _fault(model: str, models: Models) -> str | None:
    try:
        await models(model)
    except ToolwrightError as error:
        return error.message
    return None
