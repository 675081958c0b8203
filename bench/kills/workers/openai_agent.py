"""OpenAI Agents SDK with DBOS: `DBOSRunner` in a workflow, tools as DBOS steps."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from agents import Agent, Model, ModelResponse, Usage, function_tool, set_tracing_disabled
from agents.items import TResponseStreamEvent
from dbos import DBOS, SetWorkflowID
from dbos_openai_agents import DBOSRunner
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from bench.kills.work import next_calls, work

WORK = work()
set_tracing_disabled(True)
DBOS(
    config={
        "name": "kills",
        "system_database_url": WORK.database,
        "log_level": "ERROR",
        "run_admin_server": False,
    }
)


class Canned(Model):
    """The canned model."""

    async def get_response(self, *_: Any, **request: Any) -> ModelResponse:
        """Return the next answer."""
        given = request["input"]
        items = [{"content": given}] if isinstance(given, str) else given
        answers = len(
            {item["call_id"].split(".")[1] for item in items if item.get("type") == "function_call"}
        )
        calls = next_calls(items[0]["content"], answers)
        made = [
            ResponseFunctionToolCall(
                type="function_call", call_id=call, name="effect", arguments=f'{{"call": "{call}"}}'
            )
            for call in calls
        ]
        text = ResponseOutputText(type="output_text", text="Done.", annotations=[])
        said = ResponseOutputMessage(
            id="said", type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[*made] or [said], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[TResponseStreamEvent]:
        """Not used."""
        raise NotImplementedError


@function_tool
@DBOS.step()
async def effect(call: str) -> str:
    """Make an effect."""
    return await WORK.effect(call)


agent = Agent(name="clerk", model=Canned(), tools=[effect])


@DBOS.workflow()
async def respond(message: str) -> Mapping[str, str]:
    """Answer a message. Returns the results that the model read, by call."""
    items = (await DBOSRunner.run(agent, message)).to_input_list()
    return {item["call_id"]: item["output"] for item in items if item.get("type") == "function_call_output"}


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
