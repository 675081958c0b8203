"""agno: an agent with `checkpoint="tool-batch"`, continued by `acontinue_run`."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from agno.agent import Agent
from agno.db.postgres import PostgresDb
from agno.db.sqlite import SqliteDb
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse
from agno.run.base import RunStatus

from bench.kills.work import next_calls, work

WORK = work()


async def effect(call: str) -> str:
    """Make an effect."""
    return await WORK.effect(call)


class Canned(Model):
    """The canned model."""

    def invoke(self, messages: list[Message], *_: Any, **__: Any) -> ModelResponse:
        """Return the next answer."""
        message = next(str(each.content) for each in messages if each.role == "user")
        answers = sum(1 for each in messages if each.role == "assistant" and each.tool_calls)
        calls = next_calls(message, answers)
        made = [
            {
                "id": call,
                "type": "function",
                "function": {"name": "effect", "arguments": f'{{"call": "{call}"}}'},
            }
            for call in calls
        ]
        return ModelResponse(role="assistant", content=None if calls else "Done.", tool_calls=made)

    async def ainvoke(self, messages: list[Message], *_: Any, **__: Any) -> ModelResponse:
        """Return the next answer."""
        return self.invoke(messages)

    def invoke_stream(self, *_: Any, **__: Any) -> Iterator[ModelResponse]:
        """Not used."""
        raise NotImplementedError

    def ainvoke_stream(self, *_: Any, **__: Any) -> AsyncIterator[ModelResponse]:
        """Not used."""
        raise NotImplementedError

    def _parse_provider_response(self, response: Any, **_: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response


agent = Agent(
    name="clerk",
    model=Canned(id="canned"),
    db=SqliteDb(db_url=WORK.database)
    if WORK.database.startswith("sqlite")
    else PostgresDb(db_url=WORK.database),
    checkpoint="tool-batch",
    tools=[effect],
    telemetry=False,
)


async def handle(message: str, again: bool) -> Mapping[str, str]:
    """Run the message, or continue its run; a run without a checkpoint was never recorded, and is started again."""
    run = await agent.aget_run_output(message, session_id=message) if again else None
    if run is None:
        run = await agent.arun(message, session_id=message, run_id=message)
    elif run.status != RunStatus.completed:
        run = await agent.acontinue_run(run_id=message, session_id=message)
    if run.status != RunStatus.completed:
        raise RuntimeError(f"The run is {run.status}: {run.content}")
    return {str(each.tool_call_id): str(each.content) for each in run.messages or [] if each.role == "tool"}


asyncio.run(WORK.run(handle))
