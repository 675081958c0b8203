"""pydantic-ai with DBOS: `DBOSDurability` in a workflow, tools as DBOS steps."""

import asyncio
from collections.abc import Mapping

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from bench.kills.work import next_calls, work

WORK = work()
DBOS(
    config={
        "name": "kills",
        "system_database_url": WORK.database,
        "log_level": "ERROR",
        "run_admin_server": False,
    }
)


async def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Return the canned model's next answer."""
    message = next(part.content for part in messages[0].parts if part.part_kind == "user-prompt")
    answers = sum(1 for each in messages if isinstance(each, ModelResponse))
    calls = next_calls(str(message), answers)
    return ModelResponse(
        [ToolCallPart("effect", {"call": call}, call) for call in calls] or [TextPart("Done.")]
    )


agent = Agent(FunctionModel(answer), name="clerk", capabilities=[DBOSDurability()])


@agent.tool_plain
@DBOS.step()
async def effect(call: str) -> str:
    """Make an effect."""
    return await WORK.effect(call)


@DBOS.workflow()
async def respond(message: str) -> Mapping[str, str]:
    """Answer a message. Returns the results that the model read, by call."""
    messages = (await agent.run(message)).all_messages()
    parts = [part for each in messages if isinstance(each, ModelRequest) for part in each.parts]
    return {part.tool_call_id: str(part.content) for part in parts if isinstance(part, ToolReturnPart)}


async def handle(message: str, again: bool) -> Mapping[str, str]:
    """Wait for the workflow of the message, which `launch` has continued; start it if there is none."""
    if again and await DBOS.get_workflow_status_async(message) is not None:
        handle = await DBOS.retrieve_workflow_async(message)
    else:
        with SetWorkflowID(message):
            handle = await DBOS.start_workflow_async(respond, message)
    return await handle.get_result()


async def main() -> None:
    """Process messages until the driver stops it."""
    DBOS.launch()
    await WORK.run(handle)
    DBOS.destroy()


asyncio.run(main())
