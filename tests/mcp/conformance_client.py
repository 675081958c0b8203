"""Our client as the official conformance suite requires it: a command with the URL of a server, one scenario per run.

An agent that has the server's tools calls the ones that the scenario (`MCP_CONFORMANCE_SCENARIO`) requires, one per
step. A person accepts every question, with the defaults.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import toolwright as tw
from tests.kit import send_to
from toolwright import testing
from toolwright.core.errors import ToolwrightError
from toolwright.core.model import ModelCall, ModelEvent, ModelRequest, ModelResponse
from toolwright.runtime.runtime import Runtime

Arguments: TypeAlias = dict[str, Any]
Offered: TypeAlias = Mapping[str, Arguments]
Plan: TypeAlias = Callable[[Offered], list[tuple[str, Arguments]]]
"""Returns the calls of a scenario, given the schemas of the tools that the model was offered."""

PATIENCE = 25.0
"""Seconds for a run; the suite waits 30."""
STUBS: Arguments = {
    "string": "x",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "object": {},
    "array": [],
    "null": None,
}


def main() -> None:
    """Execute one scenario."""
    scenario, url = os.environ["MCP_CONFORMANCE_SCENARIO"], sys.argv[-1]
    asyncio.run(play(url, PLANS.get(scenario, _nothing)))


async def play(url: str, plan: Plan) -> None:
    """Execute a run of an agent that has the server's tools and calls them by that plan."""
    agent = tw.Agent("host", tw.Prompt("host", "Do it.", model=Host(plan)))
    app = tw.App(agents=[agent], mcp={"suite": {"url": url}})
    async with testing.runtime(app) as rt:
        run = await send_to(rt, "host")
        person = asyncio.create_task(answer(rt, run.id))
        ended = await rt.runs.wait(run.id, PATIENCE)
        person.cancel()
        for message in await rt.threads.messages(run.thread_id):
            print(message.role, message.content, file=sys.stderr)
        assert ended.status == "completed", ended


async def answer(rt: Runtime, run_id: str) -> None:
    """Accept every question of the run; fields with defaults keep them."""
    while True:
        for call in await rt.calls.list(run_id=run_id):
            if call.name == "elicit" and call.status in ("waiting", "pending"):
                with suppress(ToolwrightError):
                    await rt.calls.submit(
                        run_id,
                        call.id,
                        {"action": "accept", "content": content_for(json.loads(call.arguments))},
                    )
        await asyncio.sleep(0.02)


def content_for(question: Mapping[str, Any]) -> Arguments:
    """Return the values of a form: the default, or yes if there is none."""
    schema: Arguments = question.get("requestedSchema") or {}
    properties: Offered = schema.get("properties") or {}
    return {
        name: True
        for name, each in properties.items()
        if each.get("type") == "boolean" and "default" not in each
    }


class Host:
    """A model that makes the calls of a plan, one per step, and then is done."""

    name = "host"

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._calls: list[tuple[str, Arguments]] | None = None

    async def respond(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        """Yield the next call."""
        if self._calls is None:
            self._calls = self._plan({tool.name: dict(tool.parameters) for tool in request.tools})
        if not self._calls:
            yield ModelResponse(text="Done.", calls=(), model=self.name, finish_reason="stop")
            return
        name, arguments = self._calls.pop(0)
        call = ModelCall(id=f"call_{request.step}", name=name, arguments=json.dumps(arguments))
        yield ModelResponse(text="", calls=(call,), model=self.name, finish_reason="tool_call")


def _nothing(_: Offered) -> list[tuple[str, Arguments]]:
    return []


def _fixed(*calls: tuple[str, Arguments]) -> Plan:
    return lambda _: list(calls)


def _echo_schema(offered: Offered) -> list[tuple[str, Arguments]]:
    return [("json_schema_echo", {"schema": offered["json_schema_2020_12_tool"]})]


def _every_tool(offered: Offered) -> list[tuple[str, Arguments]]:
    """Return a call of each offered tool, with the smallest valid arguments."""
    return [(name, _least(schema)) for name, schema in offered.items()]


def _least(schema: Arguments) -> Arguments:
    properties: Offered = schema.get("properties") or {}
    required: list[str] = schema.get("required") or []
    return {name: STUBS.get(str(properties.get(name, {}).get("type")), "x") for name in required}


def _of_context(offered: Offered) -> list[tuple[str, Arguments]]:
    """Return the calls that the suite requires, for the offered tools; null is invalid for all of their schemas."""
    context: Arguments = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    wanted: list[Arguments] = context.get("toolCalls") or []
    return [
        (each["name"], _without_null(each.get("arguments") or {}))
        for each in wanted
        if each["name"] in offered
    ]


def _without_null(arguments: Arguments) -> Arguments:
    return {name: each for name, each in arguments.items() if each is not None}


ADD: tuple[str, Arguments] = ("add_numbers", {"a": 5, "b": 3})
PLANS: dict[str, Plan] = {
    "tools_call": _fixed(ADD),
    "request-metadata": _fixed(ADD),
    "http-standard-headers": _fixed(ADD),
    "sse-retry": _fixed(("test_reconnection", {})),
    "elicitation-sep1034-client-defaults": _fixed(("test_client_elicitation_defaults", {})),
    "json-schema-2020-12-preservation": _echo_schema,
    "http-invalid-tool-headers": _every_tool,
    "http-custom-headers": _of_context,
    "sep-2322-client-request-state": _fixed(
        ("test_mrtr_echo_state", {}),
        ("test_mrtr_unrelated", {}),
        ("test_mrtr_no_state", {}),
        ("test_mrtr_no_result_type", {}),
    ),
}


if __name__ == "__main__":
    main()
