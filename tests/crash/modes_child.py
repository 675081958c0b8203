"""Processes in which an agent delegates work in the modes that keep state for later, and that die meanwhile."""

import asyncio
from typing import Any

import toolwright as tw
from tests.crash.dying import at_work
from tests.crash.forks import Order
from toolwright.core.agents.catalog import Catalog
from toolwright.runtime.runtime import Runtime
from toolwright.testing import ScriptedModel

KEY = "sk-given-0123456789"
ENV: dict[str, Any] = {
    "SITE_A": {"value": "Alpha", "type": "text"},
    "SITE_B": {"value": "Beta", "type": "text"},
    "CODE_A": "code-of-alpha",
    "CODE_B": "code-of-beta",
}


def create(agent: str) -> dict[str, Any]:
    return {
        "calls": [
            {"name": "subagent_create", "args": {"agent": agent, "name": agent.title(), "message": "One"}}
        ]
    }


SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "boss": [
        {"when": "[Subagent", "text": "Thanks."},
        create("bob"),
        {"calls": [{"name": "pair", "args": {"message": "Talk"}}]},
        create("eve"),
        {"calls": [{"name": "again", "args": {}}]},
        create("needy"),
        {"text": "All done."},
    ],
    "clerk": [{"calls": [{"name": "code", "args": {}}]}, {"text": "clerk is done."}],
    "bob": [{"text": "bob is done."}],
    "first": [{"text": "What now?"}, {"text": "So be it."}],
    "second": [{"text": "Go on."}],
    "eve": [{"calls": [{"name": "tell", "args": {}}]}, {"text": "eve is done."}],
    "needy": [{"calls": [{"name": "key", "args": {}}]}, {"text": "needy is done."}],
}


@tw.tool(description="Its code.", read_only=True)
async def code(state: tw.ThreadState) -> str:
    return f"{await state.env('SITE')}: {await state.env('CODE')}"


@tw.tool(description="Tells the parent.", idempotent=True)
async def tell(state: tw.ThreadState) -> str:
    await state.notify_parent("Half done.")
    return "told"


@tw.tool(
    description="Needs a key.", read_only=True, variables=[tw.Variable("KEY", type="secret", scoped=True)]
)
async def key(state: tw.ThreadState) -> str:
    return f"has {await state.env('KEY')}"


@tw.tool(description="Speaks to the one that lives on, and waits.", idempotent=True, timeout=None)
async def again(state: tw.ThreadState) -> str:
    [eve] = [child for child in state.children if child.name == "Eve"]
    answer = await state.invoke_tool("subagent_message", {"reference": eve.reference, "message": "Two"})
    assert isinstance(answer.result, dict)
    return str(answer.result["status"])


def catalog() -> Catalog:
    model = ScriptedModel(SCRIPTS)

    def agent(name: str, *tools: tw.Tool) -> tw.Agent:
        prompt = tw.Prompt(name, model=model, tools=tools)
        return tw.Agent(name, prompt, expose_as_tool=True, tool_description="Works.")

    explicit = {"receives_messages": "side_a", "parentCommunication": "explicit"}
    called: list[Any] = [
        {"name": "clerk", "immediate": {"nameEnv": "SITE", "scopedEnv": ["SITE", "CODE"]}},
        {"name": "bob", "blocking": False, "resumable": {"receives_messages": "side_a"}},
        {"name": "pair"},
        {"name": "eve", "resumable": explicit},
        {"name": "needy", "resumable": {"receives_messages": "side_a"}},
    ]
    pair = tw.Agent(
        "pair",
        type="dual_ai",
        side_a=tw.Prompt("first", model=model),
        side_b=tw.Prompt("second", model=model),
        max_session_turns=1,
        expose_as_tool=True,
        tool_description="Talks.",
    )
    boss = tw.Agent("boss", tw.Prompt("boss", model=model, tools=[again, *called]))
    return Catalog(
        agents=[boss, agent("clerk", code), agent("bob"), pair, agent("eve", tell), agent("needy", key)]
    )


async def run(order: Order) -> None:
    async with at_work(order, catalog()) as runtime, asyncio.timeout(20):
        await lead(runtime)


async def lead(runtime: Runtime) -> None:
    """Start, unless started already; provide requested values; wait until no run is active."""
    if not await runtime.threads.list():
        await runtime.threads.create("boss", user_id="u", env=ENV)
    [boss] = [thread for thread in await runtime.threads.list() if thread.parent_id is None]
    if not await runtime.runs.list(thread_id=boss.id):
        await runtime.threads.send(boss.id, "Go")
    known: set[str] = set()
    while True:
        left = {run.id for run in await runtime.runs.list(limit=100)} - known
        asked = await runtime.requests.list(boss.id)
        if not left and not asked:
            return
        for run_id in left:
            await runtime.runs.wait(run_id, 20)
        known |= left
        for request in asked:
            await runtime.requests.answer(boss.id, request.id, {"KEY": KEY})
