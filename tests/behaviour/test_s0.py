"""S0 §1, §2 and §8: function tools and their order among all calls. §4 and handoffs are in `tests/runtime`."""

from typing import Annotated

import pytest
from pydantic import Field

import toolwright as tw
from tests import journals
from tests.behaviour.doors import app_of, carried_out, error_of
from tests.behaviour.marks import requirement
from tests.kit import Watched, call, calls
from tests.runtime.talk import Talk, talking

pytestmark = pytest.mark.anyio


@requirement("S0-1-1", "S0-2-1")
async def test_the_definition_that_is_printed_works() -> None:
    @tw.tool(
        description="Search indexed docs",
        variables=[
            tw.Variable("VECTOR_STORE_ID", type="text", required=True, description="Vector store identifier")
        ],
    )
    async def search(
        state: tw.ThreadState, query: Annotated[str, Field(description="What for")]
    ) -> tw.ToolResult:
        store = await state.env("VECTOR_STORE_ID")
        return tw.ToolResult(status="success", result=f"{query} in {store}")

    env = {"VECTOR_STORE_ID": {"value": "vs_1", "type": "text"}}
    async with carried_out([search], ("search", {"query": "tea"}), env=env) as seen:
        assert [message.content for message in seen.results] == ["tea in vs_1"]
        [offered] = seen.requests[0].tools
        assert (offered.name, offered.description) == ("search", "Search indexed docs")
        assert offered.parameters["properties"] == {"query": {"type": "string", "description": "What for"}}


@tw.tool(description="Note.")
async def note(state: tw.ThreadState, n: int) -> int:
    """Check that the thread's messages include all earlier results while a call is in progress."""
    done = [message.content for message in await state.get_messages() if message.role == "tool"]
    assert done == [str(before) for before in range(n)]
    return n


@requirement("S0-8-1", "S0-8-4")
async def test_arguments_are_validated_and_the_error_is_a_message_after_which_the_run_goes_on() -> None:
    async with carried_out([note], ("note", {"n": "0"}), ("note", {"n": 0.5}), ("nothing", {})) as seen:
        assert [error_of(message)["error_code"] for message in seen.results] == [
            "invalid_arguments",
            "invalid_arguments",
            "unknown_tool",
        ]
        assert (seen.run.status, seen.run.output) == ("completed", "Done.")


@requirement("S0-8-2", "S0-8-3")
async def test_calls_go_one_after_another_in_order_each_result_persisted_before_the_next() -> None:
    model = Watched([calls(*[call("note", n=n) for n in range(4)]), {"text": "Done."}])
    async with talking(app_of(model, [note]), "tester") as talk:
        run = await talk.say()
        assert (run.output, await talk.results()) == ("Done.", ["0", "1", "2", "3"])


@requirement("S0-8-3")
async def test_a_result_is_a_message_of_the_journal_before_the_next_call_begins() -> None:
    seen: list[list[str]] = []

    @tw.tool(description="Look.")
    async def look(state: tw.ThreadState) -> str:
        seen.append([m.content for m in await rt.threads.messages(state.thread_id) if m.role == "tool"])
        return f"look {len(seen)}"

    model = Watched([calls(call("look"), call("look")), {"text": "Done."}])
    async with journals.runtime(app_of(model, [look])) as rt:
        await Talk(rt, (await rt.threads.create("tester")).id).say()
    assert seen == [[], ["look 1"]]
