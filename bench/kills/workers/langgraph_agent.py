"""LangGraph: `create_agent` with a checkpointer and `durability="sync"`, effects in tasks."""

import asyncio
from collections.abc import Mapping
from typing import Any

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.func import task

from bench.kills.work import next_calls, work

WORK = work()


@task
async def make(call: str) -> str:
    """Make an effect. Its result is recorded as that of a task, as the page on durable execution demands."""
    return await WORK.effect(call)


@tool
async def effect(call: str) -> str:
    """Make an effect."""
    return await make(call)


class Canned(BaseChatModel):
    """The canned model."""

    @property
    def _llm_type(self) -> str:
        return "canned"

    def bind_tools(self, *_: Any, **__: Any) -> "Canned":
        """Return the model itself, which knows the tool."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        answers = sum(1 for each in messages if isinstance(each, AIMessage) and each.tool_calls)
        calls = next_calls(messages[0].text, answers)
        made = [{"name": "effect", "args": {"call": call}, "id": call, "type": "tool_call"} for call in calls]
        said = AIMessage("" if calls else "Done.", tool_calls=made)
        return ChatResult(generations=[ChatGeneration(message=said)])


async def handle(agent: Any, message: str, again: bool) -> Mapping[str, str]:
    """Run the thread of the message, or continue it: with None as input, unless it has no checkpoint yet."""
    config = {"configurable": {"thread_id": message}}
    started = again and bool((await agent.aget_state(config)).metadata)
    first = None if started else {"messages": [HumanMessage(message)]}
    state = await agent.ainvoke(first, config, durability="sync")
    return {each.tool_call_id: each.text for each in state["messages"] if each.type == "tool"}


async def main() -> None:
    """Process messages until the driver stops it."""
    is_sqlite = WORK.database.startswith("sqlite")
    path = WORK.database.removeprefix("sqlite:///")
    saver_type = AsyncSqliteSaver if is_sqlite else AsyncPostgresSaver
    async with saver_type.from_conn_string(path) as saver:
        await saver.setup()
        agent = create_agent(Canned(), [effect], checkpointer=saver)
        await WORK.run(lambda message, again: handle(agent, message, again))


asyncio.run(main())
